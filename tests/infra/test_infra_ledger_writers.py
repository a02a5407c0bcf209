"""Who writes which record: the bucket's policy and the functions' rights say the same."""

import json
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
from aicr_pipeline.actions.validate_deployment import evidence_repository
from aicr_pipeline.decide.evidence_archive import aicr_key_in_ledger
from aicr_pipeline.decide.names import job_name
from aicr_pipeline.model.rollout import rollout_key, validated_key

from infra.ledger_writers import LEDGER_WRITERS
from tests.infra.templates import Stack, as_list, plain


def policy(stack: Stack) -> dict[str, Any]:
    """The ledger's policy document."""
    (found,) = [
        resource["Properties"]
        for name, resource in stack.of_type("AWS::S3::BucketPolicy").items()
        if "Ledger" in name
    ]
    document: dict[str, Any] = found["PolicyDocument"]
    return document


def granted(stack: Stack) -> set[tuple[str, str]]:
    """Function and key pattern, of every right to put into a bucket."""
    return {
        (who, plain(resource).partition("/")[2])
        for who, statement in stack.statements()
        if statement["Effect"] == "Allow" and "s3:PutObject" in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }


def example(pattern: str) -> str:
    """A key under the pattern."""
    return pattern.replace("*", "x")


def writers(key: str) -> set[str]:
    """The functions that no statement of LEDGER_WRITERS refuses."""
    covering = [set(functions) for _, pattern, functions in LEDGER_WRITERS if fnmatchcase(key, pattern)]
    return set.intersection(*covering) if covering else set()


def test_whoever_has_a_right_to_write_is_let_through(stack: Stack) -> None:
    for who, pattern in granted(stack):
        assert who in writers(example(pattern)), (who, pattern)


def test_whoever_is_let_through_has_the_right(stack: Stack) -> None:
    rights = granted(stack)
    for name, pattern, functions in LEDGER_WRITERS:
        assert functions, name
        for function in functions:
            mine = [own for who, own in rights if who == function]
            assert any(
                fnmatchcase(example(own), pattern) or fnmatchcase(example(pattern), own) for own in mine
            ), (function, pattern)


def test_names_are_unique_and_fit_a_sid() -> None:
    names = [name for name, _, _ in LEDGER_WRITERS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9]+", name) for name in names)


def test_the_bucket_refuses_everybody_else(stack: Stack) -> None:
    roles = {
        found["Properties"]["Role"]["Fn::GetAtt"][0]: stack.function_of(name)
        for name, found in stack.of_type("AWS::Lambda::Function").items()
    }
    statements = {statement.get("Sid"): statement for statement in policy(stack)["Statement"]}
    for name, pattern, functions in LEDGER_WRITERS:
        found = statements[f"{name}ByTheirFunctions"]
        assert (found["Effect"], found["Action"], found["Principal"]) == (
            "Deny",
            "s3:PutObject",
            {"AWS": "*"},
        )
        assert plain(found["Resource"]).partition("/")[2] == pattern
        arns = as_list(found["Condition"]["ArnNotEquals"]["aws:PrincipalArn"])
        assert {roles[arn["Fn::GetAtt"][0]] for arn in arns} == set(functions)
        assert list(found["Condition"]) == ["ArnNotEquals"]
    other = statements["NoOtherKeys"]
    assert (other["Effect"], other["Action"], other["Principal"]) == ("Deny", "s3:PutObject", {"AWS": "*"})
    assert "Condition" not in other
    assert {plain(resource).partition("/")[2] for resource in other["NotResource"]} == {
        pattern for _, pattern, _ in LEDGER_WRITERS
    }


@pytest.mark.parametrize(
    ("key", "who"),
    [
        ("rollouts/r/decision.json", {"serve_approvals", "serve_operators"}),
        ("rollouts/r/decisions/alex.json", {"serve_approvals", "serve_operators"}),
        ("rollouts/r/revocation.json", {"serve_approvals", "serve_operators"}),
        ("runtimes/a-version.json", {"serve_operators"}),
        ("rollouts/r/revocation.json/x", set()),
        ("order/99999998.json", {"start_rollout"}),
        ("rollouts/r/steps/0001.json", {"check_gate"}),
        ("rollouts/r/report.json", {"assess_transition"}),
        ("rollouts/r/deployed.json", {"assess_transition"}),
        ("rollouts/r/validation.json", {"sweep_waiters"}),
        ("rollouts/r/validations/r-1.json", {"sweep_waiters"}),
        ("rollouts/r/outcome.json", {"record_outcome", "start_rollout"}),
        ("rollouts/r/told.json", {"record_outcome"}),
        ("evidence/demo/r/x.intoto.json", {"bind_evidence"}),
        ("rollouts/r/stalls/decision.json", set()),
        ("rollouts/decision/stalls/x.json", {"record_stall"}),
        ("rollouts/r/other.json", set()),
        ("other", set()),
    ],
)
def test_who_may_put_a_key(key: str, who: set[str]) -> None:
    assert writers(key) == who


#: Whatever a pattern has between its slashes, as the beginning of a cluster's name.
WORDS = sorted({
    word for _, pattern, _ in LEDGER_WRITERS
    for word in re.findall(r"[a-z]+", pattern) if word not in ("json", "yaml")
})  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_no_cluster_has_a_name_that_hides_its_records(word: str) -> None:
    """Its name stands in the keys of its attempts, and ``*`` of a pattern is a slash, too."""
    for cluster in (word, f"{word}-lab", f"{word}s"):
        rollout = f"{cluster}-12345678-1"
        job = job_name(rollout, "validate", 1)
        repository = evidence_repository(rollout, 1)
        assert writers(validated_key(rollout, repository)) == {"sweep_waiters"}
        assert writers(f"rollouts/{rollout}/validators/{job}/{job}-abcde.json") == {"sweep_waiters"}
        assert writers(f"rollouts/{rollout}/jobs/{job}.log") == {"sweep_waiters"}
        assert writers(rollout_key(rollout, "rollout")) == {"start_rollout"}
        assert writers(f"evidence/{cluster}/{rollout}/{'0' * 64}.intoto.json") == {"bind_evidence"}
        assert writers(aicr_key_in_ledger(cluster, "0" * 64)) == {"bind_evidence"}
        assert "mirror_chart" in writers(f"resolves/{cluster}-12345678-1/charts/x.json")


def test_the_policy_fits_a_bucket(stack: Stack) -> None:
    """20 KB is S3's limit; ARNs come in place of references, so each is counted at its longest."""

    def text(value: Any) -> Any:
        if isinstance(value, dict) and ({"Fn::Join", "Fn::GetAtt", "Ref"} & set(value)):
            return re.sub(r"<[^>]*>", "a" * 100, plain(value))
        if isinstance(value, dict):
            return {key: text(item) for key, item in value.items()}
        return [text(item) for item in value] if isinstance(value, list) else value

    assert len(json.dumps(text(policy(stack)), separators=(",", ":"))) < 20 * 1024
