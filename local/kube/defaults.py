"""What the server fills into built-in kinds when they are written (kubernetes/pkg/apis, defaults)."""

from __future__ import annotations

import base64
from collections.abc import Callable

from local.kube import errors
from local.kube.errors import Cause
from local.kube.objects import Object, copy_json, meta, name_of
from local.kube.resources import RBAC, Resource


def prepare_create(resource: Resource, obj: Object) -> None:
    """Complete a new object in place. Its uid is already there."""
    if resource.custom:
        if resource.status:
            obj.pop("status", None)
        return
    if resource.status and resource.kind not in ("Node", "CustomResourceDefinition"):
        obj.pop("status", None)
    complete(resource, obj)
    if resource.kind == "Job":
        _select_own_pods(obj)
    on_create = _ON_CREATE.get(resource.kind)
    if on_create is not None:
        on_create(obj)


def prepare_update(resource: Resource, obj: Object, old: Object) -> None:
    """Complete a changed object in place; refuses changes of a Pod's spec that the server refuses."""
    if resource.custom:
        return
    if resource.kind == "Namespace":
        obj["spec"] = copy_json(old.get("spec") or {})
    complete(resource, obj)
    if resource.kind == "Pod" and (_fixed(obj) != _fixed(old) or _moved(obj, old)):
        why = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
            "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds`"
        )
        raise errors.invalid("", "Pod", name_of(obj), [Cause("spec", why, "FieldValueForbidden")])


def complete(resource: Resource, obj: Object) -> None:
    """Defaults that hold for every write of a built-in kind."""
    if resource.kind == "Secret":
        _complete_secret(obj)
    elif resource.kind == "Namespace":
        meta(obj).setdefault("labels", {})["kubernetes.io/metadata.name"] = name_of(obj)
    elif resource.kind == "Pod":
        _complete_pod_spec(obj.setdefault("spec", {}), "Always")
    elif resource.kind == "Job":
        _complete_job(obj)
    elif resource.ref.group == RBAC and resource.kind.endswith("Binding"):
        _complete_binding(obj)


def _complete_secret(obj: Object) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}
    obj.setdefault("type", "Opaque")


def _complete_pod_spec(spec: Object, restart_policy: str | None) -> None:
    if restart_policy is not None:
        spec.setdefault("restartPolicy", restart_policy)
        account = spec.setdefault("serviceAccountName", "default")
        spec.setdefault("serviceAccount", account)
        spec.setdefault("enableServiceLinks", True)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        if not isinstance(container, dict):
            continue
        image = str(container.get("image") or "")
        latest = "@" not in image and (":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest"))
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")


def _complete_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for key, value in (
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("manualSelector", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
        ("suspend", False),
    ):
        spec.setdefault(key, value)
    if "parallelism" not in spec and "completions" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    _complete_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}), None)


def _select_own_pods(job: Object) -> None:
    if job["spec"].get("manualSelector"):
        return
    uid, name = str(meta(job)["uid"]), name_of(job)
    labels = meta(job["spec"]["template"]).setdefault("labels", {})
    labels.update(
        {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
    )
    job["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _complete_binding(obj: Object) -> None:
    if isinstance(obj.get("roleRef"), dict):
        obj["roleRef"].setdefault("apiGroup", RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", RBAC)


def _new_namespace(obj: Object) -> None:
    obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]
    obj["status"] = {"phase": "Active"}


def _new_pod(obj: Object) -> None:
    obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}


def _empty_status(obj: Object) -> None:
    obj.setdefault("status", {})


_ON_CREATE: dict[str, Callable[[Object], None]] = {
    "Namespace": _new_namespace,
    "Pod": _new_pod,
    "Job": _empty_status,
    "Node": _empty_status,
}


def _moved(pod: Object, old: Object) -> bool:
    """Whether a Pod leaves its node. Getting one is allowed here: there is no binding subresource."""
    node = (old.get("spec") or {}).get("nodeName")
    return bool(node) and (pod.get("spec") or {}).get("nodeName") != node


def _fixed(pod: Object) -> Object:
    """The part of a Pod's spec that never changes."""
    spec = copy_json(pod.get("spec") or {})
    for key in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName"):
        spec.pop(key, None)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        container.pop("image", None)
        container.pop("imagePullPolicy", None)
        container.pop("resources", None)
    return dict(spec)
