"""Rollouts that do not go straight: each ends in its reason, in words for a person."""

import base64
import json
import re

import pytest
from aicr_pipeline.model.rollout import step_key

from local.argocd import Fault
from local.kube import APPLICATIONS, ROLE_BINDINGS, SECRETS
from tests.workflow import exhibits
from tests.workflow.leftovers import no_secret_is_left
from tests.workflow.small.machine import RELEASES, SmallMachine
from tests.workflow.small.terminal import told

SLOW = Fault(health="Progressing")


def test_credentials_that_somebody_changed_are_healed_before_the_first_step(small: SmallMachine) -> None:
    store = small.pipeline.kube.store
    small.start(small.plan())
    small.link(after=small.offset)
    wrong = base64.b64encode(b"another account's").decode()
    store.merge(SECRETS, "aicr-registry", {"data": {"password": wrong}}, "argocd")
    # People took their time, so the registry was last asked six minutes ago.
    small.look_back(minutes=6)
    small.approve()
    ended = small.ended()
    assert ended.status == "SUCCEEDED", ended.cause
    assert store.get(SECRETS, "aicr-registry", "argocd")["data"]["password"] not in (wrong, "")
    assert small.fact("credentials-trouble") is None, "it was healed at once"


def test_credentials_that_are_lost_in_the_middle_end_the_step_with_the_registry_s_words(
    small: SmallMachine,
) -> None:
    store = small.pipeline.kube.store
    small.faults(gpu_operator=Fault(blocked=True))
    small.start(small.plan())
    small.approve()
    small.wait(lambda: "sync window" in json.dumps(small.application("gpu-operator")), 60, "a held sync")
    # Emptied, and nothing may write it any more.
    binding = store.get(ROLE_BINDINGS, "aicr-pipeline-refresh-credentials", "argocd")
    store.delete(ROLE_BINDINGS, "aicr-pipeline-refresh-credentials", "argocd")
    password = store.get(SECRETS, "aicr-registry", "argocd")["data"]["password"]
    store.merge(SECRETS, "aicr-registry", {"data": {"password": ""}}, "argocd")
    try:
        small.faults()
        ended = small.ended()
    finally:
        kept = {key: binding[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
        store.apply(kept | {"metadata": {"name": binding["metadata"]["name"]}}, "argocd")
        store.merge(SECRETS, "aicr-registry", {"data": {"password": password}}, "argocd")
    outcome = small.outcome(ended.name)
    assert ended.error == "RolloutFailed", ended.cause
    assert outcome["message"].startswith("step 2/3 gpu-operator (Install)")
    assert "401" in outcome["message"]
    assert (outcome["installed"], outcome["notInstalled"]) == (list(RELEASES[:1]), list(RELEASES[1:]))
    assert outcome["message"][:80] in small.pipeline.aws.messages[-1].message


def test_failed_hook_ends_the_rollout_and_a_fresh_one_continues(small: SmallMachine) -> None:
    fault = Fault(operation="Failed", hook="gpu-operator-readiness-gate", message="gate: not ready", times=1)
    small.faults(gpu_operator_readiness=fault)
    plan = small.plan()
    small.start(plan)
    small.approve()
    ended = small.ended()
    outcome = small.outcome(ended.name)
    assert (ended.status, ended.error, outcome["outcome"]) == ("FAILED", "RolloutFailed", "Failed")
    assert "step 3/3 gpu-operator-readiness (Install)" in outcome["message"]
    assert "gate: not ready" in outcome["message"]
    assert (outcome["installed"], outcome["notInstalled"]) == (list(RELEASES[:2]), list(RELEASES[2:]))
    # The lock is free: the same plan, wanted again, makes a fresh rollout that goes through.
    small.start(plan)
    small.approve()
    fresh = small.ended()
    assert (fresh.status, fresh.name) == ("SUCCEEDED", ended.name[:-1] + "2"), fresh.cause
    applications = small.pipeline.kube.store.list(APPLICATIONS, "argocd")
    assert len(applications) == 3
    # Self-heal is back on every release once it is ready.
    assert all(
        a["spec"]["syncPolicy"]["automated"] == {"prune": True, "selfHeal": True} for a in applications
    )
    # The active plan is what is wanted: nothing starts a third.
    small.start(plan)
    small.pipeline.aws.quiet()
    assert len(small.pipeline.aws.executions(small.pipeline.machine("rollout"))) == small.seen
    no_secret_is_left(small)


def test_foreign_application_is_never_adopted(small: SmallMachine) -> None:
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
    before = small.pipeline.kube.store.create(APPLICATIONS, foreign, "argocd")
    small.start(small.plan())
    ended = small.ended()
    assert (ended.status, ended.error) == ("FAILED", "ForeignObject")
    assert "cert-manager" in (ended.cause or "")
    assert (small.application("cert-manager") or {})["spec"] == before["spec"]
    assert [small.application(release) for release in RELEASES[1:]] == [None, None]


def _requests(small: SmallMachine) -> dict[str, str]:
    """What tells one write of an Application from the next: its own operation's request."""
    found = {}
    for item in small.pipeline.kube.store.list(APPLICATIONS, "argocd"):
        info = item["status"]["operationState"]["operation"].get("info") or []
        found[item["metadata"]["name"]] = next((entry["value"] for entry in info), "self-heal")
    return found


def test_a_change_writes_only_what_it_changes_and_going_back_works(small: SmallMachine) -> None:
    first = small.installed()
    before = _requests(small)

    def surprise(state: dict[str, object]) -> None:
        releases = state["releases"]
        assert isinstance(releases, list)
        releases[1]["values"]["driver"]["surprise"] = {"only": "here"}

    small.start(small.plan(surprise, of=first))
    small.approve()
    second = small.ended()
    assert second.status == "SUCCEEDED", second.cause
    after = _requests(small)
    written = {name for name, request in after.items() if request.startswith(second.name)}
    # The gate of a changed component runs again; nothing else is touched.
    assert written == {"gpu-operator", "gpu-operator-readiness"}
    assert after["cert-manager"] == before["cert-manager"]
    small.start(first)
    small.approve()
    third = small.ended()
    assert third.status == "SUCCEEDED", third.cause
    values = (small.application("gpu-operator") or {})["spec"]["source"]["helm"]["valuesObject"]
    assert "surprise" not in values["driver"]


@pytest.mark.parametrize("step", [1, 2])
def test_revoking_in_the_middle_stops_before_the_next_step(small: SmallMachine, step: int) -> None:
    release = RELEASES[step - 1]
    small.faults(**{release.replace("-", "_"): SLOW})
    small.start(small.plan())
    sent = small.offset
    small.approve()
    small.step(step)
    page = small.revoke(after=sent)
    assert 'data-state="revoked"' in page and "It is not torn down" in page
    small.faults()
    ended = small.ended()
    outcome = small.outcome(ended.name)
    assert (ended.status, ended.error) == ("FAILED", "RolloutRevoked"), ended.cause
    assert outcome["outcome"] == "Revoked"
    # What was in flight became ready, and the gate of the one after it stayed shut.
    assert (outcome["installed"], outcome["notInstalled"]) == (list(RELEASES[:step]), list(RELEASES[step:]))
    missing = RELEASES[step]
    assert re.match(rf"step {step + 1}/3 {missing} .*: Revoked by [a-z]+ at .*: a test", outcome["message"])
    assert small.pipeline.ledger(step_key(ended.name, step + 1)) is None
    page = small.page(after=sent)
    assert 'data-state="revoked"' in page and f"{step} release" in page


def test_a_signing_key_whose_alias_is_gone_stops_where_it_is_needed(small: SmallMachine) -> None:
    """Everything is installed by then: nothing is signed by halves, and a fresh submission goes on."""
    aws = small.pipeline.aws
    alias, kms = f"alias/aicr-pipeline-{small.pipeline.config.cluster.name}-evidence", aws.client("kms")
    (key,) = (one["TargetKeyId"] for one in kms.list_aliases()["Aliases"] if one["AliasName"] == alias)
    wished = small.plan()
    small.start(wished)
    kms.delete_alias(AliasName=alias)
    try:
        small.approve()
        stopped = small.ended()
        small.wait(lambda: "SigningKeyUnavailable" in told(small), 30, "the stall in the status")
    finally:
        kms.create_alias(AliasName=alias, TargetKeyId=key)
    assert (stopped.status, small.outcome(stopped.name)) == ("FAILED", {}), "no end: it can be redriven"
    assert small.pipeline.ledger(f"rollouts/{stopped.name}/binding.json") is None
    sentence = re.search(r"stalled: (.*)", told(small))
    assert sentence and "Signing evidence with " in sentence[1] and alias in sentence[1]
    exhibits.seen(small, "SigningKeyUnavailable", sentence[1], stopped.name)
    small.start(wished)
    small.approve()
    ended = small.ended()
    assert ended.status == "SUCCEEDED", ended.cause
    assert small.pipeline.ledger(f"rollouts/{ended.name}/binding.json") is not None
