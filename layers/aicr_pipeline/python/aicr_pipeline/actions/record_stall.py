"""An execution that infrastructure ended: nothing is decided, people are told, and it can be redriven."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import is_over
from aicr_pipeline.model.config import ClusterConfig

STALLED = "Execution Stalled"


def record_stall(
    event: Mapping[str, Any], config: ClusterConfig, ledger: Ledger, bus: Bus, notifier: Notifier
) -> dict[str, Any]:
    """Tell a stall from an end that the domain decided, and record it.

    A rollout that has its outcome is over: its Fail state is how the domain ends it. A resolve that
    ended through "Resolve stalled" told people already. The lock stays with a stalled rollout, since
    a redrive continues it; the next wish that is submitted takes its place.
    """
    detail = event["detail"]
    name, status = str(detail["name"]), str(detail["status"])
    is_rollout = str(detail["stateMachineArn"]).endswith("-rollout")
    if is_rollout and is_over(ledger, name):
        return {"stalled": False}
    if not is_rollout and status == "FAILED" and _is_reason(str(detail.get("error") or "")):
        return {"stalled": False}
    record = {
        "execution": detail["executionArn"],
        "status": status,
        "error": detail.get("error"),
        "at": event["time"],
    }
    body = json.dumps(record, sort_keys=True).encode()
    folder = "rollouts" if is_rollout else "resolves"
    first = ledger.put_once(f"{folder}/{name}/stalls/{hashlib.sha256(body).hexdigest()[:16]}.json", body)
    bus.announce(STALLED, {"execution": detail["executionArn"], "status": status})
    if first:
        notifier.send_all(
            f"[aicr {config.cluster.name}] {name} stalled: {status}",
            f"Execution {name} of cluster {config.cluster.name} ended with {status} "
            f"({detail.get('error') or 'no error name'}), which is no decision of the domain.\n\n"
            f"Open it in the Step Functions console and choose Redrive: it continues from the state that "
            f"failed.\n{detail['executionArn']}\n",
        )
    return {"stalled": True}


def _is_reason(error: str) -> bool:
    from aicr_pipeline.model.reasons import Reason

    return error in Reason.__members__
