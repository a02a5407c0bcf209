"""A cluster that runs already: a change writes what it changes, and going back works."""

import re
from pathlib import Path

import pytest
from aicr_pipeline.model.rollout import step_key

from local.kube import APPLICATIONS
from tests.workflow.machine import Machine, machine, runtime

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("rollout-a")]


def versions(running: Machine) -> dict[str, str]:
    """What tells one write of an Application from the next: its own operation's request."""
    found = {}
    for item in running.pipeline.kube.store.list(APPLICATIONS, "argocd"):
        info = item["status"]["operationState"]["operation"].get("info") or []
        found[item["metadata"]["name"]] = next((entry["value"] for entry in info), "self-heal")
    return found


def rolled_out(running: Machine, wish: bytes, seen: int) -> str:
    """Submit, approve, and return the rollout's name once it succeeded."""
    sent = len(running.pipeline.aws.messages)
    assert running.resolve(wish).status == "SUCCEEDED"
    running.approve(after=sent)
    ended = running.rollout(seen=seen)
    assert ended.status == "SUCCEEDED", ended.cause
    return ended.name


def test_a_change_writes_only_what_it_changes_and_going_back_works(tmp_path: Path) -> None:
    override = {"gpu-operator": {"driver.surprise": {"only": "here"}}}
    with machine(tmp_path) as running:
        first = rolled_out(running, runtime(), 0)
        before = versions(running)
        assert {request.split("/")[0] for request in before.values()} == {first}
        second = rolled_out(running, runtime(overrides=override), 1)
        after = versions(running)
        written = {name for name, request in after.items() if request.startswith(second)}
        # The gate of a changed component runs again; nothing else is touched.
        assert written == {"gpu-operator", "gpu-operator-readiness"}
        assert all(after[name] == before[name] for name in after if name not in written)
        third = rolled_out(running, runtime() + b"# back\n", 2)
        values = running.pipeline.kube.store.get(APPLICATIONS, "gpu-operator", "argocd")["spec"]["source"][
            "helm"
        ]
        assert "surprise" not in values["valuesObject"]["driver"]
        assert third.split("-")[1] == first.split("-")[1], "the same plan as the first"


def test_revoking_in_the_middle_stops_before_the_next_step(tmp_path: Path) -> None:
    with machine(tmp_path) as running:
        assert running.resolve(runtime()).status == "SUCCEEDED"
        running.approve()
        name = str(running.pipeline.aws.executions(running.pipeline.machine("rollout"))[-1].name)
        running.wait(lambda: running.pipeline.ledger(step_key(name, 1)) is not None, 30, "the first step")
        page = running.revoke()
        assert 'data-state="revoked"' in page and "It is not torn down" in page
        ended = running.rollout()
        outcome = running.outcome(ended.name)
        assert (ended.status, ended.error) == ("FAILED", "RolloutRevoked"), ended.cause
        assert (ended.name, outcome["outcome"]) == (name, "Revoked")
        done, missing = outcome["installed"], outcome["notInstalled"]
        assert done and missing and len(done) + len(missing) == 17
        # What was in flight became ready, and the gate of the one after it stayed shut.
        assert re.match(
            rf"step {len(done) + 1}/17 {missing[0]} .*: Revoked by [a-z]+ at .*: a test", outcome["message"]
        )
        assert running.pipeline.ledger(step_key(name, len(done))) is not None
        assert running.pipeline.ledger(step_key(name, len(done) + 1)) is None
        page = running.page()
        assert 'data-state="revoked"' in page and f"{len(done)} releases ready" in page.replace(
            "1 release r", "1 releases r"
        )
