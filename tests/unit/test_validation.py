"""AICR's report decides: captured ones, and what no report may pass for."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.validation import MOST_REPORT_BYTES, judge
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import ctrf, ctrf_of, refused

H100 = "h100-eks-ubuntu-training-kubeflow/validate"


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
    result, problem = judge(ctrf(*statuses))
    assert (problem is None) is passes
    assert result.tests == len(statuses)
    assert result.passed + result.failed + result.skipped + result.other == len(statuses)
    assert result.mode == "Required"


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (["passed"], "has no test at results.tests[0]"),
        ([{"status": "passed"}], "without a proper name: results.tests[0].name"),
        ([{"name": " ", "status": "passed"}], "without a proper name"),
        ([{"name": 7, "status": "passed"}], "without a proper name"),
        ([{"name": "n" * 257, "status": "passed"}], "without a proper name"),
        ([{"name": "a", "status": "passed"}, {"name": "a", "status": "failed"}], "names a test twice: a"),
    ],
)
def test_tests_that_are_none(tests: list[Any], words: str) -> None:
    text = json.dumps({"reportFormat": "CTRF", "results": {"tests": tests, "summary": {}}}).encode()
    with refused(Reason.AICRArtifactUnsupported, words):
        judge(text)


@pytest.mark.parametrize("name", ["tests", "passed", "failed", "skipped", "pending", "other"])
def test_a_summary_that_contradicts_its_tests(name: str) -> None:
    """A test that was taken out, say, or a count that was made better."""
    tests = [{"name": "a", "status": "passed"}, {"name": "b", "status": "failed"}]
    for wrong in (7, None, "1", True, 1.0):
        if name in ("passed", "failed") and wrong is True:
            continue
        with refused(Reason.AICRArtifactUnsupported, f"results.summary.{name} is"):
            judge(ctrf_of(tests, **{name: wrong}))
    with refused(Reason.AICRArtifactUnsupported, "has no results.summary"):
        judge(json.dumps({"reportFormat": "CTRF", "results": {"tests": tests}}).encode())


def counted(number: bytes) -> bytes:
    return ctrf("passed").replace(b'"passed": 1', b'"passed": ' + number)


UNSUPPORTED = Reason.AICRArtifactUnsupported
HOSTILE: dict[str, tuple[bytes, Reason, str]] = {
    "too large": (b" " * (MOST_REPORT_BYTES + 1), Reason.ContentTooLarge, "1,048,576 are read at most"),
    "deep": (b"[" * 200_000 + b"]" * 200_000, UNSUPPORTED, "nested more than 40 levels"),
    "deep inside": (
        ctrf_of([{"name": "a", "status": "passed", "extra": {}}]).replace(b"{}", b"[" * 60 + b"]" * 60),
        UNSUPPORTED,
        "nested",
    ),
    "NaN": (ctrf("passed", duration=float("nan")), UNSUPPORTED, "NaN is no number"),
    "infinity": (
        counted(b"1e999"),
        UNSUPPORTED,
        "large",
    ),
    "a very long number": (
        counted(b"1" * 5000),
        UNSUPPORTED,
        "is not JSON",
    ),
    "a name twice": (
        b'{"reportFormat": "CTRF", "reportFormat": "JUnit"}',
        UNSUPPORTED,
        "twice",
    ),
    "no UTF-8": (b'{"reportFormat": "\xff"}', UNSUPPORTED, "is not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf" + ctrf("passed"), UNSUPPORTED, "is not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_reports(name: str) -> None:
    text, reason, words = HOSTILE[name]
    with refused(reason, words):
        judge(text)


def test_brackets_inside_of_texts_are_no_depth() -> None:
    _, problem = judge(ctrf("failed", message='\\"[{' * 100))
    assert problem is not None
    assert "check-0 (failed)" in problem


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----"
SECRETS = {
    "a bearer": ("GET answered 401 with Authorization: Bearer abc.def-ghi", "abc.def"),
    "basic": ("sent Basic QVdTOnNlY3JldA== to it", "QVdTOnNl"),
    "an AWS key id": ("used AKIAIOSFODNN7EXAMPLE there", "AKIAIOSF"),
    "an AWS secret": ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "wJalrXUtn"),
    "a session token": ("AWS_SESSION_TOKEN=IQoJb3JpZ2luX2Vj is set", "IQoJb3Jp"),
    "a JWT": ("kubelet said eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln and left", "eyJhbGci"),
    "a PEM block": (f"key was {PEM} and so on", "MIIEow"),
    "a PEM block that is cut": (f"key was {PEM[:50]}", "MIIE"),
    "a user in an address": ("pulling https://user:hunter22@host/x failed", "hunter22"),
    "a GitHub token": ("with ghp_abcdefghij0123456789 it failed", "ghp_abc"),
    "an NVIDIA key": ("with nvapi-abcdefghij0123456789 it failed", "nvapi-abc"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_in_what_people_are_told(name: str) -> None:
    said, secret = SECRETS[name]
    for fields in ({"message": said}, {"stdout": said.split("\n")}):
        _, problem = judge(ctrf("failed", **fields))
        assert problem is not None
        assert secret not in problem
        assert "[redacted]" in problem


def test_a_secret_that_is_cut_is_not_half_shown() -> None:
    """Neither where a message is cut, nor where a huge one is before it is looked at."""
    for before in (280, 290, (16 << 10) - 10):
        _, problem = judge(
            ctrf("failed", message="x " * (before // 2) + "password=hunter2hunter2" + " y" * 20)
        )
        assert problem is not None
        assert "hunter" not in problem


def test_control_characters_do_not_reach_people() -> None:
    _, problem = judge(ctrf("failed", message="a\x1b[31mred\x00\u202eevil\u2066\r\nSubject: x\x9b"))
    assert problem is not None
    assert problem.isprintable()
    assert "a [31mred evil Subject: x" in problem


def test_a_huge_message_is_cut_at_once() -> None:
    began = time.thread_time()
    _, problem = judge(ctrf("failed", message="A" * 500_000 + " " + "://a:" * 80_000))
    assert problem is not None
    assert len(problem) < 500
    assert time.thread_time() - began < 2


def test_the_checks_own_words_cut_and_at_most_five() -> None:
    _, problem = judge(ctrf(*["failed"] * 9, message="boom\n" * 200))
    assert problem is not None
    assert problem.count("boom boom") >= 5
    assert problem.count("check-") == 5
    assert len(problem) < 2000
    _, quiet = judge(ctrf("other", stdout=["line one", "line two"]))
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
    with refused(Reason.AICRArtifactUnsupported, "validation report is not"):
        judge(text)
