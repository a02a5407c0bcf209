"""One Job for each check, as the real command runs its validators: made, watched, read and removed again.

Who the validators run as depends on the version.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from local.aicr import AICR_VERSION
from local.aicr.checks import Result
from local.aicr.cluster import ApiError, Cluster
from local.aicr.documents import to_yaml
from local.aicr.errors import AicrError, log
from local.aicr.release import names_its_account

Object = dict[str, Any]

SERVICE_ACCOUNT = "aicr-validator"
IMAGE = f"ghcr.io/nvidia/aicr-validators/deployment:{AICR_VERSION}"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_DEADLINES = {"expected-resources": 480}
_STATUS = {0: "passed", 1: "failed", 2: "skipped"}


@dataclass(frozen=True)
class Launch:
    """How one call runs its checks.

    From 1.1.0 on the validators run as a ServiceAccount that is there; an older one makes its own for each
    run, bound to cluster-admin, and takes both away again. ``cleanup`` False leaves what was made.
    """

    cluster: Cluster
    namespace: str
    version: str
    cleanup: bool

    def run(self, recipe: Object, snapshot: Object, names: list[str]) -> list[Result]:
        """Run the checks one after another.

        Raises
        ------
        AicrError
            NOT_FOUND without the validators' ServiceAccount; what the API refuses.
        """
        run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(8)}"
        maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        inputs = {
            f"aicr-snapshot-{run}": {"snapshot.yaml": to_yaml(snapshot)},
            f"aicr-validation-{run}": {"validation.yaml": to_yaml(validation_input(recipe))},
        }
        try:
            account = self._account(run)
            for name, data in inputs.items():
                metadata = {"name": name, "namespace": self.namespace, "labels": _labels(run)}
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
                self.cluster.create(maps, body)
            return [self._check(run, name, account) for name in names]
        finally:
            if self.cleanup:
                for name in inputs:
                    self.cluster.delete(f"{maps}/{name}")
                if not names_its_account(self.version):
                    self.cluster.delete(f"{_BINDINGS}/{SERVICE_ACCOUNT}-{run}")
                    self.cluster.delete(f"{self._accounts}/{SERVICE_ACCOUNT}-{run}")

    @property
    def _accounts(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/serviceaccounts"

    def _account(self, run: str) -> str:
        if names_its_account(self.version):
            try:
                self.cluster.get(f"{self._accounts}/{SERVICE_ACCOUNT}")
            except ApiError as error:
                raise AicrError(
                    error.code, f"ServiceAccount {self.namespace}/{SERVICE_ACCOUNT}: {error.message}"
                ) from error
            return SERVICE_ACCOUNT
        name = f"{SERVICE_ACCOUNT}-{run}"
        labels = {"app.kubernetes.io/managed-by": "aicr", "app.kubernetes.io/name": SERVICE_ACCOUNT}
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
        }
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": labels},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
        }
        self.cluster.apply(f"{self._accounts}/{name}", account)
        self.cluster.apply(f"{_BINDINGS}/{name}", binding)
        return name

    def _check(self, run: str, check: str, account: str) -> Result:
        jobs = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        body = validator_job(self.namespace, run, check, account)
        name = body["metadata"]["name"]
        began = time.monotonic()
        self.cluster.apply(f"{jobs}/{name}", body)
        try:
            seconds = int(body["spec"]["activeDeadlineSeconds"]) + 30
            for job in self.cluster.watch(f"{jobs}?fieldSelector=metadata.name%3D{name}", seconds):
                if _is_finished(job):
                    break
            pods = f"/api/v1/namespaces/{self.namespace}/pods"
            selector = f"labelSelector=batch.kubernetes.io%2Fjob-name%3D{name}"
            found = self.cluster.get(f"{pods}?{selector}").get("items") or []
            pod = found[0] if found else None
            log_path = f"{pods}/{pod['metadata']['name']}/log?container=validator" if pod else ""
            output = self.cluster.text(log_path) if pod else ""
            result = result_of(check, pod, output, round((time.monotonic() - began) * 1000))
        finally:
            if self.cleanup:
                self.cluster.delete(f"{jobs}/{name}", "Foreground")
        log("validator completed", name=check, status=result.status)
        return result


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


def validator_job(namespace: str, run: str, check: str, account: str) -> Object:
    """The Job of one check."""
    name = f"aicr-{check}-{secrets.token_hex(4)}"
    labels = _labels(run) | {
        "aicr.run/job-type": "validation",
        "aicr.run/phase": "deployment",
        "aicr.run/validator": check,
    }
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
        "serviceAccountName": account,
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
            # The run's id stands on the Job and in the pod's environment only, as with the real command.
            "template": {
                "metadata": {
                    "labels": {
                        "aicr.run/validator": check,
                        "app.kubernetes.io/component": "validation",
                        "app.kubernetes.io/name": "aicr",
                    }
                },
                "spec": pod,
            },
        },
    }


def result_of(check: str, pod: Object | None, output: str, milliseconds: int) -> Result:
    """What a check's Pod says; ``other`` for one that crashed or is gone."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    ended = (statuses[0].get("state") or {}).get("terminated") or {}
    status = _STATUS.get(ended.get("exitCode", -1), "other")
    return Result(check, status, output.splitlines(), str(ended.get("message", "")), milliseconds)


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
