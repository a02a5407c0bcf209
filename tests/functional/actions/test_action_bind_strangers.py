"""Bind evidence: nothing of another rollout, plan, run or cluster is bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.adapters.approvals import approval_record_key
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

from tests.evidence_world import RECIPE, ROLLOUT, EvidenceWorld
from tests.functional.actions.binding import evidence_keys, make, server
from tests.unit.samples import refused, sha

__all__ = ["make", "server"]


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


def test_an_attempt_of_another_report_is_not_bound(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    world.attempt(report=b"another")
    with refused(Reason.RolloutFailed, "is of another report than the rollout's"):
        world.bind()
