"""Bind evidence: what is stated, and that it is bound once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.adapters.approvals import approval_record_key
from aicr_pipeline.clock import after, parse_time
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.deployed import deployed_digest
from aicr_pipeline.decide.dsse import read_envelope
from aicr_pipeline.decide.verify import VALID, pem, verify
from aicr_pipeline.model.evidence import BoundPipeline
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key, step_key

from tests.evidence_world import BEGAN, CHECKS, ROLLOUT, EvidenceWorld, der_of
from tests.functional.actions.binding import evidence_keys, make, plan_of, predicate_of, server
from tests.unit.samples import ASSETS, refused, sha

__all__ = ["make", "server"]


# What is stated


def test_everything_that_the_support_policy_names_is_bound(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    bound = world.bind()
    found = predicate_of(world, bound)
    assert bound["qualifying"] is True
    assert bound["aicrSigned"] is False
    assert found["pipeline"] == ASSETS.wire()
    assert found["tuple"] == {
        "instanceTypes": ["p5.48xlarge"],
        "nodeImages": ["ami-0123456789abcdef0"],
        "kernels": ["6.17.0"],
        "drivers": ["580.173.02"],
        "gpuMode": "gpu-operator",
        "fabrics": ["efa (aws-efa 0.5.29)"],
        "workloadImages": ["pytorch/pytorch@" + sha("torch")],
    }
    assert [(one["check"], one["digest"]) for one in found["validators"]] == [
        (name, sha("validator")) for name in sorted(CHECKS)
    ]
    aicr = found["aicrEvidence"]
    assert aicr["digest"] == world.evidence_digest
    assert aicr["signed"] is False
    files = {name: text for name, (text, _) in world.aicr_files().items()}
    assert aicr["statementDigest"] == sha256(files["statement.intoto.json"])
    assert aicr["manifestDigest"] == sha256(files["manifest.json"])
    assert aicr["attestedAt"] == "2026-01-01T11:50:00Z"
    assert found["runtimeDigest"] == sha("runtime")
    stored = world.s3.objects
    assert found["approval"]["digest"] == sha256(stored[rollout_key(ROLLOUT, "decision")])
    assert found["documents"] == {
        key: sha256(stored[key])
        for key in (
            plan_key(world.plan.desired_state_digest),
            f"resolves/{world.plan.recorded.run}/recipe.yaml",
            *(rollout_key(ROLLOUT, name) for name in ("rollout", "report", "request", "decision")),
            *(rollout_key(ROLLOUT, name) for name in ("validation", "validators")),
            f"rollouts/{ROLLOUT}/snapshot.yaml",
            # What was deployed at the start, and at each step.
            rollout_key(ROLLOUT, "deployed"),
            *(step_key(ROLLOUT, index) for index in (1, 2, 3)),
        )
    }


def test_each_of_two_approvers_has_a_record_bound(make: Callable[..., EvidenceWorld]) -> None:
    world = make(approvers=("alex", "kim"))
    approval = predicate_of(world, world.bind())["approval"]
    assert approval["decisions"] == [
        {
            "by": name,
            "identity": "signed-in",
            "issuer": "https://issuer.example.com",
            "principal": f"sub-{name}",
            "reason": "Looks right",
            "at": after(BEGAN, number),
            "expiresAt": approval["expiresAt"],
            "digest": sha256(world.s3.objects[approval_record_key(ROLLOUT, name)]),
        }
        for number, name in enumerate(("alex", "kim"))
    ]


def test_a_bypass_is_bound_and_never_qualifies(make: Callable[..., EvidenceWorld]) -> None:
    world = make(bypass=True)
    bound = world.bind()
    assert bound["qualifying"] is False
    found = predicate_of(world, bound)
    assert "approval was bypassed: nobody was asked" in found["notQualifyingBecause"]
    assert found["approval"]["digest"] == sha256(world.s3.objects[rollout_key(ROLLOUT, "bypass")])


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda world: world.s3.objects.pop(rollout_key(ROLLOUT, "validators")), "which validators ran"),
        (lambda world: {"pipeline": BoundPipeline(version="1")}, "digests of the pipeline's functions"),
        (lambda world: {"local_engine": True}, "it ran in the local engine"),
    ],
    ids=["no validators", "no assets", "local engine"],
)
def test_what_is_missing_is_said(
    make: Callable[..., EvidenceWorld], spoil: Callable[[EvidenceWorld], Any], why: str
) -> None:
    world = make()
    changes = spoil(world)
    bound = world.bind(**(changes if isinstance(changes, dict) and "check" not in changes else {}))
    assert bound["qualifying"] is False
    assert any(why in said for said in predicate_of(world, bound)["notQualifyingBecause"])


def test_seventeen_releases_stay_below_64_kb(make: Callable[..., EvidenceWorld]) -> None:
    functions = {f"function_number_{number}": sha(number) for number in range(45)}
    pipeline = ASSETS.model_copy(update={"functions": functions})
    world = make(releases=17, approvers=("alex", "kim"), pipeline=pipeline)
    bound = world.bind()
    sealed = world.ledger.get(bound["key"]) or b""
    assert len(read_envelope(sealed).payload) < 64 * 1024
    assert verify(sealed, der_of(world.kms.key), plan_of(world), require_qualifying=True).code == VALID


NEWER = ASSETS.model_copy(update={"functions": {"apply_release": sha("a newer one")}})
ANEW = "the pipeline was deployed anew during the rollout"
NOT_RECORDED = "what was deployed during the rollout is not recorded"
DEVELOPMENT = "the cluster is marked development: true"


@pytest.mark.parametrize(
    "key", [rollout_key(ROLLOUT, "deployed"), *(step_key(ROLLOUT, n) for n in (1, 2, 3))]
)
def test_a_rollout_that_two_pipelines_ran_never_qualifies(
    make: Callable[..., EvidenceWorld], key: str
) -> None:
    """Whichever part ran with something else than what binds; and one that did not say counts no more."""
    for changes, why in (({"pipeline": deployed_digest(NEWER)}, ANEW), ({"pipeline": None}, NOT_RECORDED)):
        world = make()
        if why == NOT_RECORDED and key.endswith("deployed.json"):
            world.s3.objects.pop(key)
        else:
            world.change(key, **changes)
        bound = world.bind()
        assert bound["qualifying"] is False
        assert predicate_of(world, bound)["notQualifyingBecause"] == [why]
    world = make()
    assert predicate_of(world, world.bind(pipeline=NEWER))["notQualifyingBecause"] == [ANEW]


def test_development_counts_from_the_start_to_the_end(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    world.change(rollout_key(ROLLOUT, "deployed"), development=True)
    assert predicate_of(world, world.bind())["notQualifyingBecause"] == [DEVELOPMENT]
    world = make()
    marked = world.config.model_copy(update={"development": True})
    assert predicate_of(world, world.bind(config=marked))["notQualifyingBecause"] == [DEVELOPMENT]


# Once


def test_bound_once(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    first = world.bind()
    keys = evidence_keys(world)
    calls = list(world.kms.calls)
    assert world.bind() == first
    assert (
        evidence_keys(world)
        == keys
        == sorted([first["key"], f"evidence/demo/keys/{first['fingerprint']}.pem"])
    )
    assert world.kms.calls == calls, "nothing is signed twice"
    assert world.s3.objects[f"evidence/demo/keys/{first['fingerprint']}.pem"] == pem(der_of(world.kms.key))


def test_the_same_facts_are_the_same_statement(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    first = read_envelope(world.ledger.get(world.bind()["key"]) or b"").payload
    for key in [*evidence_keys(world), rollout_key(ROLLOUT, "binding")]:
        del world.s3.objects[key]
    assert read_envelope(world.ledger.get(world.bind()["key"]) or b"").payload == first


def test_a_run_that_died_half_way_is_bound_by_the_retry(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    world.ledger.put_once(f"evidence/demo/{ROLLOUT}/{'0' * 64}.intoto.json", b"half done")
    found = world.bind()
    assert json.loads(world.s3.objects[rollout_key(ROLLOUT, "binding")])["key"] == found["key"]


@pytest.mark.parametrize("missing", ["decision", "request", "report", "validation"])
def test_no_evidence_without_its_records(make: Callable[..., EvidenceWorld], missing: str) -> None:
    world = make()
    del world.s3.objects[rollout_key(ROLLOUT, missing)]
    with refused(Reason.RolloutFailed):
        world.bind()
    assert world.kms.calls == []


def test_no_evidence_without_the_snapshot(make: Callable[..., EvidenceWorld]) -> None:
    world = make(validation="Disabled")
    del world.s3.objects[f"rollouts/{ROLLOUT}/snapshot.yaml"]
    with refused(Reason.RolloutFailed, "post-install snapshot"):
        world.bind()


def test_an_approval_that_expired_after_the_last_step_still_counts(
    make: Callable[..., EvidenceWorld],
) -> None:
    world = make()
    world.change(rollout_key(ROLLOUT, "decision"), expiresAt=after(BEGAN, 60))
    world.now = parse_time(after(BEGAN, 3600))
    assert predicate_of(world, world.bind())["approval"]["by"] == ["alex"]


def test_an_approval_that_had_expired_when_it_was_given(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    world.change(rollout_key(ROLLOUT, "decision"), at=after(BEGAN, 7200), expiresAt=after(BEGAN, 3600))
    with refused(Reason.RolloutExpired):
        world.bind()


def test_evidence_that_is_gone_is_not_pushed_as_nothing(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    key = world.bind()["key"]
    del world.s3.objects[key]
    with refused(Reason.RolloutFailed, f"The evidence {key} is gone"):
        world.bind()


@pytest.mark.parametrize(
    ("document", "reason"),
    [("outcome", Reason.RolloutSuperseded), ("revocation", Reason.RolloutRevoked)],
)
def test_no_evidence_of_a_rollout_that_is_over_or_revoked(
    make: Callable[..., EvidenceWorld], document: str, reason: Reason
) -> None:
    world = make()
    if document == "outcome":
        world.finish({"key": "evidence/x"})
    else:
        by = {"by": "kim", "identity": "link", "issuer": "i", "reason": "no", "at": after(BEGAN, 1)}
        world.put(rollout_key(ROLLOUT, "revocation"), {"rollout": ROLLOUT, **by})
    with refused(reason):
        world.bind()
    assert world.kms.calls == []
