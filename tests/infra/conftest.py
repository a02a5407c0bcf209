"""The synthesized templates, once per content of the project."""

from pathlib import Path

import pytest

from infra.sources import ROOT
from infra.synth import synthesize
from tests.infra.templates import Stack

PRIVATE = Path(__file__).parent / "clusters" / "private.yaml"
DEMO = ROOT / "clusters" / "demo.yaml"


@pytest.fixture(scope="session")
def demo() -> Stack:
    """The demo cluster's stack."""
    return Stack(synthesize(DEMO))


@pytest.fixture(scope="session")
def private() -> Stack:
    """A cluster behind a private endpoint, with another registry and a compliance lock."""
    return Stack(synthesize(PRIVATE))


@pytest.fixture(params=["demo", "private"])
def stack(request: pytest.FixtureRequest) -> Stack:
    """Each of the stacks."""
    found: Stack = request.getfixturevalue(request.param)
    return found
