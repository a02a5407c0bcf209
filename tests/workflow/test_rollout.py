"""Rollouts that do not go straight, on a whole machine: each ends in its reason, in words for a person."""

import base64
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.clock import now, rfc3339

from local.argocd import Fault, Scenario
from local.kube import APPLICATIONS, ROLE_BINDINGS, SECRETS
from tests.workflow.leftovers import no_secret_is_left
from tests.workflow.machine import ROOT, Machine, machine, runtime

pytestmark = pytest.mark.timeout(150)


def short_deadline(folder: Path, deadline: str) -> Path:
    """The demo's configuration with another deadline."""
    document = yaml.safe_load((ROOT / "clusters" / "demo.yaml").read_text())
    document["approvals"]["deadline"] = deadline
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.xdist_group("rollout-a")
def test_argo_cd_s_credentials_are_healed_before_the_first_step_and_needed_by_each(tmp_path: Path) -> None:
    with machine(tmp_path / "work", cluster=short_deadline(tmp_path, "35s")) as running:
        store = running.pipeline.kube.store
        assert running.resolve(runtime()).status == "SUCCEEDED"
        link = running.link()
        # Somebody writes another account's password while people are asked, who take their time.
        wrong = base64.b64encode(b"another account's").decode()
        store.merge(SECRETS, "aicr-registry", {"data": {"password": wrong}}, "argocd")
        _look_back(running, minutes=6)
        running.approve()

        def first_is_ready() -> bool:
            found = store.find(APPLICATIONS, "aws-ebs-csi-driver", "argocd") or {}
            return bool(found.get("spec", {}).get("syncPolicy", {}).get("automated"))

        running.wait(first_is_ready, 30, "the first step")
        assert store.get(SECRETS, "aicr-registry", "argocd")["data"]["password"] not in (wrong, "")
        assert _fact(running, "credentials-trouble") is None, "it was healed at once"
        # Later it is emptied, and nothing may write it any more.
        store.delete(ROLE_BINDINGS, "aicr-pipeline-refresh-credentials", "argocd")
        store.merge(SECRETS, "aicr-registry", {"data": {"password": ""}}, "argocd")
        ended = running.rollout()
        outcome = running.outcome(ended.name)
        assert link[1] == "-".join(ended.name.split("-")[-2:])
        assert ended.status == "FAILED"
        assert ended.error in ("RolloutFailed", "RolloutExpired")
        assert re.search(r"step \d+/17 [a-z-]+ \(Install\)", outcome["message"])
        assert "401" in outcome["message"] or "nauthorized" in outcome["message"]
        assert outcome["installed"][0] == "aws-ebs-csi-driver"
        assert len(outcome["installed"]) < 17
        assert outcome["message"][:80] in running.pipeline.aws.messages[-1].message


def _fact(running: Machine, name: str) -> dict[str, Any] | None:
    """A row of the coordination table."""
    table = running.pipeline.aws.outputs["CoordinationTable"]
    key = {"pk": {"S": "FACT"}, "sk": {"S": name}}
    found = running.pipeline.aws.client("dynamodb").get_item(TableName=table, Key=key).get("Item")
    return json.loads(found["value"]["S"]) if found else None


def _look_back(running: Machine, minutes: float) -> None:
    """The registry was last asked so long ago."""
    fact = _fact(running, "credentials")
    assert fact is not None
    fact["checkedAt"] = rfc3339(now() - timedelta(minutes=minutes))
    item = {"pk": {"S": "FACT"}, "sk": {"S": "credentials"}, "value": {"S": json.dumps(fact)}}
    table = running.pipeline.aws.outputs["CoordinationTable"]
    running.pipeline.aws.client("dynamodb").put_item(TableName=table, Item=item)


@pytest.mark.xdist_group("rollout-b")
def test_failed_hook_ends_the_rollout_and_a_fresh_one_continues(tmp_path: Path) -> None:
    fault = Fault(operation="Failed", hook="gpu-operator-readiness-gate", message="gate: not ready", times=1)
    scenario = Scenario({"gpu-operator-readiness": fault})
    with machine(tmp_path, scenario=scenario) as running:
        running.resolve(runtime())
        running.approve()
        ended = running.rollout()
        outcome = running.outcome(ended.name)
        assert (ended.status, ended.error, outcome["outcome"]) == ("FAILED", "RolloutFailed", "Failed")
        assert "step 10/17 gpu-operator-readiness (Install)" in outcome["message"]
        assert (len(outcome["installed"]), outcome["notInstalled"][0]) == (9, "gpu-operator-readiness")
        assert running.pipeline.kube.store.find(APPLICATIONS, "kai-scheduler", "argocd") is None
        # The lock is free: the same wish, submitted again, makes a fresh rollout that goes through.
        sent = len(running.pipeline.aws.messages)
        running.resolve(runtime() + b"# again\n")
        running.approve(after=sent)
        fresh = running.rollout(seen=1)
        assert (fresh.status, fresh.name) == ("SUCCEEDED", ended.name[:-1] + "2"), fresh.cause
        applications = running.pipeline.kube.store.list(APPLICATIONS, "argocd")
        assert len(applications) == 17
        # Self-heal is back on every release once it is ready.
        assert all(
            a["spec"]["syncPolicy"]["automated"] == {"prune": True, "selfHeal": True} for a in applications
        )
        # The active plan is what is wanted: nothing starts a third.
        running.resolve(runtime() + b"# and again\n")
        assert len(running.pipeline.aws.executions(running.pipeline.machine("rollout"))) == 2
        no_secret_is_left(running)


@pytest.mark.xdist_group("rollout-a")
def test_foreign_application_is_never_adopted(tmp_path: Path) -> None:
    with machine(tmp_path) as running:
        foreign = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "cert-manager", "namespace": "argocd"},
            "spec": {
                "project": "aicr",
                "source": {"repoURL": "oci://127.0.0.1:1/x", "path": ".", "targetRevision": "1"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "cert-manager"},
            },
        }
        before = running.pipeline.kube.store.create(APPLICATIONS, foreign, "argocd")
        running.resolve(runtime())
        ended = running.rollout()
        assert (ended.status, ended.error) == ("FAILED", "ForeignObject")
        assert "cert-manager" in (ended.cause or "")
        after = running.pipeline.kube.store.get(APPLICATIONS, "cert-manager", "argocd")
        assert after["spec"] == before["spec"]
        assert [a["metadata"]["name"] for a in running.pipeline.kube.store.list(APPLICATIONS, "argocd")] == [
            "cert-manager"
        ]
