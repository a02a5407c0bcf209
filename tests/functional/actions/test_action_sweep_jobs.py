"""The sweeper looks at AICR's Jobs: what they wrote is kept and judged, and their exits have reasons."""

import re
from typing import Any

import pytest
from aicr_pipeline.decide.aicr_job import snapshot_job
from aicr_pipeline.decide.job_state import JobToTryAgainError
from aicr_pipeline.model.reasons import Reason

from local.kube import CONFIG_MAPS, JOBS, PODS
from tests.functional.actions.support import DEADLINE, Place
from tests.unit.samples import IMAGE, ctrf, runtime


def answer(place: Place) -> dict[str, Any]:
    return place.sfn.answered["token of w"]


def outcome(place: Place) -> tuple[str, str]:
    found = answer(place)["output"]["outcome"]
    return found["reason"], found["message"]


SNAPSHOT = """apiVersion: aicr.run/v1
kind: Snapshot
metadata: {version: v1.1.2}
fingerprint: {service: {value: eks}, accelerator: {value: h100}, os: {value: ubuntu},
  k8sVersion: {value: 1.34.2}, nodeCount: {value: 4}}
"""


def job(place: Place, condition: str | None, code: int | None = None, purpose: str = "snapshot",
    words: str = "no such recipe") -> None:  # fmt: skip
    body = snapshot_job("j-1", "run", IMAGE, runtime().spec.placement.accelerated)
    place.store.create(JOBS, body, namespace="aicr-system")
    if condition:
        status = {"conditions": [{"type": condition, "status": "True", "reason": "r", "message": "m"}]}
        place.store.merge_status(JOBS, "j-1", {"status": status}, namespace="aicr-system")
    if code is not None:
        labels = {"job-name": "j-1"}
        spec = {"containers": [{"name": "aicr", "image": IMAGE}]}
        pod = {"metadata": {"name": "j-1-x", "labels": labels}, "spec": spec}
        place.store.create(PODS, pod, namespace="aicr-system")
        state = {"name": "aicr", "state": {"terminated": {"exitCode": code}}}
        place.store.merge_status(
            PODS, "j-1-x", {"status": {"containerStatuses": [state]}}, namespace="aicr-system"
        )
        place.store.append_log("aicr-system", "j-1-x", "aicr", words + "\n")
    wanted = {
        "namespace": "aicr-system", "job": "j-1", "purpose": purpose, "configMap": "j-1",
        "keep": "resolves/run/kept", "aicrVersion": "v1.1.2", "tag": "run-1", "repository": "repo-1",
        "criteria": runtime().spec.criteria.wire(),
    }  # fmt: skip
    place.wait_for("w", "job", wanted)


def config_map(place: Place, **data: str) -> None:
    place.store.create(CONFIG_MAPS, {"metadata": {"name": "j-1"}, "data": data}, namespace="aicr-system")


def test_a_snapshot_is_kept_and_judged(place: Place) -> None:
    config_map(place, **{"snapshot.yaml": SNAPSHOT})
    job(place, "Complete")
    place.sweep()
    assert answer(place)["output"]["nodes"] == 4
    assert place.ledger.get("resolves/run/kept") == SNAPSHOT.encode()


@pytest.mark.parametrize("purpose", ["snapshot", "confirm"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "SnapshotIncomplete"),
        (SNAPSHOT.replace("eks", "unknown"), "SnapshotIncomplete"),
        (SNAPSHOT.replace("h100", "gb200"), "CriteriaConflict"),
        (SNAPSHOT.replace("v1.1.2", "v1.1.3"), "AICRVersionMismatch"),
        ("kind: Other", "AICRArtifactUnsupported"),
    ],
)
def test_a_snapshot_that_does_not_do(place: Place, text: str | None, reason: str, purpose: str) -> None:
    if text is not None:
        config_map(place, **{"snapshot.yaml": text})
    job(place, "Complete", purpose=purpose)
    place.sweep()
    assert outcome(place)[0] == reason
    assert place.ledger.get("resolves/run/kept") is None


