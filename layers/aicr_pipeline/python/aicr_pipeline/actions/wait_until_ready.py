"""State "Wait until ready": the sweeper watches the Application until it is ready at this revision."""

from typing import Any

from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.decide.ending import step_words
from aicr_pipeline.model.step import StepEvent


def wait_until_ready(step: StepEvent, waits: Waits) -> dict[str, Any]:
    """Register the wait for one release, until the rollout's deadline."""
    item, applied = dict(step.item or {}), step.input["application"]
    wanted = {
        "rollout": step.input["rollout"],
        "index": item["index"],
        "release": item["release"],
        "step": step_words(item),
        "digest": applied["digest"],
        "requestId": applied["requestId"],
        # What the Application asks for, so that a change of somebody else's during the step is seen.
        "spec": applied.get("spec"),
    }
    return waits.register(step, "application", wanted, str(step.input["deadline"]))
