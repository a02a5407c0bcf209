"""What all tests share."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def captured() -> Path:
    """Outputs of the real AICR CLI, no part of the project: ``AICR_DATA``, or beside the checkout."""
    named = os.environ.get("AICR_DATA")
    found = [Path(named)] if named else sorted((ROOT.parent / "shared" / "aicr-data").glob("v*"))
    if not found or not found[-1].is_dir():
        pytest.skip("no captured AICR outputs: set AICR_DATA to a folder that has them")
    return found[-1]
