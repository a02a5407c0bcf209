"""Readiness and time: what may pass gets a grace, what is from before us is not held against us."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.decide.application import REFRESH, REFRESHED_ANNOTATION, SKIP
from aicr_pipeline.decide.readiness import Graces, readiness

from tests.unit.applications import (
    GONE,
    INFO,
    OLD,
    REQUEST,
    SINCE,
    STATE,
    WANTED,
    application,
    condition,
    result,
    state,
)

BLOCKED = "Sync operation blocked by sync window"
CACHED = "Failed to load target state: rpc error: Manifest generation error (cached): helm template failed"
PULL = 'Back-off pulling image "nvcr.io/nvidia/driver:580"'
DENIED = "namespace other is not permitted in project 'aicr'"
BEGUN = {"revision": WANTED, "resources": [result("Deployment", "gpu-operator", "serverside-applied")]}
STALE = {"status/reconciledAt": "2026-01-01T10:00:03Z"}
UNTAKEN: dict[str, Any] = {
    "operation": {"info": INFO},
    "status/operationState": GONE,
    "status/reconciledAt": "2026-01-01T09:00:00Z",
}


def stamp(minutes: float) -> str:
    return (SINCE + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def unhealthy(status: str, since: float | None = 1, **more: Any) -> dict[str, Any]:
    at = {} if since is None else {"lastTransitionTime": stamp(since)}
    return {"status/health": {"status": status, **at, **more}}


def trouble(kind: str = "ComparisonError", since: float = 1, message: str = "words") -> dict[str, Any]:
    at = {"lastTransitionTime": stamp(since)}
    return {"status/conditions": [{"type": kind, "message": message, **at}]}


def asked_at(minutes: float, kind: str = "normal") -> dict[str, Any]:
    return annotated(**{REFRESHED_ANNOTATION: f"{stamp(minutes)} {kind}"})


def annotated(**changes: Any) -> dict[str, Any]:
    return {"metadata/annotations": changes}


def resource(kind: str, name: str, message: str = "", status: str = "Degraded") -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "health": {"status": status, **({"message": message} if message else {})},
    }


def case(
    name: str, changes: dict[str, Any], at: float, found: str, said: str = "", refresh: str | None = None
) -> Any:
    """``at``: minutes since we asked; ``found``: the state, or the reason of a failure."""
    return pytest.param(changes, at, found, said, refresh, id=f"{found}: {name}")


DEGRADED = [
    case("degraded, a node reboots", unhealthy("Degraded"), 15, "waiting", "Degraded"),
    case("degraded for longer than a reboot", unhealthy("Degraded"), 17, "RolloutFailed", "Degraded (since"),
    case("degraded since before our sync", unhealthy("Degraded", -60), 14, "waiting"),
    case("degraded since before our sync, and on", unhealthy("Degraded", -60), 16, "RolloutFailed"),
    case("degraded, nobody knows since when", unhealthy("Degraded", None), 14, "waiting"),
    case("degraded, nobody knows since when, long", unhealthy("Degraded", None), 16, "RolloutFailed"),
    case("degraded again after it was well", unhealthy("Degraded", 80), 90, "waiting"),
    case(
        "degraded with a time that is none",
        unhealthy("Degraded", None, lastTransitionTime="x"),
        14,
        "waiting",
    ),
    case("progressing for 90 minutes", unhealthy("Progressing"), 90, "waiting", "Progressing"),
    case("suspended for 90 minutes", unhealthy("Suspended"), 90, "waiting", "Suspended"),
    case("missing for 90 minutes", unhealthy("Missing"), 90, "waiting", "Missing"),
    case(
        "an image that cannot be pulled is what people read",
        {
            **unhealthy("Degraded"),
            "status/resources": [resource("Deployment", "a", "slow"), resource("Pod", "b", PULL)],
        },
        17,
        "RolloutFailed",
        f"Degraded Pod b: {PULL}; Deployment a: slow",
    ),
    case(
        "an image that cannot be pulled, while it progresses",
        {**unhealthy("Progressing"), "status/resources": [resource("Pod", "b", PULL)]},
        5,
        "waiting",
        PULL,
    ),
    case(
        "resources without words are named",
        {**unhealthy("Degraded"), "status/resources": [resource("DaemonSet", "driver")]},
        2,
        "waiting",
        "Degraded DaemonSet driver",
    ),
]

CONDITIONS = [
    case("a comparison error may pass by itself", trouble(), 1.5, "waiting", "words"),
    case("a comparison error that stays is looked at again", trouble(), 3, "waiting", "words", "normal"),
    case("a refresh is asked for once", {**trouble(), **asked_at(2)}, 9, "waiting", "words"),
    case("a cached error needs a hard one", trouble(message=CACHED), 3, "waiting", "(cached)", "hard"),
    case(
        "a hard one follows a normal one",
        {**trouble(message=CACHED), **asked_at(2)},
        3,
        "waiting",
        "",
        "hard",
    ),
    case(
        "a hard one is asked for once",
        {**trouble(message=CACHED), **asked_at(2, "hard")},
        9,
        "waiting",
        "(cached)",
    ),
    case("a comparison error after its grace", trouble(message=CACHED), 12, "RolloutFailed", CACHED),
    case("an unknown error after its grace", trouble("UnknownError"), 12, "RolloutFailed", "words (since"),
    case("a comparison error of the spec before", trouble(since=-600), 5, "waiting", "words", "normal"),
    case("a comparison error of the spec before, and on", trouble(since=-600), 11, "RolloutFailed", "words"),
    case("an error without a time counts from our sync", condition("ComparisonError"), 11, "RolloutFailed"),
    case("the spec is refused now", trouble("InvalidSpecError", message=DENIED), 1, "RolloutFailed", DENIED),
    case("the spec before was refused", trouble("InvalidSpecError", -5, DENIED), 5, "waiting", DENIED),
    case("the spec before was refused, and on", trouble("InvalidSpecError", -5, DENIED), 11, "RolloutFailed"),
    case(
        "an error beside a failed operation",
        {**trouble(), **state(phase="Error", message="boom", syncResult=GONE)},
        1,
        "RolloutFailed",
        "boom",
    ),
]

CONTROLLER = [
    case("the operation waits for the controller", UNTAKEN, 4, "waiting", "not started"),
    case("the operation waits: the write of a refresh wakes it", UNTAKEN, 6, "waiting", "", "normal"),
    case("the operation waits for ever", UNTAKEN, 11, "EngineSuspended", "its operation has not started"),
    case(
        "the operation waits, but others are done",
        {**UNTAKEN, "status/reconciledAt": stamp(59)},
        60,
        "waiting",
        "not started",
    ),
    case("a refresh was missed", annotated(**{REFRESH: "normal"}), 4, "waiting", "a refresh is asked for"),
    case(
        "a refresh was missed and is asked for again",
        annotated(**{REFRESH: "hard"}),
        6,
        "waiting",
        "",
        "normal",
    ),
    case("a refresh is never done", annotated(**{REFRESH: "normal"}), 11, "EngineSuspended", "not done"),
    case(
        "a refresh was asked for a moment ago",
        {**annotated(**{REFRESH: "normal"}), "status/reconciledAt": stamp(59)},
        60,
        "waiting",
    ),
    case("the controller looks no more after the sync", STALE, 0.5, "waiting", "before the sync"),
    case("after the sync it is asked to look", STALE, 2, "waiting", "before the sync", "normal"),
    case("after the sync it never looks", STALE, 11, "EngineSuspended", "Is its controller running?"),
    case(
        "stale and OutOfSync waits for the look too",
        {**STALE, "status/sync/status": "OutOfSync"},
        2,
        "waiting",
        "from before the end of the sync",
        "normal",
    ),
    case(
        "OutOfSync in the second in which the sync ended may be from before that",
        {"status/reconciledAt": "2026-01-01T10:00:04Z", "status/sync/status": "OutOfSync"},
        2,
        "waiting",
        "from before the end of the sync",
        "normal",
    ),
    case(
        "a trouble after the last refresh is looked at soon again",
        {**trouble(since=2), **asked_at(1.5)},
        4,
        "waiting",
        "words",
        "normal",
    ),
    case(
        "the spec is never compared", {"status/sync/comparedTo": GONE}, 11, "EngineSuspended", "not compared"
    ),
    case("a window holds the operation", state(phase="Running", message=BLOCKED), 9, "waiting", BLOCKED),
    case(
        "a window holds the operation for long",
        state(phase="Running", message=BLOCKED),
        11,
        "EngineSuspended",
        BLOCKED,
    ),
    case(
        "a window closes over a sync that has begun",
        state(phase="Running", message=BLOCKED, syncResult=BEGUN),
        90,
        "waiting",
        BLOCKED,
    ),
    case(
        "a window holds the operation, which bears results of an older one",
        state(phase="Running", message=BLOCKED, syncResult={**BEGUN, "revision": OLD}),
        11,
        "EngineSuspended",
        BLOCKED,
    ),
    case("a hook runs for 90 minutes", state(phase="Running", message="waiting for hook"), 90, "waiting"),
    case(
        "out of sync for 90 minutes names what differs",
        {
            "status/sync/status": "OutOfSync",
            "status/resources": [{**resource("Job", "x"), "status": "OutOfSync"}],
        },
        90,
        "waiting",
        "Job x differ",
    ),
]


@pytest.mark.parametrize(("changes", "at", "found", "said", "refresh"), [*DEGRADED, *CONDITIONS, *CONTROLLER])
def test_readiness_in_time(
    changes: dict[str, Any], at: float, found: str, said: str, refresh: str | None
) -> None:
    now = SINCE + timedelta(minutes=at)
    judged = readiness(application(changes), WANTED, REQUEST, now, since=SINCE)
    assert str(judged.reason) == found if judged.state == "failed" else judged.state == found, judged
    assert said in judged.message, judged
    assert judged.refresh == refresh, judged


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, "ready"),
        (unhealthy("Degraded", -10), "waiting"),
        (unhealthy("Degraded", -20), "failed"),
        (unhealthy("Degraded", -20) | {"status/operationState": GONE}, "failed"),
        (trouble(since=-5), "waiting"),
        (trouble(since=-11), "failed"),
        (UNTAKEN, "waiting"),
        (annotated(**{REFRESH: "normal"}), "waiting"),
    ],
)
def test_a_drift_check_has_no_beginning_of_its_own(changes: dict[str, Any], found: str) -> None:
    """Argo CD's own times count; an idle controller is not suspended because it last looked long ago."""
    made = application({"status/operationState/finishedAt": stamp(-60), **changes})
    if "status/reconciledAt" not in changes:
        made["status"]["reconciledAt"] = stamp(-1)
    assert readiness(made, WANTED, None, SINCE).state == found


