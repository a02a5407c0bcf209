"""AICR's report decides: captured ones, and what no report may pass for."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.validation import judge
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import refused

H100 = "h100-eks-ubuntu-training-kubeflow/validate"


def report(*statuses: str, **fields: Any) -> bytes:
    tests = [{"name": f"check-{n}", "status": status, **fields} for n, status in enumerate(statuses)]
    return json.dumps({"reportFormat": "CTRF", "results": {"tests": tests}}).encode()


@pytest.mark.parametrize(
    ("name", "counts", "problem"),
    [
        ("ctrf-deployment-pass", (4, 4, 0, 0, 0), None),
        ("ctrf-all-pass", None, None),
        ("ctrf-deployment-fail", (4, 2, 1, 0, 1), "expected-resources (failed): nvsentinel"),
        ("ctrf-no-cluster-deployment", (5, 0, 0, 5, 0), "every test was skipped"),
        ("ctrf-no-cluster-all", None, "every test was skipped"),
    ],
)
def test_captured(captured: Path, name: str, counts: tuple[int, ...] | None, problem: str | None) -> None:
    text = (captured / H100 / f"{name}.json").read_bytes()
    result, found = judge(text)
    said = json.loads(text)["results"]["summary"]
    assert (result.tests, result.passed, result.failed, result.skipped) == (
        said["tests"], said["passed"], said["failed"], said["skipped"],
    )  # fmt: skip
    assert result.other == said["other"] + said["pending"]
    if counts is not None:
        assert (result.tests, result.passed, result.failed, result.skipped, result.other) == counts
    assert result.report_digest == "sha256:" + hashlib.sha256(text).hexdigest()
    assert (found is None) if problem is None else (found is not None and problem in found)


@pytest.mark.parametrize(
    ("statuses", "passes"),
    [
        (["passed"], True),
        (["passed", "skipped", "skipped"], True),
        (["passed", "failed"], False),
        (["passed", "other"], False),
        (["passed", "pending"], False),
        (["passed", "PASSED"], False),
        (["passed", ""], False),
        (["skipped", "skipped"], False),
        ([], False),
    ],
)
def test_statuses(statuses: list[str], passes: bool) -> None:
    result, problem = judge(report(*statuses))
    assert (problem is None) is passes
    assert result.tests == len(statuses)
    assert result.passed + result.failed + result.skipped + result.other == len(statuses)
    assert result.mode == "Required"


def test_a_test_that_is_no_object_fails() -> None:
    text = json.dumps({"reportFormat": "CTRF", "results": {"tests": ["passed", {"status": "passed"}]}})
    result, problem = judge(text.encode())
    assert (result.other, problem is None) == (1, False)


def test_the_checks_own_words_cut_and_at_most_five() -> None:
    _, problem = judge(report(*["failed"] * 9, message="boom\n" * 200))
    assert problem is not None
    assert problem.count("boom boom") >= 5
    assert problem.count("check-") == 5
    assert len(problem) < 2000
    _, quiet = judge(report("other", stdout=["line one", "line two"]))
    assert quiet is not None
    assert "check-0 (other): line one line two" in quiet


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"{}",
        b'{"reportFormat": "CTRF"}',
        b'{"reportFormat": "CTRF", "results": []}',
        b'{"reportFormat": "CTRF", "results": {"tests": {}}}',
        b'{"reportFormat": "JUnit", "results": {"tests": []}}',
        b'{"results": {"tests": []}}',
        b"\xff\xfe",
    ],
)
def test_no_report(text: bytes) -> None:
    with refused(Reason.AICRArtifactUnsupported, "not CTRF"):
        judge(text)
