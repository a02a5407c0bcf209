"""Ready at the current revision. Each field of the status may be of the revision before: one table."""

import copy
from typing import Any

import pytest
from aicr_pipeline.decide.application import REQUEST_ID
from aicr_pipeline.decide.readiness import readiness

from tests.unit.applications import (
    GONE,
    INFO,
    NOW,
    OLD,
    PLACE,
    READY,
    REQUEST,
    SINCE,
    SOURCE,
    WANTED,
    application,
    condition,
    result,
    state,
)


def case(
    name: str, changes: dict[str, Any], found: str, said: str = "", request: str | None = REQUEST
) -> Any:
    return pytest.param(changes, request, found, said, id=f"{found}: {name}")


FAILED_HOOK = {
    "revision": WANTED,
    "resources": [
        result("Service", "s", "fine", status="Synced"),
        result("Job", "gate", "gate failed: no GPU", hookPhase="Failed"),
    ],
}
NOT_PERMITTED = {
    "revision": WANTED,
    "resources": [
        result("Role", "r", "namespace other is not permitted in project 'aicr'", status="SyncFailed")
    ],
}
COMPARED = "status/sync/comparedTo"

STALE = [
    case(
        "a refresh is asked for",
        {"metadata/annotations": {"argocd.argoproj.io/refresh": "normal"}},
        "waiting",
        "refresh",
    ),
    case(
        "a hard refresh is asked for",
        {"metadata/annotations": {"argocd.argoproj.io/refresh": "hard"}},
        "waiting",
        "refresh",
    ),
    case(
        "an empty refresh annotation counts",
        {"metadata/annotations": {"argocd.argoproj.io/refresh": ""}},
        "waiting",
        "refresh",
    ),
    case("our operation was not picked up", {"operation": {"info": INFO}}, "waiting", "not started"),
    case("somebody's operation was not picked up", {"operation": {"sync": {}}}, "waiting", "not started"),
    case("nothing was ever reconciled", {"status": GONE}, "waiting", "our operation is not the one"),
    case("status is empty", {"status": {}}, "waiting", "our operation is not the one"),
    case("no operation state", {"status/operationState": GONE}, "waiting", "our operation is not the one"),
    case(
        "operation state is null", {"status/operationState": None}, "waiting", "our operation is not the one"
    ),
    case(
        "the operation before",
        state(
            operation={
                "info": [{"name": REQUEST_ID, "value": "demo-1/008-nfd"}],
                "sync": {"revision": WANTED},
            }
        ),
        "waiting",
        "not the one",
    ),
    case(
        "an operation without info", state(operation={"sync": {"revision": WANTED}}), "waiting", "not the one"
    ),
    case(
        "our id under another name",
        state(operation={"info": [{"name": "x", "value": REQUEST}], "sync": {"revision": WANTED}}),
        "waiting",
        "not the one",
    ),
    case(
        "the step's id of another rollout",
        state(operation={"info": [{"name": REQUEST_ID, "value": "demo-12345678-2/009-gpu-operator"}]}),
        "waiting",
        "not the one",
    ),
    case(
        "the failure before is not ours",
        state(phase="Failed", operation={"info": []}),
        "waiting",
        "not the one",
    ),
    case(
        "compared to the source before",
        {COMPARED: {"source": {**SOURCE, "targetRevision": OLD}, "destination": PLACE}},
        "waiting",
        "not compared",
    ),
    case(
        "compared to values before",
        {COMPARED: {"source": {**SOURCE, "helm": {"valuesObject": {"a": 1}}}, "destination": PLACE}},
        "waiting",
        "not compared",
    ),
    case(
        "compared to the destination before",
        {COMPARED: {"source": SOURCE, "destination": {**PLACE, "namespace": "old"}}},
        "waiting",
        "not compared",
    ),
    case("never compared", {COMPARED: GONE}, "waiting", "not compared"),
    case("synced at the revision before", {"status/sync/revision": OLD}, "waiting", f"Synced at {OLD[:19]}"),
    case("no synced revision", {"status/sync/revision": GONE}, "waiting", "no revision"),
    case("a version and no digest", {"status/sync/revision": "1.2.3"}, "waiting", "Synced at 1.2.3"),
    case("out of sync", {"status/sync/status": "OutOfSync"}, "waiting", "OutOfSync"),
    case("sync unknown", {"status/sync/status": "Unknown"}, "waiting", "Unknown"),
    case("no sync status", {"status/sync/status": GONE}, "waiting", "Unknown"),
    case(
        "the result is of the revision before", state(syncResult={"revision": OLD}), "waiting", "not finished"
    ),
    case("no result", state(syncResult=GONE), "waiting", "not finished"),
    case("no finish time", state(finishedAt=GONE), "waiting", "not finished"),
    case("no phase", state(phase=GONE), "waiting", "not finished"),
    case(
        "the asked revision leaked",
        state(operation={"info": INFO, "sync": {"revision": OLD}}),
        "waiting",
        "not finished",
    ),
    case(
        "the asked revision is missing",
        state(operation={"info": INFO, "sync": {}}),
        "waiting",
        "not finished",
    ),
    case(
        "a selective sync leaked",
        state(
            operation={
                "info": INFO,
                "sync": {"revision": WANTED, "resources": [{"kind": "Job", "name": "x"}]},
            }
        ),
        "waiting",
        "not finished",
    ),
    case(
        "health from before the sync",
        {"status/reconciledAt": "2026-01-01T10:00:03Z"},
        "waiting",
        "before the sync",
    ),
    case("never reconciled", {"status/reconciledAt": GONE}, "waiting", "before the sync"),
    case("no health", {"status/health": GONE}, "waiting", "health unknown"),
]

