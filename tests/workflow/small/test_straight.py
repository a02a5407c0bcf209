"""What all other scenarios are compared with: nothing goes wrong."""

from tests.workflow.small.machine import RELEASES, SmallMachine


def test_install_and_then_other_values(small: SmallMachine) -> None:
    first = small.installed()
    second = small.plan()
    small.start(second)
    small.approve()
    ended = small.ended()
    assert ended.status == "SUCCEEDED", (ended.error, ended.cause)
    outcome = small.outcome(ended.name)
    assert (outcome["outcome"], outcome["installed"]) == ("Succeeded", list(RELEASES))
    assert ended.output["fromPlan"] == first
    # A gate has no values of its own; it runs again because its component changed.
    actions = [step.action for step in ended.steps.values()]
    assert actions == ["Reconfigure"] * 3


def test_a_scenario_begins_with_an_empty_cluster(small: SmallMachine) -> None:
    assert [small.application(release) for release in RELEASES] == [None] * 3
    small.start(small.plan())
    small.approve()
    ended = small.ended()
    assert ended.status == "SUCCEEDED", (ended.error, ended.cause)
    assert [step.action for step in ended.steps.values()] == ["Install"] * 3
