"""Bind evidence: what is stated, nothing of another rollout, plan, run or cluster, and the key's life."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from aicr_pipeline.adapters.approvals import approval_record_key
from aicr_pipeline.adapters.signer import Signer, SigningKeyError
from aicr_pipeline.clock import after, parse_time
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.deployed import deployed_digest
from aicr_pipeline.decide.dsse import fingerprint, read_envelope
from aicr_pipeline.decide.verify import VALID, pem, verify
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.evidence import BoundPipeline
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key, step_key
from cryptography.hazmat.primitives.asymmetric import ec
from moto import mock_aws

from infra.asl import RETRY
from local.registry import LocalRegistry, TokenIssuer
from tests.evidence_world import BEGAN, CHECKS, RECIPE, ROLLOUT, EvidenceWorld, Wish, der_of
from tests.keys import rsa_key
from tests.unit.samples import ASSETS, refused, sha

OTHER = ec.derive_private_key(0xB0B, ec.SECP256R1())


@pytest.fixture(scope="module")
def server() -> Iterator[LocalRegistry]:
    with LocalRegistry(TokenIssuer()) as made:
        yield made


@pytest.fixture
def make(server: LocalRegistry, request: pytest.FixtureRequest) -> Callable[..., EvidenceWorld]:
    """A world under a prefix of its own; the registry is one."""
    made = 0

    def new(**wish: Any) -> EvidenceWorld:
        nonlocal made
        made += 1
        name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())
        return EvidenceWorld(server, f"t{sha(name)[7:19]}-{made}", Wish(**wish))

    return new


def predicate_of(world: EvidenceWorld, bound: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_envelope(world.ledger.get(bound["key"]) or b"").payload)
    return dict(found["predicate"])


def evidence_keys(world: EvidenceWorld) -> list[str]:
    return [key for key in sorted(world.s3.objects) if key.startswith("evidence/")]


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
    assert verify(sealed, der_of(world.kms.key), _plan(world), require_qualifying=True).code == VALID


def _plan(world: EvidenceWorld) -> bytes | None:
    return world.ledger.get(plan_key(world.plan.desired_state_digest))


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


# Of another rollout, plan, run or cluster


def put(key: str, **fields: Any) -> Callable[[EvidenceWorld], None]:
    return lambda world: world.change(rollout_key(ROLLOUT, key), **fields)


def recipe(**changes: Any) -> Callable[[EvidenceWorld], None]:
    """The attempt's repository holds evidence of another recipe, sound in itself."""

    def act(world: EvidenceWorld) -> None:
        world.state = {"validation": {"repository": f"{ROLLOUT}-2"}}
        world.push(world.aicr_files({**RECIPE, **changes}), f"evidence/{ROLLOUT}-2", "other")

    return act


def other_run(world: EvidenceWorld) -> None:
    """The same recipe, but the report is of another validation."""
    world.state = {"validation": {"repository": f"{ROLLOUT}-2"}}
    world.push(world.aicr_files(report=world.report(("other-check",))), f"evidence/{ROLLOUT}-2", "other")


def two_evidences(world: EvidenceWorld) -> None:
    world.push(world.aicr_files(), f"evidence/{ROLLOUT}-1", "second")


def broken_chain(world: EvidenceWorld) -> None:
    world.state = {"validation": {"repository": f"{ROLLOUT}-2"}}
    files = world.aicr_files()
    files["bom.cdx.json"] = (b"{}", 0o600)
    world.push(files, f"evidence/{ROLLOUT}-2", "other")


def named(repository: str) -> Callable[[EvidenceWorld], None]:
    def act(world: EvidenceWorld) -> None:
        world.state = {"validation": {"repository": repository}}

    return act


def moved_plan(world: EvidenceWorld) -> None:
    world.state = {"toPlan": sha("another plan")}


def other_validators(world: EvidenceWorld) -> None:
    seen = [{"check": "other-check", "image": "v:1", "digest": sha("validator"), "pod": "p", "run": "r"}]
    world.s3.objects[rollout_key(ROLLOUT, "validators")] = json.dumps(seen).encode()


def other_recipe_in_the_ledger(world: EvidenceWorld) -> None:
    world.s3.objects[f"resolves/{world.plan.recorded.run}/recipe.yaml"] = b"kind: RecipeResult\n"