UNDER_WAY = [
    case(
        "running",
        state(phase="Running", message="waiting for hook gate"),
        "waiting",
        "sync is running: waiting for hook gate",
    ),
    case("running with a finish time: a retry", state(phase="Running"), "waiting", "sync is running"),
    case(
        "blocked by a window",
        state(phase="Running", message="Sync operation blocked by sync window"),
        "waiting",
        "sync window",
    ),
    case("terminating", state(phase="Terminating"), "waiting", "sync is running"),
    case(
        "progressing",
        {"status/health": {"status": "Progressing", "message": "2 of 3"}},
        "waiting",
        "Progressing 2 of 3",
    ),
    case("suspended", {"status/health": {"status": "Suspended"}}, "waiting", "Suspended"),
    case("degraded", {"status/health": {"status": "Degraded", "message": "0/1"}}, "waiting", "Degraded 0/1"),
    case("missing", {"status/health": {"status": "Missing"}}, "waiting", "Missing"),
    case("health unknown", {"status/health": {"status": "Unknown"}}, "waiting", "Unknown"),
    case(
        "a comparison error may pass",
        condition("ComparisonError", "Failed to load target state: 401"),
        "waiting",
        "401",
    ),
    case("a sync error", condition("SyncError"), "waiting", "words"),
    case("an unknown error", condition("UnknownError"), "waiting", "words"),
    case(
        "running under a comparison error",
        {**state(phase="Running"), **condition("ComparisonError")},
        "waiting",
        "running",
    ),
]

FAILED = [
    case(
        "the operation failed",
        state(phase="Failed", message="one or more tasks failed", syncResult={"revision": WANTED}),
        "failed",
        "one or more tasks failed",
    ),
    case("the operation erred", state(phase="Error", message="boom"), "failed", "boom"),
    case(
        "a hook failed, in its own words",
        state(phase="Failed", syncResult=FAILED_HOOK),
        "failed",
        "Job gate: gate failed: no GPU",
    ),
    case(
        "a namespace that is not permitted",
        state(phase="Failed", syncResult=NOT_PERMITTED),
        "failed",
        "namespace other is not permitted in project 'aicr'",
    ),
    case("failed without words", state(phase="Failed"), "failed", "the sync failed"),
    case(
        "failed, words in a condition",
        {**state(phase="Failed"), **condition("SyncError", "denied")},
        "failed",
        "denied",
    ),
    case(
        "the spec is refused",
        condition("InvalidSpecError", "application repo x is not permitted in project 'aicr'"),
        "failed",
        "not permitted in project",
    ),
    case(
        "the spec is refused before any operation",
        {**condition("InvalidSpecError", "no project"), "status/operationState": GONE},
        "failed",
        "no project",
    ),
    case(
        "the spec is refused, whatever the order",
        {
            "status/conditions": [
                {"type": "ComparisonError", "message": "a"},
                {"type": "InvalidSpecError", "message": "b"},
            ]
        },
        "failed",
        "b",
    ),
    case("the spec is refused on a drift check", condition("InvalidSpecError"), "failed", "words", None),
]