@pytest.mark.parametrize(
    ("compared", "at", "found", "refresh"),
    [
        (-9, 0.5, "ready", None),
        (-11, 0.5, "waiting", None),
        (-11, 2, "waiting", "normal"),
        (-11, 11, "EngineSuspended", None),
        (1, 2, "ready", None),
        (None, 0.5, "waiting", None),
    ],
)
def test_an_unchanged_release_is_not_ready_by_a_look_from_long_ago(
    compared: float | None, at: float, found: str, refresh: str | None
) -> None:
    """Its step asks for nothing, so a controller that is gone would leave it ready for ever."""
    times = {"status/operationState": GONE, "status/reconciledAt": stamp(compared) if compared else None}
    now = SINCE + timedelta(minutes=at)
    judged = readiness(application(times), WANTED, None, now, since=SINCE)
    assert (str(judged.reason) if judged.state == "failed" else judged.state) == found, judged
    assert judged.refresh == refresh


def test_who_keeps_the_controller_away_is_named() -> None:
    made = application({**UNTAKEN, **annotated(**{SKIP: "true"})})
    judged = readiness(made, WANTED, REQUEST, SINCE + timedelta(minutes=11), since=SINCE)
    assert judged.message.endswith(f"Its annotation {SKIP} keeps the controller away")


def test_graces_are_told(now: datetime = SINCE + timedelta(seconds=30)) -> None:
    graces = Graces(*(timedelta(seconds=20) for _ in range(3)))
    for changes in (unhealthy("Degraded", 0), trouble(since=0), UNTAKEN):
        assert readiness(application(changes), WANTED, REQUEST, now, since=SINCE).state == "waiting"
        assert readiness(application(changes), WANTED, REQUEST, now, graces, SINCE).state == "failed"


def test_the_ready_state_of_this_table_is_ready() -> None:
    """Else a case could wait for a reason that is not the named one."""
    assert (
        readiness(application({}), WANTED, REQUEST, SINCE + timedelta(minutes=1), since=SINCE).state
        == "ready"
    )
    assert STATE["phase"] == "Succeeded"
