"""What every handler behind a state does around its action: parse, log, run, turn a domain end into data.

A domain end is data (``{"outcome": {"reason", "message"}}``) for the Choice that follows. Transient
errors and everything unexpected are raised: the state machine retries, then stops there, redrivable.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.parser import parse

from aicr_pipeline import wiring
from aicr_pipeline.adapters.runtimes import require_current
from aicr_pipeline.clock import now, rfc3339
from aicr_pipeline.decide.ending import caught, step_words
from aicr_pipeline.errors import MOST_CHARACTERS, PipelineError
from aicr_pipeline.model.reasons import ROLLOUT_REASONS, Reason
from aicr_pipeline.model.step import StepEvent

logger = Logger()
metrics = Metrics()

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


def step_handler(action: Callable[[StepEvent], dict[str, Any]]) -> Handler:
    """Make a Lambda handler of an action that takes the parsed step."""

    @logger.inject_lambda_context
    @metrics.log_metrics
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        step = parse(event=event, model=StepEvent)
        fields = {
            "state": step.state,
            "execution": step.execution,
            "cluster": step.input.get("cluster"),
            "rollout": step.input.get("rollout"),
            "plan": step.input.get("toPlan"),
            "release": (step.item or {}).get("release"),
        }
        logger.append_keys(**{name: value for name, value in fields.items() if value})
        try:
            result = action(step)
        except PipelineError as error:
            metrics.add_metric(name="StepRefused", unit=MetricUnit.Count, value=1)
            if error.retry:
                logger.warning("transient: %s", error)
                raise
            if _is_step(step) and error.reason not in ROLLOUT_REASONS:
                # The Map catches the domain's reasons only: this stops the execution here, redrivable.
                raise
            logger.warning("refused: %s", error)
            if _is_step(step) and step.item is not None:
                words = f"{step_words(step.item)}: {error.message}"
                reason, message = caught(step.generation, str(error.reason), words)
                error = PipelineError(Reason(reason), message)
            if step.token is None:
                return error.outcome()
            deadline = rfc3339(now() + timedelta(hours=1))
            return wiring.waits().end(step, _answer(step, error), deadline)
        metrics.add_metric(name="StepDone", unit=MetricUnit.Count, value=1)
        logger.info("done", extra={"result": _small(result)})
        return result

    return handler


def resolve_handler(action: Callable[[StepEvent], dict[str, Any]]) -> Handler:
    """As ``step_handler``, for a state of a resolve: one that a newer runtime replaced ends here.

    It costs one request, and a Job on an accelerated node is not started for nothing.
    """

    def current(step: StepEvent) -> dict[str, Any]:
        require_current(wiring.inbox(), str(step.input["runtimeVersion"]))
        return action(step)

    return step_handler(current)


def _is_step(step: StepEvent) -> bool:
    """Whether it is a step of "Roll out releases"."""
    return step.item is not None and "index" in step.item


def _answer(step: StepEvent, error: PipelineError) -> dict[str, Any]:
    """Inside the Map a domain end fails the item by its reason's name; elsewhere it is data for a Choice."""
    if step.item is not None:
        return {"error": str(error.reason), "cause": error.message[:MOST_CHARACTERS]}
    return {"output": error.outcome()}


def _small(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if isinstance(value, str | int | float | bool)}
