"""One Job for each check, as the real command runs its validators: made, watched, read and removed again.

The launcher needs rights in its own namespace only; the validators run as another ServiceAccount.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import Any

from local.aicr import AICR_VERSION
from local.aicr.checks import Result
from local.aicr.cluster import ApiError, Cluster
from local.aicr.documents import to_yaml
from local.aicr.errors import AicrError, log

Object = dict[str, Any]

SERVICE_ACCOUNT = "aicr-validator"
IMAGE = f"ghcr.io/nvidia/aicr-validators/deployment:{AICR_VERSION}"
_DEADLINES = {"expected-resources": 480}
_STATUS = {0: "passed", 1: "failed", 2: "skipped"}


def run_checks(
    cluster: Cluster, namespace: str, recipe: Object, snapshot: Object, names: list[str]
) -> list[Result]:
    """Run the checks one after another.

    Raises
    ------
    AicrError
        NOT_FOUND without the validators' ServiceAccount; what the API refuses.
    """
    try:
        cluster.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{SERVICE_ACCOUNT}")
    except ApiError as error:
        raise AicrError(
            error.code, f"ServiceAccount {namespace}/{SERVICE_ACCOUNT}: {error.message}"
        ) from error
    run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(8)}"
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    inputs = {
        f"aicr-snapshot-{run}": {"snapshot.yaml": to_yaml(snapshot)},
        f"aicr-validation-{run}": {"validation.yaml": to_yaml(validation_input(recipe))},
    }
    try:
        for name, data in inputs.items():
            metadata = {"name": name, "namespace": namespace, "labels": _labels(run)}
            cluster.create(
                maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )
        return [_run_check(cluster, namespace, run, name) for name in names]
    finally:
        for name in inputs:
            cluster.delete(f"{maps}/{name}")


def validation_input(recipe: Object) -> Object:
    """The document that a validator reads."""
    return {
        "apiVersion": "validator.nvidia.com/v1alpha1",
        "kind": "ValidationInput",
        "metadata": {"version": AICR_VERSION},
        "config": recipe.get("validation") or {},
        "componentRefs": recipe.get("componentRefs") or [],
        "criteria": recipe.get("criteria") or {},
        "constraints": recipe.get("constraints") or [],
    }


def validator_job(namespace: str, run: str, check: str) -> Object:
    """The Job of one check."""
    name = f"aicr-{check}-{secrets.token_hex(4)}"
    labels = _labels(run) | {"aicr.run/phase": "deployment", "aicr.run/validator": check}
    container = {
        "name": "validator",
        "image": IMAGE,
        "args": [check],
        "env": [
            {"name": "AICR_SNAPSHOT_PATH", "value": "/data/snapshot/snapshot.yaml"},
            {"name": "AICR_VALIDATION_PATH", "value": "/data/validation/validation.yaml"},
            {"name": "AICR_RUN_ID", "value": run},
        ],
        "volumeMounts": [
            {"name": kind, "mountPath": f"/data/{kind}", "readOnly": True}
            for kind in ("snapshot", "validation")
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": SERVICE_ACCOUNT,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [
            {"name": kind, "configMap": {"name": f"aicr-{kind}-{run}"}} for kind in ("snapshot", "validation")
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "activeDeadlineSeconds": _DEADLINES.get(check, 120),
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 3600,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def result_of(check: str, pod: Object | None, output: str, milliseconds: int) -> Result:
    """What a check's Pod says; ``other`` for one that crashed or is gone."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    ended = (statuses[0].get("state") or {}).get("terminated") or {}
    status = _STATUS.get(ended.get("exitCode", -1), "other")
    return Result(check, status, output.splitlines(), str(ended.get("message", "")), milliseconds)


def _run_check(cluster: Cluster, namespace: str, run: str, check: str) -> Result:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    body = validator_job(namespace, run, check)
    name = body["metadata"]["name"]
    began = time.monotonic()
    cluster.apply(f"{jobs}/{name}", body)
    try:
        seconds = int(body["spec"]["activeDeadlineSeconds"]) + 30
        for job in cluster.watch(f"{jobs}?fieldSelector=metadata.name%3D{name}", seconds):
            if _is_finished(job):
                break
        pods = f"/api/v1/namespaces/{namespace}/pods"
        selector = f"labelSelector=batch.kubernetes.io%2Fjob-name%3D{name}"
        found = cluster.get(f"{pods}?{selector}").get("items") or []
        pod = found[0] if found else None
        output = cluster.text(f"{pods}/{pod['metadata']['name']}/log?container=validator") if pod else ""
        result = result_of(check, pod, output, round((time.monotonic() - began) * 1000))
    finally:
        cluster.delete(f"{jobs}/{name}", "Foreground")
    log("validator completed", name=check, status=result.status)
    return result


def _is_finished(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(item["type"] in ("Complete", "Failed") and item["status"] == "True" for item in conditions)


def _labels(run: str) -> dict[str, str]:
    return {
        "aicr.run/run-id": run,
        "app.kubernetes.io/component": "validation",
        "app.kubernetes.io/managed-by": "aicr",
        "app.kubernetes.io/name": "aicr",
    }
