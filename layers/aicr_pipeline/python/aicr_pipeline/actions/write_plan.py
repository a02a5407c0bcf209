"""State "Write plan": what was read and mirrored becomes a plan, written once under its digest."""

import json
from typing import Any

from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.resolves import Resolves
from aicr_pipeline.adapters.runtimes import pinned, read_runtime_text
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.plan import make_plan, read_plan
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import Recorded, plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import parse_runtime
from aicr_pipeline.model.step import StepEvent


def write_plan(
    step: StepEvent, config: ClusterConfig, inbox: Inbox, ledger: Ledger, clock: Clock
) -> dict[str, Any]:
    """Write the plan, unless a plan with the same desired state is there already.

    Returns
    -------
    dict
        ``digest``, ``releases`` (a count) and ``isNew``.

    Raises
    ------
    PipelineError
        With the first held chart's reason, all held charts named; ``PlanUnreadable`` when what stands
        under the digest is not that plan.
    """
    _require_all(step.input["mirror"])
    run, version = str(step.input["run"]), str(step.input["runtimeVersion"])
    wish = read_runtime_text(inbox, version)
    runtime = parse_runtime(wish)
    resolves = Resolves(ledger, run)
    bundle, bundle_digest = resolves.bundle()
    snapshot = read_snapshot(resolves.snapshot() or b"")
    recorded = Recorded(
        run=run,
        runtime_version=version,
        runtime_digest=sha256(wish),
        created_at=rfc3339(clock()),
        snapshot_digest=snapshot.digest,
        recipe_digest=bundle.recipe_digest,
        bundle_digest=bundle_digest,
        bundle_info=bundle.info,
        gpu_driver_state=snapshot.gpu_driver_state,
    )
    charts = {release.name: resolves.chart(release.name) for release in bundle.releases}
    plan = make_plan(bundle, runtime, pinned(runtime, config.aicr), charts, recorded)
    key = plan_key(plan.desired_state_digest)
    is_new = ledger.put_once(key, json.dumps(plan.wire(), sort_keys=True, indent=1).encode())
    if not is_new:
        read_plan(ledger.get(key) or b"", plan.desired_state_digest)
    return {"digest": plan.desired_state_digest, "releases": len(bundle.releases), "isNew": is_new}


def _require_all(mirrored: list[dict[str, Any]]) -> None:
    held = [result for result in mirrored if result["status"] == "held"]
    if held:
        named = " | ".join(
            f"{result['release']} ({result['reason']}): {result['message']}" for result in held
        )
        raise PipelineError(
            Reason(held[0]["reason"]), f"{len(held)} of {len(mirrored)} charts are held. {named}"
        )
