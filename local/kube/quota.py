"""Resource quotas, of counts only: how many Pods or Jobs a namespace may hold (k8s.io/apiserver quota)."""

from __future__ import annotations

from local.kube import errors
from local.kube.objects import Object, name_of
from local.kube.resources import JOBS, PODS, Ref

#: What a quota may name for each kind.
COUNTED: dict[Ref, tuple[str, ...]] = {PODS: ("pods", "count/pods"), JOBS: ("count/jobs.batch",)}


def admit(ref: Ref, obj: Object, quota: Object, others: list[Object]) -> None:
    """Raise ApiError 403 when a new object is one more than the quota lets in. Pods that ended count not."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    for name in COUNTED.get(ref, ()):
        if name not in hard:
            continue
        used = sum(1 for other in others if not (name == "pods" and _has_ended(other)))
        if used >= int(hard[name]):
            why = (
                f"exceeded quota: {name_of(quota)}, requested: {name}=1, used: {name}={used}, "
                f"limited: {name}={hard[name]}"
            )
            raise errors.forbidden(ref.group, ref.plural, name_of(obj), why)


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