FAILED = Reason.RolloutFailed
STRANGERS: dict[str, tuple[Callable[[EvidenceWorld], None], Reason, str]] = {
    "a rollout's record": (put("rollout", name="demo-99999999-1"), FAILED, "is of rollout demo-9999"),
    "another cluster's rollout": (put("rollout", cluster="prod"), FAILED, "of cluster prod"),
    "a report to another plan": (put("report", toPlan=sha("x")), FAILED, "another transition"),
    "a report from another plan": (put("report", fromPlan=sha("x")), FAILED, "another transition"),
    "a report without validation": (put("report", validation="Disabled"), FAILED, "differ about"),
    "another rollout's request": (put("request", rollout="demo-0-1"), FAILED, "request.json is of"),
    "a request of something else": (put("request", digest=sha("x")), FAILED, "for another request"),
    "another rollout's decision": (put("decision", rollout="demo-0-1"), FAILED, "decision is of"),
    "a decision on another request": (put("decision", requestDigest=sha("x")), FAILED, "another request"),
    "a decision of somebody else": (put("decision", by=["mallory"]), FAILED, "does not count"),
    "a rejection": (put("decision", decision="Rejected"), Reason.RolloutRejected, "Rejected by"),
    "evidence of another recipe": (recipe(criteria={"service": "gke"}), FAILED, "another recipe"),
    "evidence of another run": (other_run, FAILED, "not the report"),
    "a second evidence": (two_evidences, FAILED, "has 2 tags"),
    "evidence whose digests do not hold": (broken_chain, FAILED, "bom.cdx.json"),
    "another rollout's repository": (named("demo-99999999-1-1"), FAILED, "is of no attempt"),
    "an attempt that never was": (named(f"{ROLLOUT}-2"), FAILED, "has 0 tags"),
    "an execution to another plan": (moved_plan, FAILED, "not to sha256:"),
    "another validation's validators": (other_validators, FAILED, "is of another validation"),
    "a recipe that is not the plan's": (other_recipe_in_the_ledger, FAILED, "not the one the plan"),
}


@pytest.mark.parametrize("stranger", list(STRANGERS))
def test_nothing_of_something_else_is_bound(make: Callable[..., EvidenceWorld], stranger: str) -> None:
    world = make()
    spoil, reason, words = STRANGERS[stranger]
    spoil(world)
    with refused(reason, words):
        world.bind()
    assert world.kms.calls == []
    assert evidence_keys(world) == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda w: w.s3.objects.pop(approval_record_key(ROLLOUT, "kim")),
            "record of kim's approval is missing",
        ),
        (lambda w: w.change(approval_record_key(ROLLOUT, "kim"), by=["alex"]), "there twice"),
        (lambda w: w.change(approval_record_key(ROLLOUT, "kim"), by=["x"]), "approval is missing"),
        (lambda w: w.change(approval_record_key(ROLLOUT, "kim"), decision="Rejected"), "no approval of this"),
        (lambda w: w.change(approval_record_key(ROLLOUT, "kim"), rollout="demo-0-1"), "no approval of this"),
        (lambda w: w.change(approval_record_key(ROLLOUT, "kim"), requestDigest=sha("x")), "another request"),
    ],
    ids=["missing", "of the other", "of a stranger", "a rejection", "another rollout's", "another request's"],
)
def test_each_approvers_own_record_is_needed(
    make: Callable[..., EvidenceWorld], spoil: Callable[[EvidenceWorld], Any], words: str
) -> None:
    world = make(approvers=("alex", "kim"))
    spoil(world)
    with refused(Reason.RolloutFailed, words):
        world.bind()


def pointers(world: EvidenceWorld, other: EvidenceWorld) -> dict[str, str]:
    """Keys that a pointer of this rollout may not name."""
    key = str(other.bind()["key"])
    return {
        "nothing": "",
        "another rollout's": key.replace(ROLLOUT, "demo-99999999-1"),
        "another cluster's": key.replace("/demo/", "/prod/"),
        "what is gone": key.rpartition("/")[0] + f"/{'0' * 64}.intoto.json",
        "no statement": _stored(world, b"{}"),
        "another plan's": _stored(world, other.ledger.get(key) or b""),
    }


def _stored(world: EvidenceWorld, content: bytes) -> str:
    key = f"evidence/demo/{ROLLOUT}/{sha256(content)[7:]}.intoto.json"
    world.s3.objects[key] = content
    return key


