"""Readiness when somebody else's operation stands where ours was; and the words of what failed."""

from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline.decide.application import ASKED_ANNOTATION
from aicr_pipeline.decide.readiness import readiness

from tests.unit.applications import (
    GONE,
    INFO,
    OLD,
    REQUEST,
    SINCE,
    SOURCE,
    WANTED,
    application,
    result,
    state,
)
from tests.unit.test_readiness_time import BLOCKED, CACHED, DENIED, PULL, STALE, case, stamp


def asked(*history: dict[str, Any], after: int = 3, request: str = REQUEST) -> dict[str, Any]:
    """What our write left, and Argo CD's history since."""
    return {
        "metadata/annotations": {ASKED_ANNOTATION: f"{request} after {after}"},
        "status/history": list(history),
    }


def entry(id: int, revision: str = WANTED, **source: Any) -> dict[str, Any]:
    return {"id": id, "revision": revision, "source": {**SOURCE, **source}, "deployedAt": stamp(1)}


def others(phase: str = "Succeeded", by: str = "alice", **sync: Any) -> dict[str, Any]:
    """Somebody else's operation stands in the status, where ours was."""
    operation = {"initiatedBy": {"username": by}, "sync": {"revision": WANTED, **sync}}
    return state(phase=phase, operation=operation)


SELF_HEALED = state(
    operation={
        "initiatedBy": {"automated": True},
        "sync": {"revision": WANTED, "resources": [{"kind": "Job", "name": "x"}]},
    }
)


SOMEBODY = [
    case("self-heal after our sync", {**asked(entry(4)), **SELF_HEALED}, 5, "ready"),
    case("a person's whole sync after ours", {**asked(entry(4), entry(5)), **others()}, 5, "ready"),
    case("a person's whole sync in the place of ours", {**asked(entry(4)), **others()}, 5, "ready"),
    case("a failed sync after ours", {**asked(entry(4)), **others("Failed")}, 5, "ready"),
    case(
        "a person's sync of one resource after ours",
        {**asked(entry(4)), **others(resources=[{"kind": "Job", "name": "x"}])},
        5,
        "ready",
    ),
    case("ours lost its state", {**asked(entry(4)), "status/operationState": GONE}, 5, "ready"),
    case(
        "ours leaked a selection, a whole one followed",
        {
            **asked(entry(4)),
            **state(operation={"info": INFO, "sync": {"resources": [{"kind": "Job", "name": "x"}]}}),
        },
        5,
        "ready",
    ),
    case("history is from before we asked", {**asked(entry(3)), **others()}, 5, "waiting", "one of alice"),
    case("history is of another digest", {**asked(entry(4, OLD)), **others()}, 5, "waiting", "one of alice"),
    case(
        "history is of other values",
        {**asked(entry(4, helm={"valuesObject": {"a": 1}})), **others()},
        5,
        "waiting",
        "one of alice",
    ),
    case(
        "history is after another request",
        {**asked(entry(4), request="demo-12345678-2/009-gpu-operator"), **others()},
        5,
        "waiting",
        "one of alice",
    ),
    case("history is long gone", {**asked(), **others()}, 5, "waiting", "one of alice"),
    case(
        "nobody noted the history", {"status/history": [entry(4)], **others()}, 5, "waiting", "one of alice"
    ),
    case(
        "history says done, health is from before",
        {**asked(entry(4)), **SELF_HEALED, **STALE},
        0.5,
        "waiting",
        "before the sync",
    ),
    case(
        "history says done, another revision is synced",
        {**asked(entry(4)), **SELF_HEALED, "status/sync/revision": OLD},
        5,
        "waiting",
        "not at",
    ),
    case(
        "a person's sync runs",
        {**asked(entry(4)), **others("Running")},
        5,
        "waiting",
        "a sync of alice is running",
    ),
    case(
        "a window holds a person's sync",
        {**others("Running"), "status/operationState/message": BLOCKED},
        60,
        "waiting",
        "a sync of alice is running",
    ),
    case(
        "another sync in the place of ours, for long",
        {**asked(), **others()},
        11,
        "RolloutFailed",
        "our operation is not the one Argo CD reports, but one of alice",
    ),
    case(
        "automated sync in the place of ours, for long",
        {**asked(), **SELF_HEALED},
        11,
        "RolloutFailed",
        "automated sync",
    ),
    case("our operation is gone", {"status/operationState": GONE}, 11, "RolloutFailed", "there is none"),
    case(
        "our sync was a selective one",
        state(operation={"info": INFO, "sync": {"resources": [{"kind": "Job", "name": "x"}]}}),
        11,
        "RolloutFailed",
        "not finished at the wanted digest",
    ),
    case(
        "our sync was a dry run",
        state(operation={"info": INFO, "sync": {"revision": WANTED, "dryRun": True}}),
        5,
        "waiting",
        "not finished",
    ),
]


def failed(kind: str, name: str, message: str) -> dict[str, Any]:
    return result(kind, name, message, status="SyncFailed")


WORDS = [
    case(
        "each refused resource says why",
        state(
            phase="Failed",
            syncResult={
                "revision": WANTED,
                "resources": [failed("Role", "a", DENIED), failed("Role", "b", DENIED)],
            },
        ),
        1,
        "RolloutFailed",
        f"Role a: {DENIED}; Role b: {DENIED}",
    ),
    case(
        "many refused resources are counted",
        state(
            phase="Failed",
            syncResult={"revision": WANTED, "resources": [failed("Role", str(n), DENIED) for n in range(9)]},
        ),
        1,
        "RolloutFailed",
        "; and 6 more",
    ),
    case(
        "results of an older operation are not its words",
        state(
            phase="Error",
            message="boom",
            syncResult={"revision": OLD, "resources": [failed("Role", "a", DENIED)]},
        ),
        1,
        "RolloutFailed",
        "gpu-operator: boom",
    ),
    case(
        "a cached error fails, and is cleared for the next rollout",
        state(phase="Error", message=f"ComparisonError: {CACHED}", syncResult={"revision": WANTED}),
        1,
        "RolloutFailed",
        CACHED,
        "hard",
    ),
    case(
        "a hook's image cannot be pulled",
        state(
            phase="Running",
            message="waiting for completion of hook batch/Job/gate",
            syncResult={
                "revision": WANTED,
                "resources": [result("Job", "gate", PULL, hookPhase="Running")],
            },
        ),
        60,
        "waiting",
        f"waiting for completion of hook batch/Job/gate; Job gate: {PULL}",
    ),
]


@pytest.mark.parametrize(("changes", "at", "found", "said", "refresh"), [*SOMEBODY, *WORDS])
def test_readiness_beside_others(
    changes: dict[str, Any], at: float, found: str, said: str, refresh: str | None
) -> None:
    now = SINCE + timedelta(minutes=at)
    judged = readiness(application(changes), WANTED, REQUEST, now, since=SINCE)
    assert str(judged.reason) == found if judged.state == "failed" else judged.state == found, judged
    assert said in judged.message, judged
    assert judged.refresh == refresh, judged
