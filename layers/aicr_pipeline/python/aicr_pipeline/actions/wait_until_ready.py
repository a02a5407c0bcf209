"""State "Wait until ready": the sweeper watches the Application until it is ready at this revision."""

from typing import Any

from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_plan
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.step import StepEvent


def wait_until_ready(step: StepEvent, ledger: Ledger, waits: Waits) -> dict[str, Any]:
    """Register the wait for one release, until the rollout's deadline."""
    item = dict(step.item or {})
    plan = load_plan(ledger, str(step.input["toPlan"]))
    release = plan.release(str(item["release"]))
    if release is None:
        raise PipelineError(Reason.StepUnknown, f"The plan has no release {item['release']}.")
    wanted = {
        "rollout": step.input["rollout"],
        "release": release.name,
        "index": item["index"],
        "of": len(plan.desired_state.releases),
        "action": item["action"],
        "digest": release.chart.manifest_digest,
        "requestId": (item.get("applied") or {}).get("requestId"),
    }
    return waits.register(step, "application", wanted, str(step.input["deadline"]))