@pytest.mark.parametrize(
    "pointer",
    ["nothing", "another rollout's", "another cluster's", "what is gone", "no statement", "another plan's"],
)
def test_a_pointer_to_something_else_is_no_binding(make: Callable[..., EvidenceWorld], pointer: str) -> None:
    world, other = make(), make(releases=4)
    world.put(rollout_key(ROLLOUT, "binding"), {"key": pointers(world, other)[pointer], "fingerprint": "f"})
    with refused(Reason.RolloutFailed):
        world.bind()
    assert world.kms.calls == []


def test_an_envelope_that_is_not_what_its_key_says(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    key = str(world.bind()["key"])
    world.s3.objects[key] += b" "
    with refused(Reason.RolloutFailed, "is not what its key says"):
        world.bind()


# The life of the key


def test_a_rotation_between_two_rollouts_leaves_the_old_evidence_verifiable(
    make: Callable[..., EvidenceWorld],
) -> None:
    world, later = make(), make()
    old = world.bind()
    later.kms.key = OTHER
    new = later.bind()
    assert old["fingerprint"] != new["fingerprint"] == fingerprint(der_of(OTHER))
    for place, bound in ((world, old), (later, new)):
        key = place.ledger.get(f"evidence/demo/keys/{bound['fingerprint']}.pem") or b""
        sealed = place.ledger.get(bound["key"]) or b""
        assert verify(sealed, key, _plan(place), require_qualifying=False).code == VALID


@pytest.mark.parametrize("calls", [1, 2])
def test_a_rotation_in_the_middle(make: Callable[..., EvidenceWorld], calls: int) -> None:
    """Between asking for the key and signing, or right after: pointer, keyid and signature are of one key."""
    world = make()
    world.kms.moves[calls] = OTHER
    bound = world.bind()
    sealed = world.ledger.get(bound["key"]) or b""
    key = world.ledger.get(f"evidence/demo/keys/{bound['fingerprint']}.pem") or b""
    assert verify(sealed, key, _plan(world), require_qualifying=False).code == VALID
    assert read_envelope(sealed).signatures[0][0] == bound["fingerprint"]


def test_a_run_that_died_before_its_pointer_and_a_rotation_after_it(
    make: Callable[..., EvidenceWorld],
) -> None:
    world = make()
    first = world.bind()
    del world.s3.objects[rollout_key(ROLLOUT, "binding")]
    world.kms.key = OTHER
    second = world.bind()
    assert second["key"] != first["key"]
    assert second["fingerprint"] == fingerprint(der_of(OTHER))
    assert len(evidence_keys(world)) == 4, "two envelopes, two keys; the pointer says which is the binding"
    assert world.bind() == second


def test_an_alias_that_never_rests(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    mine = world.kms.key
    world.kms.moves = {1: OTHER, 2: mine, 3: OTHER, 4: mine, 5: OTHER}
    with pytest.raises(TransientError, match="being moved"):
        world.bind()
    assert evidence_keys(world) == []


PASSING = [
    "ThrottlingException",
    "KMSInternalException",
    "DependencyTimeoutException",
    "KeyUnavailableException",
]
STANDING = [
    ("DisabledException", "disabled; enable it"),
    ("KMSInvalidStateException", "waits for its deletion"),
    ("NotFoundException", "no such key or alias"),
    ("AccessDeniedException", "KMS refuses"),
    ("InvalidKeyUsageException", "not one that signs"),
    ("SomethingNew", "KMS answers SomethingNew"),
]


@pytest.mark.parametrize("before", [0, 1], ids=["asking for the key", "signing"])
@pytest.mark.parametrize("code", PASSING)
def test_what_passes_in_kms_is_tried_again_and_nothing_is_half_done(
    make: Callable[..., EvidenceWorld], code: str, before: int
) -> None:
    world = make()
    world.kms.errors = [""] * before + [code]
    with pytest.raises(TransientError, match=code) as caught:
        world.bind()
    assert caught.value.reason is Reason.SigningKeyUnavailable
    assert type(caught.value).__name__ in {name for retry in RETRY for name in retry["ErrorEquals"]}
    assert evidence_keys(world) == []
    assert world.bind()["qualifying"] is True


@pytest.mark.parametrize("before", [0, 1], ids=["asking for the key", "signing"])
@pytest.mark.parametrize(("code", "words"), STANDING)
def test_a_key_that_somebody_must_look_after_stops_the_execution_where_it_is(
    make: Callable[..., EvidenceWorld], code: str, words: str, before: int
) -> None:
    world = make()
    world.kms.errors = [""] * before + [code]
    with pytest.raises(SigningKeyError, match=words) as caught:
        world.bind()
    assert caught.value.reason is Reason.SigningKeyUnavailable
    assert caught.value.retry, "so that the handler raises it: no domain end, and a redrive goes on"
    assert "SigningKeyError" not in {name for retry in RETRY for name in retry["ErrorEquals"]}
    assert evidence_keys(world) == []
    assert world.bind()["qualifying"] is True, "the redrive, once the key is well"


@pytest.mark.parametrize(
    "made", [lambda: ec.generate_private_key(ec.SECP384R1()), rsa_key], ids=["P-384", "RSA-2048"]
)
def test_an_alias_that_names_a_key_of_another_kind(
    make: Callable[..., EvidenceWorld], made: Callable[[], Any]
) -> None:
    world = make()
    world.kms.key = made()
    with pytest.raises(SigningKeyError, match="point the alias at an ECC_NIST_P256 key"):
        world.bind()
    assert world.kms.calls == ["get_public_key"], "nothing is signed with it"


def test_the_alias_is_what_kms_is_asked_for() -> None:
    """On moto's KMS, which hashes a digest again: only that the alias leads to the key it names now."""
    with mock_aws():
        kms = boto3.client("kms", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
        keys = [kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY") for _ in range(2)]
        first, second = (key["KeyMetadata"]["KeyId"] for key in keys)
        kms.create_alias(AliasName="alias/a", TargetKeyId=first)
        arn = keys[0]["KeyMetadata"]["Arn"].replace(f"key/{first}", "alias/a")
        before = Signer(kms, arn).public_key()
        kms.update_alias(AliasName="alias/a", TargetKeyId=second)
        assert Signer(kms, arn).public_key() == kms.get_public_key(KeyId=second)["PublicKey"] != before


def test_a_signature_of_aicrs_is_required_once_a_key_is_configured(
    make: Callable[..., EvidenceWorld],
) -> None:
    world = make(aicr_key="EC")
    bound = world.bind()
    found = predicate_of(world, bound)["aicrEvidence"]
    mark = fingerprint(der_of(world.aicr_key))
    assert (bound["aicrSigned"], found["signed"], found["keyFingerprint"]) == (True, True, mark)
    assert world.s3.objects[f"evidence/demo/aicr-keys/{mark}.pem"] == pem(der_of(world.aicr_key))
    assert [key for key in evidence_keys(world) if "/keys/" in key] == [
        f"evidence/demo/keys/{bound['fingerprint']}.pem"
    ], "whoever pins what is there pins the pipeline alone"


@pytest.mark.parametrize("kept", [False, True], ids=["none", "another key's"])
def test_evidence_without_that_signature_fails_the_rollout(
    make: Callable[..., EvidenceWorld], kept: bool
) -> None:
    unsigned, signed = make(), make(aicr_key="EC")
    world = signed if kept else unsigned
    binder = {"config": signed.config, "public_key_of": lambda uri: der_of(OTHER)}
    with refused(Reason.RolloutFailed):
        world.bind(**binder)
    assert world.kms.calls == []
    assert evidence_keys(world) == []


def test_it_is_judged_by_what_the_job_was_started_with(make: Callable[..., EvidenceWorld]) -> None:
    """A key that is added, removed or replaced before the evidence is bound: none of it is about this Job."""
    plain, signed = make(), make(aicr_key="EC")
    plain.attempt()
    changes: dict[str, Any] = {"config": signed.config, "public_key_of": lambda uri: der_of(OTHER)}
    assert plain.bind(**changes)["aicrSigned"] is False, "added"
    for name, removed in (("removed", True), ("replaced", False)):
        world = make(aicr_key="EC")
        world.attempt(signing_key="awskms:///alias/aicr", public_key=der_of(world.aicr_key))
        if removed:
            changes = {"config": make().config}
        bound = world.bind(**changes)
        assert (bound["aicrSigned"], bound["qualifying"]) == (True, True), name


def test_an_attempt_of_another_report_is_not_bound(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    world.attempt(report=b"another")
    with refused(Reason.RolloutFailed, "is of another report than the rollout's"):
        world.bind()
