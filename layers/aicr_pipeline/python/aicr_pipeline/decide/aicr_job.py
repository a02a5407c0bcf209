"""The Kubernetes Jobs that run AICR: snapshot, recipe and bundle, validation.

The image is pinned by digest; the pod of a snapshot has what AICR's own agent asks for, all others
run restricted. Results come back through a ConfigMap or the registry, never by parsing logs.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.aicr_command import bundle_arguments, recipe_arguments, wish_of
from aicr_pipeline.decide.names import run_label
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.aicr_generation import Generation
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import ClusterRuntime, NodeGroup

SYSTEM_NAMESPACE = "aicr-system"
VALIDATION_NAMESPACE = "aicr-validation"
MANAGED_BY = "aicr-pipeline"
RUN_LABEL = "aicr-pipeline.dev/run"
#: Exit codes of the AICR CLI. 6 (unavailable) and 7 (rate limited) are retried and stall nothing.
EXIT_REASONS: Mapping[int, Reason] = {
    2: Reason.AICRInvalidRequest,
    3: Reason.AICRNotFound,
    4: Reason.AICRUnauthorized,
    5: Reason.AICRTimeout,
    8: Reason.AICRInternal,
}
RETRIED_EXITS = frozenset({6, 7})

_RESTRICTED: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_SMALL = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


@dataclass(frozen=True)
class PushTarget:
    """Where a Job pushes, without scheme: ``host/prefix/repository``, and how."""

    reference: str
    plain_http: bool


def snapshot_job(name: str, run: str, image: str, accelerated: NodeGroup) -> dict[str, Any]:
    """A Job on an accelerated node that writes ConfigMap ``name`` with the snapshot.

    Privileged and in the host's namespaces, as AICR's agent needs to read hardware and systemd.
    """
    container = _container("aicr", image, ["snapshot", "-o", f"cm://{SYSTEM_NAMESPACE}/{name}"]) | {
        "env": [
            {"name": "AICR_AGENT_MODE", "value": "true"},
            {"name": "AICR_LOG_PREFIX", "value": "agent"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "resources": {
            "requests": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "2Gi"},
            "limits": {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "4Gi"},
        },
        "securityContext": {
            "privileged": True,
            "allowPrivilegeEscalation": True,
            "runAsUser": 0,
            "runAsGroup": 0,
            "capabilities": {"add": ["SYS_ADMIN", "SYS_CHROOT"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the container
            {"name": "run-systemd", "mountPath": "/run/systemd", "readOnly": True},
            {"name": "os-release", "mountPath": "/etc/os-release", "readOnly": True},
        ],
    }
    pod = {
        "serviceAccountName": "aicr-snapshot",
        "hostPID": True,
        "hostIPC": True,
        "hostNetwork": True,
        **_on(accelerated),
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "run-systemd", "hostPath": {"path": "/run/systemd", "type": "Directory"}},
            {"name": "os-release", "hostPath": {"path": "/etc/os-release", "type": "File"}},
        ],
        "containers": [container],
    }
    return _job(name, SYSTEM_NAMESPACE, run, 1800, pod)


def render_job(name: str, run: str, image: str, runtime: ClusterRuntime, push: PushTarget) -> dict[str, Any]:
    """A Job that resolves the recipe, renders the bundle and pushes it to ``push``.

    Two steps in one pod: the init container writes the recipe, the container renders from it.

    Raises
    ------
    PipelineError
        ``InvalidPlacement`` for a toleration that AICR's flags cannot express.
    """
    wish, recipe_file = wish_of(runtime), "/work/recipe.yaml"
    recipe = _container("recipe", image, recipe_arguments(wish, recipe_file))
    arguments = bundle_arguments(wish, recipe_file, f"oci://{push.reference}")
    bundle = _container("bundle", image, [*arguments, *(("--plain-http",) if push.plain_http else ())])
    pod = _pushing_pod(name, "aicr-render", [recipe], [bundle]) | _on(runtime.spec.placement.system)
    return _job(name, SYSTEM_NAMESPACE, run, 1200, pod)


_SIGNING_KEY = "--signing-key"


@dataclass(frozen=True)
class Signing:
    """The KMS key that AICR signs its evidence with, and whether the signature goes into the public log.

    ``key`` is ``awskms:///<alias or ARN>``; ``region`` is where it lives.
    """

    key: str
    region: str
    transparency_log: bool

    def arguments(self) -> tuple[str, ...]:
        """AICR's flags, spelled as `aicr bundle` spells them.

        Its public help does not have them on `aicr validate`: that they are the same there is assumed, here
        and nowhere else.
        """
        return (_SIGNING_KEY, self.key, *(() if self.transparency_log else ("--tlog-upload=false",)))


def validate_job(
    name: str,
    run: str,
    image: str,
    aicr: Generation,
    system: NodeGroup,
    push: PushTarget,
    signing: Signing | None,
) -> dict[str, Any]:
    """A Job that runs AICR's deployment validation and pushes its evidence to ``push``.

    Recipe and snapshot are ConfigMaps ``<name>-recipe`` and ``<name>-snapshot``; the CTRF report is
    written to ConfigMap ``<name>``.

    Parameters
    ----------
    aicr
        With a named account the validators' Jobs stay until their own TTL, an hour, so that their pods can be
        looked at: nothing that they leave has rights. The older generation has to remove them, since it would
        leave the binding of its run to cluster-admin as well.
    signing
        None: the evidence is pushed unsigned.
    """
    validate = _container(
        "aicr",
        image,
        [
            *("validate", "-r", f"cm://{VALIDATION_NAMESPACE}/{name}-recipe"),
            *("-s", f"cm://{VALIDATION_NAMESPACE}/{name}-snapshot"),
            *("--phase", "deployment", "--namespace", VALIDATION_NAMESPACE),
            *("--emit-attestation", "/work/evidence", "--push", push.reference),
            *(("--no-sign",) if signing is None else signing.arguments()),
            *(("--no-cleanup",) if aicr is Generation.NAMED_ACCOUNT else ()),
            *(("--plain-http",) if push.plain_http else ()),
            *("-o", f"cm://{VALIDATION_NAMESPACE}/{name}"),
        ],
    )
    pod = _pushing_pod(name, "aicr-validation", [], [validate]) | _on(system)
    if signing is not None:
        # An alias is looked for in a region, and nothing else in the pod has to name one.
        pod["containers"][0]["env"] += [{"name": "AWS_REGION", "value": signing.region}]
    return _job(name, VALIDATION_NAMESPACE, run, 7200, pod)


def signing_key_of(job: Mapping[str, Any]) -> str | None:
    """The key that a validation Job signs with, None without one. A Job's pod template never changes."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    arguments = list(container["args"])
    return str(arguments[arguments.index(_SIGNING_KEY) + 1]) if _SIGNING_KEY in arguments else None


