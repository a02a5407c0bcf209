"""Pod Security admission: the levels that namespace labels enforce (k8s.io/pod-security-admission)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from local.kube import errors
from local.kube.objects import Object, meta, name_of
from local.kube.resources import PODS

ENFORCE = "pod-security.kubernetes.io/enforce"
_BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_RESTRICTED_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def admit(pod: Object, namespace: Object) -> None:
    """Raise ApiError 403 when the pod violates the level its namespace enforces."""
    labels = meta(namespace).get("labels") or {}
    level = labels.get(ENFORCE, "privileged")
    version = labels.get(f"{ENFORCE}-version", "latest")
    problems = list(violations(pod.get("spec") or {}, level))
    if problems:
        why = f'violates PodSecurity "{level}:{version}": ' + ", ".join(problems)
        raise errors.forbidden("", PODS.plural, name_of(pod), why)


def violations(spec: Object, level: str) -> Iterator[str]:
    """What of a pod spec the level does not allow, in the words of the real checks."""
    if level not in ("baseline", "restricted"):
        return
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    yield from _baseline(spec, containers)
    if level == "restricted":
        yield from _restricted(spec, containers)


def _named(names: list[str], noun: str = "container") -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    return f"{noun} {listed}" if len(names) == 1 else f"{noun}s {listed}"


def _security(container: Object) -> Object:
    return container.get("securityContext") or {}


def _baseline(spec: Object, containers: list[Any]) -> Iterator[str]:
    shared = [key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    if shared:
        yield "host namespaces (" + ", ".join(f"{key}=true" for key in shared) + ")"
    privileged = [c["name"] for c in containers if _security(c).get("privileged")]
    if privileged:
        yield f"privileged ({_named(privileged)} must not set securityContext.privileged=true)"
    adding = [
        c["name"]
        for c in containers
        if set((_security(c).get("capabilities") or {}).get("add") or ()) - _BASELINE_CAPABILITIES
    ]
    if adding:
        yield f"non-default capabilities ({_named(adding)} must not include added capabilities)"
    host_paths = [v["name"] for v in spec.get("volumes") or () if "hostPath" in v]
    if host_paths:
        yield f"hostPath volumes ({_named(host_paths, 'volume')})"
    ports = [c["name"] for c in containers if any(p.get("hostPort") for p in c.get("ports") or ())]
    if ports:
        yield f"hostPort ({_named(ports)} uses hostPort)"
    contexts = [spec.get("securityContext") or {}, *map(_security, containers)]
    if any((context.get("seccompProfile") or {}).get("type") == "Unconfined" for context in contexts):
        where = "pod or containers must not set securityContext.seccompProfile.type"
        yield f'seccompProfile ({where} to "Unconfined")'


def _restricted(spec: Object, containers: list[Any]) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    escalating = [c["name"] for c in containers if _security(c).get("allowPrivilegeEscalation") is not False]
    if escalating:
        yield (
            f"allowPrivilegeEscalation != false ({_named(escalating)} must set "
            "securityContext.allowPrivilegeEscalation=false)"
        )
    keeping = [
        c["name"]
        for c in containers
        if "ALL" not in ((_security(c).get("capabilities") or {}).get("drop") or ())
        or set((_security(c).get("capabilities") or {}).get("add") or ()) - {"NET_BIND_SERVICE"}
    ]
    if keeping:
        yield (
            f"unrestricted capabilities ({_named(keeping)} must set "
            'securityContext.capabilities.drop=["ALL"])'
        )
    volumes = [v["name"] for v in spec.get("volumes") or () if not _RESTRICTED_VOLUMES & v.keys()]
    if volumes:
        yield f"restricted volume types ({_named(volumes, 'volume')} uses restricted volume type)"
    rooted = [c["name"] for c in containers if not _security(c).get("runAsNonRoot", pod.get("runAsNonRoot"))]
    if rooted:
        where = "pod or " + _named(rooted)
        yield f"runAsNonRoot != true ({where} must set securityContext.runAsNonRoot=true)"
    if pod.get("runAsUser") == 0 or any(_security(c).get("runAsUser") == 0 for c in containers):
        yield "runAsUser=0 (pod must not set runAsUser=0)"
    unconfined = [
        c["name"]
        for c in containers
        if (_security(c).get("seccompProfile") or pod.get("seccompProfile") or {}).get("type")
        not in ("RuntimeDefault", "Localhost")
    ]
    if unconfined:
        where = "pod or " + _named(unconfined)
        yield (
            f"seccompProfile ({where} must set securityContext.seccompProfile.type "
            'to "RuntimeDefault" or "Localhost")'
        )
