"""Reading AICR's CTRF report: the tests decide, never an exit code. CTRF: https://ctrf.io, spec 0.0."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.redact import plain_words
from aicr_pipeline.decide.strict_json import read_json
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.evidence import BoundValidation
from aicr_pipeline.model.reasons import Reason

#: What a ConfigMap holds at most (1 MiB), by which the report comes.
MOST_REPORT_BYTES = 1 << 20
#: Of a check's own words, and how many failing checks a message names.
_MOST_WORDS, _MOST_NAMED = 300, 5
_STATUSES = ("passed", "failed", "skipped", "pending", "other")


@dataclass(frozen=True)
class CheckResult:
    """One test of a report. ``status`` is one of CTRF's, else ``other``; ``said`` is what the check wrote."""

    name: str
    status: str
    said: str


@dataclass(frozen=True)
class Report:
    """A CTRF report: the document, and its tests in order."""

    document: Mapping[str, Any]
    checks: tuple[CheckResult, ...]

    def count(self, *statuses: str) -> int:
        """How many checks ended so."""
        return sum(1 for check in self.checks if check.status in statuses)


def read_report(report: bytes) -> Report:
    """Read a CTRF report in full.

    Raises
    ------
    PipelineError
        ``ContentTooLarge`` above ``MOST_REPORT_BYTES``. ``AICRArtifactUnsupported`` when it is no CTRF
        report; when a test has no name, or another's; when its summary does not say what its tests say.
    """
    document = read_json(report, "validation report", most_bytes=MOST_REPORT_BYTES)
    results = document.get("results") if isinstance(document, dict) else None
    tests = results.get("tests") if isinstance(results, dict) else None
    if document_kind(document) != "CTRF" or not isinstance(tests, list):
        raise _unsupported("is not CTRF: it lacks reportFormat CTRF or results.tests")
    checks = tuple(_check(test, f"results.tests[{index}]") for index, test in enumerate(tests))
    twice = [name for name, times in Counter(check.name for check in checks).items() if times > 1]
    if twice:
        raise _unsupported(f"names a test twice: {plain_words(', '.join(twice), 200)}")
    found = Report(document, checks)
    _check_summary(found, results.get("summary") if isinstance(results, dict) else None)
    return found


def document_kind(document: Any) -> str:
    """``reportFormat`` of a document; empty when it has none."""
    kind = document.get("reportFormat") if isinstance(document, dict) else None
    return kind if isinstance(kind, str) else ""


def judge(report: bytes) -> tuple[BoundValidation, str | None]:
    """Count the tests of a CTRF report and say why the rollout fails, or None when it passed.

    ``failed``, ``other`` and ``pending`` fail, and so does a status that CTRF does not know. A report without
    tests, or with every test skipped, is not a pass.

    Raises
    ------
    PipelineError
        As ``read_report``.
    """
    found = read_report(report)
    result = BoundValidation(
        mode="Required",
        tests=len(found.checks),
        passed=found.count("passed"),
        failed=found.count("failed"),
        skipped=found.count("skipped"),
        other=found.count("pending", "other"),
        report_digest=sha256(report),
    )
    bad = [check for check in found.checks if check.status not in ("passed", "skipped")]
    if bad:
        more = f"; and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
        words = "; ".join(_words(check) for check in bad[:_MOST_NAMED])
        return result, f"deployment validation failed: {words}{more}"
    if not found.checks:
        return result, "deployment validation passed nothing: the report has no tests"
    if not result.passed:
        return result, "deployment validation passed nothing: every test was skipped"
    return result, None


def _check(test: Any, place: str) -> CheckResult:
    if not isinstance(test, dict):
        raise _unsupported(f"has no test at {place}, but something else")
    name, status = test.get("name"), test.get("status")
    if not isinstance(name, str) or not name.strip() or len(name) > 256:
        raise _unsupported(f"has a test without a proper name: {place}.name")
    said = test.get("message") or _joined(test.get("stdout"))
    return CheckResult(name, status if status in _STATUSES else "other", str(said))


def _check_summary(report: Report, summary: Any) -> None:
    """A summary that says something else than the tests comes from a report that was changed or cut."""
    if not isinstance(summary, dict):
        raise _unsupported("has no results.summary")
    counts = {"tests": len(report.checks), **{status: report.count(status) for status in _STATUSES}}
    for name, count in counts.items():
        said = summary.get(name)
        if type(said) is not int or said != count:
            raise _unsupported(
                f"contradicts itself: results.summary.{name} is {str(said)[:40]}, its tests say {count}"
            )


def _words(check: CheckResult) -> str:
    """The failing check's own words, fit for a message."""
    words = plain_words(check.said, _MOST_WORDS)
    return f"{plain_words(check.name, 80)} ({check.status}){': ' + words if words else ''}"


def _joined(lines: Any) -> str:
    return "\n".join(str(line) for line in lines) if isinstance(lines, list) else ""


def _unsupported(problem: str) -> PipelineError:
    return PipelineError(Reason.AICRArtifactUnsupported, f"AICR's validation report {problem}.")
