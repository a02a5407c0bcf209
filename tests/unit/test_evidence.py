"""Evidence: what is bound, and what qualifies."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.deployed import deployed_digest
from aicr_pipeline.decide.evidence import Bound, not_qualifying, statement
from aicr_pipeline.decide.verify import INVALID, NOT_ENOUGH, VALID
from aicr_pipeline.model.evidence import PREDICATE_TYPE, BoundDecision, BoundPipeline, BoundTuple, Statement
from aicr_pipeline.model.rollout import Acknowledgement

from tests.unit.bound import (
    BEGAN,
    BOUND,
    DISABLED,
    DOCUMENTS,
    PINNED,
    PLAN,
    TEXT,
    UNVALIDATED,
    changed,
    failed,
    look,
    seal,
)
from tests.unit.samples import (
    ASSETS,
    DEPLOYED,
    TUPLE,
    VALIDATORS,
    config,
    decision,
    plan,
    release,
    request,
    sha,
)


@pytest.mark.parametrize(("identity", "said"), [("link", True), ("signed-in", False), ("aws-iam", False)])
def test_why_a_link_was_proof_enough_is_bound(identity: str, said: bool) -> None:
    approval = json.loads(statement(replace(BOUND, decision=decision(identity=identity))))["predicate"][
        "approval"
    ]
    assert approval.get("identityReason") == ("hardware-tokens-guard-the-mailbox" if said else None)


def test_the_same_facts_give_the_same_bytes() -> None:
    assert statement(BOUND) == TEXT
    assert b" " not in TEXT.split(b'"reason"')[0], "canonical JSON"
    assert Statement.model_validate_json(TEXT).wire() == json.loads(TEXT)


def test_what_is_bound() -> None:
    found = json.loads(TEXT)
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == PREDICATE_TYPE
    assert found["subject"] == [
        {"name": "aicr-evidence", "digest": {"sha256": sha("e")[7:]}},
        *(
            {"name": f"chart/{r.name}", "digest": {"sha256": r.chart.manifest_digest[7:]}}
            for r in PLAN.desired_state.releases
        ),
        {"name": "plan", "digest": {"sha256": PLAN.desired_state_digest[7:]}},
    ]
    predicate = found["predicate"]
    assert predicate["plan"] == {
        "digest": PLAN.desired_state_digest,
        "recipe": PLAN.desired_state.recipe,
        "resolvedBy": PLAN.recorded.run,
    }
    assert predicate["approval"]["by"] == ["alex"]
    assert predicate["approval"]["digest"] == sha("decision")
    assert predicate["pipeline"] == ASSETS.wire()
    assert predicate["validators"] == [VALIDATORS[0].wire()]
    assert predicate["tuple"] == TUPLE.wire()
    assert predicate["documents"] == DOCUMENTS
    assert predicate["snapshotDigest"] == PLAN.recorded.snapshot_digest
    assert predicate["postInstallSnapshotDigest"] == sha("post")
    assert predicate["aicrImageDigest"] == PLAN.desired_state.aicr.image_digest
    assert "keyFingerprint" not in predicate["aicrEvidence"]
    assert predicate["qualifying"] is True
    assert len(TEXT) > 1000


def test_whether_four_eyes_was_enforced_is_bound() -> None:
    assert json.loads(TEXT)["predicate"]["fourEyes"] == {
        "enforced": False,
        "because": "the submitter is unknown",
    }
    user = "arn:aws:iam::111122223333:user/"
    approvers = {"approvals.approvers": [{"name": "alex", "iam": f"{user}alex"}]}
    for submitter, told in (
        (f"{user}kim", {"enforced": True}),
        (f"{user}alex", {"enforced": False, "because": "alex submitted the runtime"}),
    ):
        rollout = BOUND.rollout.model_copy(update={"submitter": submitter})
        bound = replace(BOUND, config=config(**approvers), rollout=rollout)
        predicate = json.loads(statement(bound))["predicate"]
        assert (predicate["submitter"], predicate["fourEyes"]) == (submitter, told)
        assert look(seal(statement(bound))).code == VALID


BYPASSED = BOUND.decision.model_copy(update={"identity": "bypass"}) if BOUND.decision else None


def _of(change: dict[str, Any]) -> Bound:
    """What is deployed is so from the start, unless the change is about that."""
    bound = replace(BOUND, **change)
    if "pipeline" not in change:
        return bound
    ran = deployed_digest(bound.pipeline)
    return replace(bound, deployed=BEGAN.model_copy(update={"pipeline": ran}), steps=(ran, ran))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"local_engine": True}, "local engine"),
        ({"config": config(development=True)}, "development: true"),
        ({"deployed": BEGAN.model_copy(update={"development": True})}, "development: true"),
        (
            {"deployed": BEGAN.model_copy(update={"pipeline": sha("x")})},
            "was deployed anew during the rollout",
        ),
        ({"steps": (DEPLOYED, sha("x"))}, "was deployed anew during the rollout"),
        ({"steps": (None, sha("x"))}, "was deployed anew during the rollout"),
        ({"deployed": None}, "what was deployed during the rollout is not recorded"),
        ({"steps": (DEPLOYED, None)}, "what was deployed during the rollout is not recorded"),
        ({"decision": BYPASSED}, "approval was bypassed: nobody was asked"),
        ({"config": config(**{"aicr.developmentVersions": ["1.1.2"]})}, "v1.1.2 is a development version"),
        ({"validation": DISABLED, "aicr_evidence": None, "plan": UNVALIDATED}, "Disabled"),
        (
            {"pipeline": BoundPipeline(version="1")},
            "pipeline's functions, layers, manifests, configuration are",
        ),
        ({"pipeline": ASSETS.model_copy(update={"functions": {}})}, "pipeline's functions are not recorded"),
        (
            {"pipeline": ASSETS.model_copy(update={"layers": {"program": sha("p")}})},
            "pipeline's layers are not",
        ),
        ({"pipeline": ASSETS.model_copy(update={"manifests": None})}, "pipeline's manifests are not"),
        ({"pipeline": ASSETS.model_copy(update={"configuration": None})}, "pipeline's configuration are not"),
        ({"validators": None}, "which validators ran is not recorded"),
        ({"validators": ()}, "which validators ran is not recorded"),
        (
            {"validators": (VALIDATORS[0].model_copy(update={"digest": sha("other")}),)},
            "a validator ran with an image that the plan does not pin",
        ),
        ({"tuple_": None}, "the hardware and software tuple is not recorded"),
        (
            {"tuple_": BoundTuple(gpu_mode="dra")},
            "tuple lacks: instance type, node image, kernel, driver, fabric, workload image",
        ),
        ({"tuple_": TUPLE.model_copy(update={"drivers": ()})}, "tuple lacks: driver"),
    ],
)
def test_what_never_qualifies(change: dict[str, Any], why: str) -> None:
    assert list(not_qualifying(BOUND)) == []
    bound = _of(change)
    predicate = json.loads(statement(bound))["predicate"]
    assert predicate["qualifying"] is False
    assert [why in reason for reason in predicate["notQualifyingBecause"]] == [True]
    text = json.dumps(bound.plan.wire()).encode()
    verdict = look(seal(statement(bound)), text=text)
    assert verdict.code == VALID, "valid as a record"
    assert look(seal(statement(bound)), text=text, require_qualifying=True).code == NOT_ENOUGH


KIM = BoundDecision(
    by="kim", identity="link", issuer="i", reason="r", at="t", expires_at="e", digest=sha("kim")
)
#: Each way in which a bypass shows, and each thing that may be otherwise beside it.
BYPASSES = [
    {"decision": BYPASSED},
    {"request": request(identity="bypass")},
    {"decisions": (KIM.model_copy(update={"identity": "bypass"}),)},
]
BESIDE: list[list[dict[str, Any]]] = [
    [
        {},
        {"config": config(development=True)},
        {"config": config(**{"approvals.bypass": True}, development=True)},
    ],
    [{}, {"local_engine": True}],
    [{}, {"validation": DISABLED, "aicr_evidence": None, "plan": UNVALIDATED}],
    [{}, {"tuple_": None}, {"validators": None}, {"pipeline": BoundPipeline(version="1")}],
    [{}, {"rollout": BOUND.rollout.model_copy(update={"submitter": "arn:aws:iam::111122223333:user/kim"})}],
]


@pytest.mark.parametrize("bypass", BYPASSES, ids=["decision", "request", "own record"])
def test_no_combination_with_a_bypass_qualifies(bypass: dict[str, Any]) -> None:
    seen = 0
    for beside in itertools.product(*BESIDE):
        bound = BOUND
        for change in (*beside, bypass):
            bound = replace(bound, **change)
        predicate = json.loads(statement(bound))["predicate"]
        assert predicate["qualifying"] is False
        assert "approval was bypassed: nobody was asked" in predicate["notQualifyingBecause"]
        seen += 1
    assert seen == 3 * 2 * 2 * 4 * 2


def test_a_signed_statement_that_qualifies_a_bypass_is_refused() -> None:
    for path in ("predicate.approval.identity", "predicate.approval.decisions"):
        value: Any = "bypass"
        if path.endswith("decisions"):
            value = [KIM.model_copy(update={"by": "alex", "identity": "bypass"}).wire()]
        verdict = look(changed(path, value))
        assert (verdict.code, failed(verdict)) == (INVALID, "subjects")


def test_each_of_two_approvers_is_bound() -> None:
    two = decision(by=("alex", "kim"))
    each = (KIM.model_copy(update={"by": "alex", "at": "u", "digest": sha("alex")}), KIM)
    text = statement(replace(BOUND, decision=two, decisions=each))
    approval = json.loads(text)["predicate"]["approval"]
    assert approval["decisions"] == [one.wire() for one in each]
    assert look(seal(text)).code == VALID
    verdict = look(seal(statement(replace(BOUND, decision=two, decisions=each[:1]))))
    assert (verdict.code, failed(verdict)) == (INVALID, "subjects"), "kim's is missing"


def test_an_inherited_approval_says_whose_it_was() -> None:
    text = statement(replace(BOUND, decision=decision(rollout="demo-12345678-0")))
    assert json.loads(text)["predicate"]["approval"]["inheritedFrom"] == "demo-12345678-0"
    assert "inheritedFrom" not in json.loads(TEXT)["predicate"]["approval"]


def test_a_statement_stays_small() -> None:
    """Under 64 KB for 17 releases, with every record and a digest of each function."""
    releases = [release(f"release-number-{number}") for number in range(17)]
    functions = {f"function_number_{number}": sha(number) for number in range(45)}
    documents = {f"rollouts/demo-12345678-1/acknowledgements/release-{n}.json": sha(n) for n in range(30)}
    large = replace(
        BOUND,
        plan=plan(*releases, **PINNED),
        pipeline=ASSETS.model_copy(update={"functions": functions}),
        validators=VALIDATORS * 20,
        documents=documents,
        decision=decision(reason="x" * 1024),
        decisions=(KIM.model_copy(update={"reason": "x" * 1024}),) * 5,
    )
    assert len(statement(large)) < 64 * 1024


def test_without_approval_or_aicr_evidence() -> None:
    bound = replace(BOUND, decision=None, aicr_evidence=None, validation=DISABLED, plan=UNVALIDATED)
    predicate = json.loads(statement(bound))["predicate"]
    assert "approval" not in predicate
    assert "aicrEvidence" not in predicate
    assert look(seal(statement(bound)), text=json.dumps(UNVALIDATED.wire()).encode()).code == VALID
    verdict = look(seal(statement(replace(BOUND, aicr_evidence=None))))
    assert (verdict.code, failed(verdict)) == (INVALID, "subjects"), "validation leaves evidence"


def test_who_did_what_a_manual_step_asked_for_is_bound() -> None:
    given = Acknowledgement(
        rollout="demo-12345678-1", release="gpu-operator", request_digest=sha("asked"), by="kim",
        identity="aws-iam", issuer="aws:111122223333", principal="arn:aws:iam::111122223333:role/kim",
        reason="Drained it", at="2026-01-01T01:00:00.000Z",
    )  # fmt: skip
    bound = json.loads(statement(replace(BOUND, acknowledgements=(given,))))["predicate"]
    wire = given.wire()
    assert wire.pop("rollout") == BOUND.rollout.name
    assert bound["acknowledgements"] == [wire]
    assert "acknowledgements" not in json.loads(statement(BOUND))["predicate"], "as evidence was before"


PAGE = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text()


def test_the_page_has_every_reason_in_its_words() -> None:
    """A closed set: whoever reads a statement finds its words there, and nothing else is ever said."""
    table = PAGE.partition("## What never qualifies")[2].partition("\n\nUnsigned")[0]
    rows = [re.escape(words) for words in re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)]
    known = [re.compile(re.sub(r"<[^>]+>", ".+", row)) for row in rows]
    nothing: dict[str, Any] = {"pipeline": BoundPipeline(version="1"), "validators": None, "tuple_": None}
    other = {"validators": (VALIDATORS[0].model_copy(update={"digest": sha("x")}),)}
    everything = {"local_engine": True, "decision": BYPASSED, "validation": DISABLED} | {
        "config": config(development=True, **{"aicr.developmentVersions": ["1.1.2"]})
    }
    said = {
        reason
        for change in (nothing, other, everything, {"tuple_": BoundTuple(gpu_mode="dra")}, {"deployed": None})
        for reason in not_qualifying(replace(BOUND, **change))
    }
    assert len(known) == 12
    for reason in said:
        assert [row.pattern for row in known if row.fullmatch(reason)] != [], reason
    for row in known:
        assert any(row.fullmatch(reason) for reason in said), row.pattern
