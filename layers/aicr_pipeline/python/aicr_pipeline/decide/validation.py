"""Reading AICR's CTRF report: the tests decide, never an exit code."""

import json
from typing import Any

from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.evidence import BoundValidation
from aicr_pipeline.model.reasons import Reason

_STATUSES = ("passed", "failed", "skipped", "pending", "other")


def judge(report: bytes) -> tuple[BoundValidation, str | None]:
    """Count the tests of a CTRF report and say why the rollout fails, or None when it passed.

    ``failed`` and ``other`` fail; ``pending`` counts as ``other``; a report without tests, or with
    every test skipped, is not a pass.

    Raises
    ------
    PipelineError
        ``AICRArtifactUnsupported`` when it is not a CTRF report.
    """
    tests = _tests(report)
    counts = {status: sum(1 for test in tests if test.get("status") == status) for status in _STATUSES}
    other = len(tests) - counts["passed"] - counts["failed"] - counts["skipped"]
    result = BoundValidation(
        mode="Required",
        tests=len(tests),
        passed=counts["passed"],
        failed=counts["failed"],
        skipped=counts["skipped"],
        other=other,
        report_digest=sha256(report),
    )
    bad = [test for test in tests if test.get("status") not in ("passed", "skipped")]
    if bad:
        return result, "deployment validation failed: " + "; ".join(_words(test) for test in bad[:5])
    if not counts["passed"]:
        return result, "deployment validation passed nothing: every test was skipped"
    return result, None


def _tests(report: bytes) -> list[dict[str, Any]]:
    try:
        data = json.loads(report)
        tests = data["results"]["tests"]
        if data["reportFormat"] != "CTRF" or not isinstance(tests, list):
            raise TypeError("not a CTRF report")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PipelineError(
            Reason.AICRArtifactUnsupported, f"The validation report is not CTRF: {error!r}."
        ) from None
    return [test if isinstance(test, dict) else {} for test in tests]


def _words(test: dict[str, Any]) -> str:
    """The failing check's own words, cut for a message."""
    said = test.get("message") or _joined(test.get("stdout"))
    words = " ".join(str(said).split())[:300]
    return f"{test.get('name', 'unnamed')} ({test.get('status')}){': ' + words if words else ''}"


def _joined(lines: Any) -> str:
    return " ".join(str(line) for line in lines) if isinstance(lines, list) else ""
