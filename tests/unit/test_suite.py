"""The suite about itself."""

import pytest


@pytest.mark.xdist_group("together")
def test_tests_of_a_group_run_on_one_worker(request: pytest.FixtureRequest) -> None:
    """A module's tests share a whole machine: two workers would each start one, and see half the tests."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("not run with --dist loadgroup")
    assert request.node.nodeid.endswith("@together")