def test_what_is_not_known_is_a_conflict_after_the_install(place: Place) -> None:
    config_map(place, **{"snapshot.yaml": SNAPSHOT.replace("h100", "unknown")})
    job(place, "Complete", purpose="confirm")
    place.sweep()
    assert outcome(place)[0] == "CriteriaConflict"


@pytest.mark.parametrize(
    ("code", "reason"), [(2, "AICRInvalidRequest"), (3, "AICRNotFound"), (4, "AICRUnauthorized"),
                         (5, "AICRTimeout"), (8, "AICRInternal"), (1, "AICRInternal")]
)  # fmt: skip
def test_a_job_that_failed_says_why_with_its_last_words(place: Place, code: int, reason: str) -> None:
    job(place, "Failed", code, purpose="render")
    place.sweep()
    found, said = outcome(place)
    assert found == reason
    assert re.search(rf"exit code {code}( \(.*\))?\. Its last words: no such recipe", said)


def test_the_last_words_are_the_last_ones(place: Place) -> None:
    lines = "\n".join(f"{number} {'x ' * 100}" for number in range(400))
    job(place, "Failed", 2, purpose="render", words=f"{lines}\nthe cause")
    place.sweep()
    assert outcome(place)[1].endswith("the cause")


def test_last_words_hold_no_credentials(place: Place) -> None:
    said = "error: GET https://AWS:hunter2pass@registry.example/v2/ with Authorization: Bearer abc.def: 401"
    job(place, "Failed", 2, purpose="render", words=said)
    place.sweep()
    found = outcome(place)[1]
    assert "registry.example/v2/" in found
    assert not [secret for secret in ("hunter2pass", "abc.def") if secret in found]


@pytest.mark.parametrize("code", [6, 7])
def test_aicrs_transient_exits_try_the_state_again(place: Place, code: int) -> None:
    """The name is what the state machine's Retry matches; the state then starts the next attempt."""
    job(place, "Failed", code, purpose="render")
    place.sweep()
    assert answer(place)["error"] == JobToTryAgainError.__name__
    assert JobToTryAgainError.__name__ not in Reason.__members__


def test_a_job_that_runs_or_is_gone_or_late(place: Place) -> None:
    job(place, None, purpose="render")
    place.sweep()
    assert place.sfn.answered == {}
    place.later(6 * 3600)
    place.sweep()
    assert outcome(place) == ("AICRTimeout", f"Job j-1 did not end until {DEADLINE}: it still runs.")
    place.wait_for("gone", "job", {"namespace": "aicr-system", "job": "k", "purpose": "render"})
    place.sweep()
    assert "somebody deleted it" in place.sfn.answered["token of gone"]["output"]["outcome"]["message"]


def report(*statuses: str) -> str:
    return ctrf(*statuses, message="boom").decode()


@pytest.mark.parametrize(
    ("condition", "code", "statuses", "reason"),
    [
        ("Complete", None, ["passed"], None),
        ("Failed", 8, ["passed", "failed"], "RolloutFailed"),
        ("Complete", None, ["passed", "other"], "RolloutFailed"),
        ("Complete", None, ["skipped"], "RolloutFailed"),
        # It may be the push that was refused: once more, with another token.
        ("Failed", 8, ["passed"], "again"),
        ("Failed", 8, None, "again"),
        ("Failed", 2, None, "AICRInvalidRequest"),
        ("Complete", None, None, "AICRInternal"),
    ],
)
def test_the_report_decides_never_the_exit_code_alone(
    place: Place, condition: str, code: int | None, statuses: list[str] | None, reason: str | None
) -> None:
    if statuses is not None:
        config_map(place, **{"report.json": report(*statuses)})
    job(place, condition, code, purpose="validate")
    place.sweep()
    if reason is None:
        assert answer(place)["output"]["repository"] == "repo-1"
    elif reason == "again":
        assert answer(place)["error"] == JobToTryAgainError.__name__
    else:
        assert outcome(place)[0] == reason
    # A report is kept once it is the last: the next attempt writes another.
    assert (place.ledger.get("resolves/run/kept") is None) == (statuses is None or reason == "again")
