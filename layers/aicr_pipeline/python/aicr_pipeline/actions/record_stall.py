"""An execution that infrastructure ended: nothing is decided, people are told, and it can be redriven."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from aicr_pipeline.actions.tell_approvers import tell_everybody
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import told_key
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason

STALLED = "Execution Stalled"
#: Of a sentence in a record and a message.
MOST_SAID = 1000


def record_stall(
    event: Mapping[str, Any], config: ClusterConfig, ledger: Ledger, bus: Bus, notifier: Notifier
) -> dict[str, Any]:
    """Tell a stall from an end that the domain decided, and record it.

    An end of the domain was told to people by its own state, which left a mark in the ledger last: an
    execution without that mark stalled, wherever it stopped. The lock stays with a stalled rollout,
    since a redrive continues it; the next wish that is submitted takes its place, and one that waited for
    its end does so at once, woken by this event.
    """
    detail = event["detail"]
    name, status = str(detail["name"]), str(detail["status"])
    is_rollout = str(detail["stateMachineArn"]).endswith("-rollout")
    if ledger.get(told_key("rollouts" if is_rollout else "resolves", name)) is not None:
        return {"stalled": False}
    record = {
        "execution": detail["executionArn"],
        "status": status,
        "error": detail.get("error"),
        "at": event["time"],
        **_said(detail.get("cause")),
    }
    body = json.dumps(record, sort_keys=True).encode()
    folder = "rollouts" if is_rollout else "resolves"
    key = f"{folder}/{name}/stalls/{hashlib.sha256(body).hexdigest()[:16]}.json"
    if ledger.get(key) is not None:
        return {"stalled": True}
    said = f"{record['reason']}: {record['message']}\n\n" if "reason" in record else ""
    which = {"rollout" if is_rollout else "run": name}
    bus.announce(STALLED, {"execution": detail["executionArn"], "status": status, **which})
    tell_everybody(
        bus,
        notifier,
        f"[aicr {config.cluster.name}] {name} stalled: {status}",
        f"Execution {name} of cluster {config.cluster.name} ended with {status} "
        f"({detail.get('error') or 'no error name'}), which is no decision of the domain.\n\n"
        f"{said}"
        f"Open it in the Step Functions console and choose Redrive: it continues from the state that "
        f"failed.\n{detail['executionArn']}\n",
        kind="stall",
        **which,
    )
    # Last: a run that dies before this tells again, rather than nobody.
    ledger.put_once(key, body)
    return {"stalled": True}


def _said(cause: str | None) -> dict[str, str]:
    """Reason and sentence of the program's own error, which Lambda hands on as JSON; of no other.

    ``errorMessage`` of the Lambda error: a sentence for a person, which never holds a secret.
    """
    try:
        told = str(json.loads(cause or "")["errorMessage"])
    except (ValueError, KeyError, TypeError):
        return {}
    reason, _, message = told.partition(": ")
    return {"reason": reason, "message": message[:MOST_SAID]} if reason in Reason.__members__ else {}
