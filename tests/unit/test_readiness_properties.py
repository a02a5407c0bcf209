"""What holds of readiness for any Application that Argo CD may leave, not only for those of the table."""

import copy
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.decide.application import ASKED_ANNOTATION, REFRESH, REQUEST_ID
from aicr_pipeline.decide.readiness import Readiness, readiness
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tests.unit.applications import OLD, PLACE, READY, REQUEST, SINCE, SOURCE, WANTED

OLDER = {**SOURCE, "targetRevision": OLD}
TIMES = st.integers(-90, 90).map(lambda minutes: SINCE + timedelta(minutes=minutes))
STAMPS = TIMES.map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"))
DIGESTS = st.sampled_from([WANTED, OLD, None])
SOURCES = st.sampled_from([SOURCE, OLDER, {**SOURCE, "helm": {"valuesObject": {"a": 1}}}])
IDS = st.sampled_from([REQUEST, "demo-12345678-1/008-nfd", None])


def some(values: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these fields, none or null: status is written by merge patches, in parts."""
    return st.fixed_dictionaries({}, optional={key: value | st.none() for key, value in values.items()})


def info(request: str | None) -> list[dict[str, str]]:
    return [{"name": REQUEST_ID, "value": request}] if request else []


RESULT = some(
    {"revision": DIGESTS, "resources": st.lists(some({"kind": st.just("Job"), "message": st.text()}))}
)
SYNC = some({"revision": DIGESTS, "resources": st.just([{"kind": "Job"}]), "dryRun": st.booleans()})
OPERATION = st.builds(lambda request, sync: {"info": info(request), "sync": sync}, IDS, SYNC)
PHASES = st.sampled_from(["Running", "Succeeded", "Failed", "Error", "Terminating"])
STATE = some(
    {"phase": PHASES, "startedAt": STAMPS, "finishedAt": STAMPS, "operation": OPERATION,
     "syncResult": RESULT, "message": st.text()}
)  # fmt: skip
CONDITION = some(
    {"type": st.sampled_from(["ComparisonError", "InvalidSpecError", "SharedResourceWarning"]),
     "message": st.text(), "lastTransitionTime": STAMPS}
)  # fmt: skip
ENTRY = some({"id": st.integers(0, 9), "revision": DIGESTS, "source": SOURCES})
STATUS = some(
    {
        "sync": some(
            {
                "status": st.sampled_from(["Synced", "OutOfSync", "Unknown"]),
                "revision": DIGESTS,
                "comparedTo": some({"source": SOURCES, "destination": st.just(PLACE)}),
            }
        ),
        "health": some(
            {
                "status": st.sampled_from(["Healthy", "Degraded", "Progressing", "Missing"]),
                "lastTransitionTime": STAMPS,
            }
        ),
        "reconciledAt": STAMPS,
        "operationState": STATE,
        "conditions": st.lists(CONDITION, max_size=2),
        "history": st.lists(ENTRY, max_size=3),
    }
)
METADATA = st.builds(
    lambda more: {"name": "gpu-operator", "annotations": more},
    some(
        {
            ASKED_ANNOTATION: st.sampled_from([f"{REQUEST} after 3", f"{REQUEST} after -1", "x", ""]),
            REFRESH: st.just("normal"),
        }
    ).map(lambda found: {key: value for key, value in found.items() if value is not None}),
)
ANY = st.builds(
    lambda metadata, source, status, operation: {
        "metadata": metadata,
        "spec": {"source": source, "destination": PLACE},
        "status": status,
        **({"operation": operation} if operation else {}),
    },
    METADATA, SOURCES, STATUS, st.none() | OPERATION,
)  # fmt: skip


def _nearly(status: dict[str, Any], kept: set[str], metadata: dict[str, Any]) -> dict[str, Any]:
    """A ready one, with some parts of its status as they may be left behind."""
    made = copy.deepcopy(READY)
    made["status"] |= {key: value for key, value in status.items() if key not in kept}
    made["metadata"] = metadata
    return made


PARTS = ["sync", "health", "reconciledAt", "operationState", "conditions", "history"]
NEARLY = st.builds(_nearly, STATUS, st.sets(st.sampled_from(PARTS), min_size=3), METADATA)
APPLICATIONS = ANY | NEARLY


def judge(application: dict[str, Any], now: datetime, request: str | None = REQUEST) -> Readiness:
    return readiness(application, WANTED, request, now, since=SINCE)


@given(APPLICATIONS, TIMES)
def test_every_application_gets_a_verdict_and_stays_as_it_is(made: dict[str, Any], now: datetime) -> None:
    before = copy.deepcopy(made)
    for request in (REQUEST, None):
        found = judge(made, now, request)
        assert found.message.startswith("gpu-operator: ")
        assert found == judge(made, now, request)
    assert made == before


@given(NEARLY, TIMES)
def test_ready_means_all_of_it(made: dict[str, Any], now: datetime) -> None:
    """Stated anew, without the order of the checks."""
    if judge(made, now).state != "ready":
        return
    status, state = made["status"], made["status"].get("operationState") or {}
    assert status["sync"]["status"] == "Synced"
    assert status["sync"]["revision"] == WANTED
    assert status["sync"]["comparedTo"]["source"] == made["spec"]["source"]
    assert status["health"]["status"] == "Healthy"
    assert "operation" not in made
    assert state.get("phase") not in ("Running", "Terminating")
    assert REFRESH not in made["metadata"]["annotations"]
    if state.get("finishedAt"):
        assert status["reconciledAt"] >= state["finishedAt"]
    asked = (state.get("operation") or {}).get("info")
    if asked == info(REQUEST) and state["phase"] == "Succeeded" and state["syncResult"]["revision"] == WANTED:
        return
    noted = made["metadata"]["annotations"][ASKED_ANNOTATION]
    assert any(
        entry["id"] > int(noted.rpartition(" ")[2])
        and entry["revision"] == WANTED
        and entry["source"] == made["spec"]["source"]
        for entry in status["history"]
    )


@given(STATUS, TIMES)
def test_a_status_from_before_our_request_is_never_ready(status: dict[str, Any], now: datetime) -> None:
    """Argo CD has not touched it since our write: no operation of ours, no history after it."""
    state = status.get("operationState")
    if state is not None:
        state["operation"] = {"info": info("demo-12345678-0/009-gpu-operator"), "sync": {"revision": WANTED}}
    status["history"] = [entry for entry in status.get("history") or [] if (entry.get("id") or 0) <= 3]
    made = {
        "metadata": {"name": "gpu-operator", "annotations": {ASKED_ANNOTATION: f"{REQUEST} after 3"}},
        "spec": {"source": SOURCE, "destination": PLACE},
        "status": status,
    }
    assert judge(made, now).state != "ready"


#: Fields that say nothing of readiness.
NOISE = st.dictionaries(
    st.sampled_from(["observedAt", "summary", "sourceType", "controllerNamespace", "resourceHealthSource"]),
    st.text() | st.dictionaries(st.text(), st.integers()),
)


@given(APPLICATIONS, NOISE, st.dictionaries(st.text(), st.text()), TIMES)
def test_noise_changes_nothing(
    made: dict[str, Any], noise: dict[str, Any], labels: dict[str, str], now: datetime
) -> None:
    noisy = copy.deepcopy(made)
    noisy["status"].update(noise)
    noisy["metadata"] |= {"labels": labels, "generation": 7, "managedFields": [{"manager": "x"}]}
    noisy["metadata"]["annotations"]["a/note"] = "theirs"
    noisy["spec"]["syncPolicy"] = {"syncOptions": ["x=true"]}
    noisy["spec"]["info"] = [{"name": "a", "value": "b"}]
    assert judge(noisy, now) == judge(made, now)


@given(APPLICATIONS, TIMES, st.integers(0, 10_000))
def test_time_alone_never_makes_ready_and_never_mends(
    made: dict[str, Any], now: datetime, later: int
) -> None:
    first, second = judge(made, now), judge(made, now + timedelta(seconds=later))
    assert (second.state == "ready") == (first.state == "ready")
    if first.state == "failed":
        assert second.state == "failed"


@given(STATUS, st.integers(0, 60))
def test_of_refreshes_there_is_one_in_a_grace_but_for_a_hard_one(status: dict[str, Any], step: int) -> None:
    """A status that never changes, looked at every so often: Argo CD is asked a few times, not for ever."""
    made: dict[str, Any] = {
        "metadata": {"name": "gpu-operator", "annotations": {}},
        "spec": {"source": SOURCE, "destination": PLACE},
        "status": status,
    }
    asked: list[str] = []
    for minute in range(0, 200, max(1, step)):
        now = SINCE + timedelta(minutes=minute)
        found = judge(made, now)
        if found.refresh is not None:
            asked.append(found.refresh)
            note = f"{now.strftime('%Y-%m-%dT%H:%M:%SZ')} {found.refresh}"
            made["metadata"]["annotations"]["aicr-pipeline.dev/refreshed"] = note
        if found.state == "failed":
            break
    assert len(asked) <= 4


@pytest.mark.parametrize("state", ["ready", "waiting", "failed"])
def test_each_verdict_is_among_them(state: str) -> None:
    """Else the properties above could hold of nothing."""
    now = SINCE + timedelta(minutes=20)
    quick = settings(phases=[Phase.generate], max_examples=500, database=None)
    find(APPLICATIONS, lambda made: judge(made, now).state == state, settings=quick)