def registry_secret(job: Mapping[str, Any], host: str, user: str, password: str) -> dict[str, Any]:
    """The per-run Secret with Docker credentials, owned by the Job so that it goes with it."""
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    config = json.dumps({"auths": {host: {"auth": auth}}})
    return _owned(job, str(job["metadata"]["name"])) | {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()},
    }


def output_config_map(job: Mapping[str, Any]) -> dict[str, Any]:
    """The ConfigMap that AICR will write, of the Job's name, made ahead and owned by the Job.

    AICR writes it with server-side apply, which leaves the owner of an object that is there.
    """
    return _owned(job, str(job["metadata"]["name"])) | {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}


def input_config_map(job: Mapping[str, Any], suffix: str, text: str) -> dict[str, Any]:
    """An input of the Job, owned by it. AICR reads any document of a ConfigMap under ``snapshot.<format>``.

    Raises
    ------
    PipelineError
        ``ContentTooLarge`` above what a ConfigMap holds (1 MiB in all; 1,000,000 bytes of text here).
    """
    if len(text.encode()) > 1_000_000:
        raise PipelineError(
            Reason.ContentTooLarge, f"The {suffix} is too large for a ConfigMap, which holds 1 MiB."
        )
    return _owned(job, f"{job['metadata']['name']}-{suffix}") | {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"snapshot.yaml": text, "format": "yaml"},
    }


def _container(name: str, image: str, args: list[str]) -> dict[str, Any]:
    """Kubernetes puts variables in for ``$(NAME)`` and makes one of ``$$``; an override may hold either."""
    return {
        "name": name,
        "image": image,
        "command": ["aicr"],
        "args": [argument.replace("$", "$$") for argument in args],
    }


def _on(nodes: NodeGroup) -> dict[str, Any]:
    """Where a pod may run: in a cluster whose nodes all have taints, one without tolerations never starts."""
    return {
        "nodeSelector": dict(nodes.node_selector),
        "tolerations": [toleration.wire() for toleration in nodes.tolerations],
    }


def _pushing_pod(
    secret: str, account: str, before: list[dict[str, Any]], then: list[dict[str, Any]]
) -> dict[str, Any]:
    extra = {
        # AICR leaves a folder `bundle` where it stands, and the root is read-only.
        "workingDir": "/work",
        "env": [
            {"name": "DOCKER_CONFIG", "value": "/auth"},
            {"name": "HOME", "value": "/work"},
            {"name": "TMPDIR", "value": "/work"},
        ],
        "resources": _SMALL,
        "securityContext": dict(_RESTRICTED),
        "volumeMounts": [
            {"name": "work", "mountPath": "/work"},
            {"name": "auth", "mountPath": "/auth", "readOnly": True},
        ],
    }
    pod: dict[str, Any] = {
        "serviceAccountName": account,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            {"name": "work", "emptyDir": {}},
            {
                "name": "auth",
                "secret": {
                    "secretName": secret,
                    "items": [{"key": ".dockerconfigjson", "path": "config.json"}],
                },
            },
        ],
        "containers": [container | extra for container in then],
    }
    if before:
        pod["initContainers"] = [container | extra for container in before]
    return pod


def _job(name: str, namespace: str, run: str, deadline_seconds: int, pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": MANAGED_BY, RUN_LABEL: run_label(run)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": deadline_seconds,
            # Long enough for people to read the logs; the results are in the ledger by then.
            "ttlSecondsAfterFinished": 86400,
            "template": {"metadata": {"labels": labels}, "spec": pod | {"restartPolicy": "Never"}},
        },
    }


def _owned(job: Mapping[str, Any], name: str) -> dict[str, Any]:
    metadata = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": dict(metadata.get("labels", {})),
            "ownerReferences": [owner],
        }
    }
