"""``rollouts/<name>/validators.json``: which validator ran for each check, as the sweeper saw their pods."""

from typing import Any

from aicr_pipeline.decide.strict_json import read_json
from aicr_pipeline.decide.validation import Report
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.evidence import BoundValidator
from aicr_pipeline.model.reasons import Reason

_MOST_BYTES = 1 << 20


def read_validators_record(text: bytes, report: Report) -> tuple[BoundValidator, ...]:
    """The validators, sorted and distinct, which are those of the report's checks.

    Raises
    ------
    PipelineError
        ``RolloutFailed`` when a check that ran has none, or one is of a check that the report lacks: the
        record is then of another validation. ``AICRArtifactUnsupported`` when it cannot be read.
    """
    data: Any = read_json(text, "record of validators", most_bytes=_MOST_BYTES)
    if not isinstance(data, list):
        raise PipelineError(Reason.AICRArtifactUnsupported, "The record of validators is no list.")
    ran = {
        parse(BoundValidator, item, Reason.AICRArtifactUnsupported, f"validators.json[{index}]")
        for index, item in enumerate(data)
    }
    known = {check.name for check in report.checks}
    foreign = sorted({one.check for one in ran} - known)
    missing = sorted(
        {check.name for check in report.checks if check.status != "skipped"} - {one.check for one in ran}
    )
    for names, problem in ((foreign, "are not in its report"), (missing, "are missing")):
        if names:
            raise PipelineError(
                Reason.RolloutFailed,
                f"The record of validators is of another validation: {', '.join(names[:5])[:300]} {problem}.",
            )
    return tuple(sorted(ran, key=lambda one: (one.check, one.image, one.digest)))
