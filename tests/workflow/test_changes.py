"""A cluster that runs already: a change writes what it changes, and going back works."""

from pathlib import Path

import pytest

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