FINE = [
    case("everything holds", {}, "ready", f"Synced and Healthy at {WANTED[:19]}"),
    case("reconciled in the second it finished", {"status/reconciledAt": "2026-01-01T10:00:04Z"}, "ready"),
    case("no annotations", {"metadata/annotations": GONE}, "ready"),
    case("a warning is no error", condition("SharedResourceWarning"), "ready"),
    case("conditions are null", {"status/conditions": None}, "ready"),
    case("automated is back", {"spec/syncPolicy": {"automated": {"prune": True}}}, "ready"),
    case(
        "more info than ours",
        state(
            operation={
                "info": [{"name": "a", "value": "b"}, *INFO],
                "sync": {"revision": WANTED, "resources": []},
            }
        ),
        "ready",
    ),
    case("an operation of null is none", {"operation": None}, "ready"),
    case("Unchanged asks for no request id", state(operation={"info": []}), "ready", "", None),
    case(
        "self-heal's own operation, later",
        state(operation={"sync": {"revision": WANTED}, "initiatedBy": {"automated": True}}),
        "ready",
        "",
        None,
    ),
    case("Unchanged and never synced by us", {"status/operationState": GONE}, "ready", "", None),
    case("a failed self-heal of a synced release", state(phase="Failed"), "ready", "", None),
    case(
        "self-heal's selective sync",
        state(operation={"sync": {"resources": [{"kind": "Job", "name": "x"}]}}),
        "ready",
        "",
        None,
    ),
]

UNCHANGED = [
    case("Unchanged, self-heal runs", state(phase="Running", operation={}), "waiting", "running", None),
    case("Unchanged at another revision", {"status/sync/revision": OLD}, "waiting", "Synced at", None),
    case("Unchanged, drifted", {"status/sync/status": "OutOfSync"}, "waiting", "OutOfSync", None),
    case("Unchanged, degraded", {"status/health": {"status": "Degraded"}}, "waiting", "Degraded", None),
    case("Unchanged, not compared", {COMPARED: {}}, "waiting", "not compared", None),
    case("Unchanged, an operation waits", {"operation": {"sync": {}}}, "waiting", "not started", None),
    case("Unchanged, nothing known", {"status": GONE}, "waiting", "", None),
]


@pytest.mark.parametrize(
    ("changes", "request_id", "found", "said"), [*STALE, *UNDER_WAY, *FAILED, *FINE, *UNCHANGED]
)
def test_readiness(changes: dict[str, Any], request_id: str | None, found: str, said: str) -> None:
    judged = readiness(application(changes), WANTED, request_id, NOW, since=SINCE)
    assert (judged.state, said in judged.message) == (found, True), judged
    assert judged.message.startswith("gpu-operator: ")


def test_nothing_but_the_whole_status_is_ready() -> None:
    """Drop each field that readiness looks at, one at a time: none of them is decoration."""
    paths = [
        "status/sync", "status/sync/status", "status/sync/revision", "status/sync/comparedTo",
        "status/sync/comparedTo/source", "status/sync/comparedTo/destination", "status/health",
        "status/health/status", "status/reconciledAt", "status/operationState", "status/operationState/phase",
        "status/operationState/finishedAt", "status/operationState/operation",
        "status/operationState/operation/info", "status/operationState/operation/sync",
        "status/operationState/operation/sync/revision", "status/operationState/syncResult",
        "status/operationState/syncResult/revision",
    ]  # fmt: skip
    for path in paths:
        assert readiness(application({path: GONE}), WANTED, REQUEST, NOW).state == "waiting", path


def test_it_does_not_write_to_what_it_judges() -> None:
    before = copy.deepcopy(READY)
    readiness(READY, WANTED, REQUEST, NOW)
    assert before == READY
