"""One small machine for all scenarios of this folder; each begins with an empty cluster."""

from collections.abc import Iterator

import pytest

from tests.workflow.small.machine import SmallMachine, small_machine


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All on one worker: a process has one local engine at a time."""
    for item in items:
        if item.path.parent.name == "small":
            item.add_marker(pytest.mark.xdist_group("small"))
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="package")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallMachine]:
    with small_machine(tmp_path_factory.mktemp("small")) as found:
        yield found


@pytest.fixture
def small(_running: SmallMachine) -> SmallMachine:
    """The machine, cleaned."""
    _running.clean()
    return _running
