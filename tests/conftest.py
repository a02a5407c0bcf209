"""What all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
#: The fast ones first.
_ORDER = ("unit", "functional", "infra", "chaos", "browser", "workflow")

# How long an example takes tells of other work on the machine. With CI set Hypothesis does this itself.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("shared")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders in the order of ``_ORDER``; where workers share the tests the longest first."""
    shared = "PYTEST_XDIST_WORKER" in os.environ
    items.sort(key=_place, reverse=shared)


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    return _ORDER.index(folder) if folder in _ORDER else len(_ORDER)


@pytest.fixture(scope="session")
def captured() -> Path:
    """Outputs of the real AICR CLI, no part of the project: ``AICR_DATA``, or beside the checkout."""
    named = os.environ.get("AICR_DATA")
    found = [Path(named)] if named else sorted((ROOT.parent / "shared" / "aicr-data").glob("v*"))
    if not found or not found[-1].is_dir():
        pytest.skip("no captured AICR outputs: set AICR_DATA to a folder that has them")
    return found[-1]
