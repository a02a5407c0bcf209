"""Applications as Argo CD leaves them: one that is ready, and changes to it."""

import copy
from typing import Any

from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.application import REQUEST_ID

from tests.unit.samples import sha

WANTED, OLD = sha("wanted"), sha("old")
REQUEST = "demo-12345678-1/009-gpu-operator"
SOURCE = {"repoURL": "oci://registry/charts/gpu-operator", "path": ".", "targetRevision": WANTED}
PLACE = {"server": "https://kubernetes.default.svc", "namespace": "gpu-operator"}
NOW, SINCE = parse_time("2026-01-01T10:00:10Z"), parse_time("2026-01-01T10:00:00Z")
INFO = [{"name": REQUEST_ID, "value": REQUEST}]
GONE = object()

READY: dict[str, Any] = {
    "metadata": {"name": "gpu-operator", "annotations": {"other": "x"}},
    "spec": {"source": SOURCE, "destination": PLACE, "syncPolicy": {}},
    "status": {
        "sync": {
            "status": "Synced",
            "revision": WANTED,
            "comparedTo": {"source": SOURCE, "destination": PLACE},
        },
        "health": {"status": "Healthy"},
        "reconciledAt": "2026-01-01T10:00:05Z",
        "operationState": {
            "phase": "Succeeded",
            "startedAt": "2026-01-01T10:00:00Z",
            "finishedAt": "2026-01-01T10:00:04Z",
            "operation": {"info": INFO, "sync": {"revision": WANTED}},
            "syncResult": {"revision": WANTED},
        },
        "conditions": [],
    },
}
STATE = READY["status"]["operationState"]


def application(changes: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(READY)
    for path, value in changes.items():
        *before, last = path.split("/")
        inner = made
        for part in before:
            inner = inner.setdefault(part, {})
        if value is GONE:
            del inner[last]
        else:
            inner[last] = value
    return made


def condition(kind: str, message: str = "words") -> dict[str, Any]:
    return {"status/conditions": [{"type": kind, "message": message}]}


def state(**changes: Any) -> dict[str, Any]:
    made = {**copy.deepcopy(STATE), **changes}
    return {"status/operationState": {key: value for key, value in made.items() if value is not GONE}}


def result(kind: str, name: str, message: str, **more: Any) -> dict[str, Any]:
    """An entry of ``syncResult.resources``, with all that an API server wants of one."""
    where = {"group": "", "version": "v1", "namespace": "gpu-operator"}
    return {**where, "kind": kind, "name": name, "message": message, **more}
