"""Starting a resolve: each version once, a slot once, by hand as often as asked."""

from typing import Any

import pytest
from aicr_pipeline.actions.start_resolve import start_resolve
from aicr_pipeline.adapters.runtimes import read_runtime
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.model.reasons import Reason

from tests.functional.actions.support import INBOX, Place
from tests.unit.samples import refused

pytestmark = pytest.mark.usefixtures("submitted")


def arrived(version: str, **more: Any) -> dict[str, Any]:
    return {"detail": {"object": {"key": "runtimes/cluster.yaml", "version-id": version}}, **more}


def begin(place: Place, event: dict[str, Any]) -> dict[str, Any]:
    return start_resolve(event, place.config, place.inbox, place.executions, place.clock)


def slot(at: str) -> dict[str, Any]:
    return {"source": "schedule", "at": at}


HAND = {"source": "hand"}


def test_each_version_is_resolved_once(place: Place) -> None:
    first = place.submit()
    found = begin(place, arrived(first))
    assert found["started"] is True
    assert place.sfn.inputs[found["execution"]] == {
        "run": found["execution"],
        "cluster": "demo",
        "runtimeVersion": first,
        "trigger": "submission",
        "stabilizationSeconds": 600,
    }
    assert begin(place, arrived(first)) == {"started": False, "execution": found["execution"]}
    second = place.submit(paused=True)
    assert begin(place, arrived(first))["started"] is False
    assert begin(place, arrived(second, **{"replay-name": "r"}))["started"] is False
    assert begin(place, arrived(second))["started"] is True
    assert len(place.sfn.executions) == 2


@pytest.mark.parametrize("event", [slot("2026-01-02T06:00:00Z"), HAND], ids=["schedule", "hand"])
def test_before_the_first_runtime_there_is_nothing_to_resolve(place: Place, event: dict[str, Any]) -> None:
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    assert begin(place, event) == {"started": False, "because": "no runtime was submitted yet"}
    version = place.submit()
    assert begin(place, event)["started"] is True
    (run,) = place.sfn.executions
    assert place.sfn.inputs[run]["runtimeVersion"] == version
    assert place.sfn.inputs[run]["trigger"] == event["source"]


def test_a_slot_delivered_twice_starts_one_run(place: Place) -> None:
    version = place.submit()
    found = begin(place, slot("2026-01-02T06:00:00Z"))
    assert found["execution"] == execution_name("demo", version, 202601020600)
    assert "resolves it already" in begin(place, slot("2026-01-02T06:00:00Z"))["because"]
    place.sfn.executions[found["execution"]] = "SUCCEEDED"
    place.later(3000)
    assert begin(place, slot("2026-01-02T06:00:00Z")) == {**found, "started": False}
    assert begin(place, slot("2026-01-03T06:00:00Z"))["started"] is True
    assert len(place.sfn.executions) == 2


@pytest.mark.parametrize("event", [slot("2026-01-02T06:00:00Z"), HAND], ids=["schedule", "hand"])
def test_what_runs_already_is_not_started_again(place: Place, event: dict[str, Any]) -> None:
    first = begin(place, arrived(place.submit()))["execution"]
    assert begin(place, event) == {"started": False, "because": f"run {first} resolves it already"}
    # A run of an older version is in nobody's way.
    place.submit(paused=True)
    assert begin(place, event)["started"] is True


def test_by_hand_the_same_version_has_another_run_each_time(place: Place) -> None:
    version = place.submit()
    names = []
    for _ in range(2):
        found = begin(place, HAND)
        assert found["started"] is True
        names.append(found["execution"])
        place.sfn.executions[found["execution"]] = "FAILED"
        place.later(1)
    assert names == [execution_name("demo", version, 20260101120000 + n) for n in range(2)]
    assert all(len(name) <= 80 for name in names)


def test_a_runtime_that_was_deleted_has_no_version_to_read(place: Place) -> None:
    version = place.submit()
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml", VersionId=version)
    with refused(Reason.Deleting, version):
        read_runtime(place.inbox, version)
