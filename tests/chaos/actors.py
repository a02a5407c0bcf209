"""Who acts beside the functions: Argo CD, the kubelet and a person, a few lines each, never disturbed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.application import MANAGED_BY

from local.kube import APPLICATIONS, CONFIG_MAPS, JOBS
from tests.functional.actions.support import LEDGER
from tests.functional.actions.test_action_sweep_jobs import SNAPSHOT

if TYPE_CHECKING:
    from tests.chaos.world import World


def argo_cd(world: World) -> bool:
    """Every operation that was asked for is done, well."""
    acted = False
    for found in world.store.list(APPLICATIONS, "argocd"):
        state = (found.get("status") or {}).get("operationState") or {}
        asked = found.get("operation") or (state["operation"] if state.get("phase") == "Running" else None)
        if not asked:
            _compare(world, found)
            continue
        name, spec = found["metadata"]["name"], found["spec"]
        since = world.since.setdefault(name, world.now)
        if (world.now - since).total_seconds() < world.slow.get(name, 0):
            running = {"phase": "Running", "operation": asked, "startedAt": f"{rfc3339(since)[:19]}Z"}
            status = {"operationState": running, "reconciledAt": f"{rfc3339(world.now)[:19]}Z"}
            world.store.merge(APPLICATIONS, name, {"operation": None, "status": status}, "argocd")
            continue
        request = next(i["value"] for i in asked["info"] if i["name"].endswith("request-id"))
        world.operations[name, request] += 1
        began = world.later(1)
        done, digest = world.later(1), asked["sync"]["revision"]
        whole = lambda text: f"{text[:19]}Z"  # noqa: E731 - Argo CD writes whole seconds
        status = {
            "sync": {
                "status": "Synced",
                "revision": digest,
                "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
            },
            "health": {"status": "Healthy", "lastTransitionTime": whole(done)},
            "reconciledAt": whole(world.later(1)),
            "operationState": {
                "phase": "Succeeded",
                "startedAt": whole(began),
                "finishedAt": whole(done),
                "operation": asked,
                "syncResult": {"revision": digest, "source": spec["source"]},
            },
            "history": [
                *(found.get("status", {}).get("history") or []),
                {"id": world.operations.total(), "revision": digest, "deployedAt": whole(done),
                 "initiatedBy": {"username": MANAGED_BY}, "source": spec["source"]},
            ],
        }  # fmt: skip
        world.store.merge(APPLICATIONS, name, {"operation": None, "status": status}, "argocd")
        acted = True
    return acted


def _compare(world: World, found: Any) -> None:
    """Argo CD looks at each Application every three minutes; what it sees is what it made."""
    at = (found.get("status") or {}).get("reconciledAt")
    if at is not None and (world.now - parse_time(at)).total_seconds() > 180:
        status = {"reconciledAt": f"{rfc3339(world.now)[:19]}Z"}
        world.store.merge(APPLICATIONS, found["metadata"]["name"], {"status": status}, "argocd")


def kubelet(world: World) -> bool:
    """Every Job ends well, with a snapshot."""
    acted = False
    for job in world.store.list(JOBS, "aicr-system"):
        if (job.get("status") or {}).get("conditions"):
            continue
        name = job["metadata"]["name"]
        done = {"conditions": [{"type": "Complete", "status": "True", "reason": "r", "message": "m"}]}
        body = {"metadata": {"name": name}, "data": {"snapshot.yaml": SNAPSHOT}}
        if world.store.find(CONFIG_MAPS, name, "aicr-system") is None:
            world.store.create(CONFIG_MAPS, body, namespace="aicr-system")
        else:
            world.store.merge(CONFIG_MAPS, name, body, "aicr-system")
        world.store.merge_status(JOBS, name, {"status": done}, namespace="aicr-system")
        acted = True
    return acted


def person(world: World) -> bool:
    """Approves what waits: writes the decision as the page does."""
    for execution in world.executions.values():
        if execution.token is None or execution.entered[-1] != "Request approval":
            continue
        key = f"rollouts/{execution.name}"
        request = world.json(f"{key}/request.json")
        if request is None or world.json(f"{key}/decision.json") is not None:
            continue
        decision = {
            "rollout": execution.name, "decision": "Approved", "requestDigest": request["digest"],
            "by": ["alex"], "identity": "link", "issuer": "aicr-pipeline", "reason": "Looks right",
            "at": rfc3339(world.now), "expiresAt": request["deadline"],
        }  # fmt: skip
        world.s3.put_object(Bucket=LEDGER, Key=f"{key}/decision.json", Body=json.dumps(decision).encode())
        event = {"detail": {"object": {"key": f"{key}/decision.json"}}}
        world.queue("sweep_waiters", event)
        return True
    return False
