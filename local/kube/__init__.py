"""The embedded cluster: a Kubernetes API server in this process, kept in memory.

Good enough for the official Python client and for kubectl: storage and every way of writing it, watches,
CustomResourceDefinitions, server-side apply, Pod Security, RBAC, garbage collection of owned objects.
It runs no controllers, no scheduler and no kubelet: stand-ins for those use ``KubeServer.store``::

    from local.kube import KubeServer, JOBS, PODS, CONFIG_MAPS, Ref, WriteOptions, DeleteOptions

    with KubeServer() as server:                      # everybody is system:masters
        server.url                                    # "http://127.0.0.1:<port>"
        store = server.store                          # thread-safe, no HTTP, no RBAC, same admission as HTTP

    KubeServer(authenticate=lambda token: Identity("jane", ("aicr-pipeline:x",)) if token == "t" else None)
    KubeServer(tls=Tls.self_signed())                 # https; server.ca_pem is what clients trust

    store.create(ref, body, namespace=None, options=WriteOptions(manager="kubelet")) -> Object
    store.get(ref, name, namespace=None) -> Object                # ApiError, .code 404, .reason "NotFound"
    store.find(ref, name, namespace=None) -> Object | None
    store.list(ref, namespace=None, label_selector="", field_selector="") -> list[Object]
    store.replace(ref, body, namespace=None, options=...) -> Object        # 409 on a stale resourceVersion
    store.replace_status(ref, body, namespace=None, options=...) -> Object
    store.merge(ref, name, patch, namespace=None, options=...) -> Object   # JSON merge patch, None deletes
    store.merge_status(ref, name, patch, namespace=None, options=...) -> Object
    store.apply(body, namespace=None, options=WriteOptions(manager="setup", force=True)) -> Object  # SSA
    store.delete(ref, name, namespace=None, options=DeleteOptions(propagation="Background")) -> Object
    store.watch(ref, namespace=None, since=None, label_selector="", field_selector="") -> Watch
    store.append_log(namespace, pod, container, text) -> None     # what pods/<name>/log answers

``Ref(group, version, plural)`` names a kind of resource; built-in ones have constants (``PODS``, ``JOBS``,
``SECRETS``, ``CONFIG_MAPS``, ``NAMESPACES``, ``NODES``, ``EVENTS``, ...) and Argo CD's are ``APPLICATIONS``
and ``APP_PROJECTS``. Objects handed out are copies: change them freely, then replace. A write that changes
nothing raises no event and keeps the resourceVersion.

A ``Watch`` is a context manager and an iterator of ``WatchEvent(type, object)``; without ``since`` it
begins with an ADDED for everything that exists. ``watch.close()``, callable from any thread, ends the
iteration at once, and so does stopping the server; ``watch.next(timeout)`` waits for one event or returns
None. Nothing polls.

ValidatingAdmissionPolicies and their bindings are stored but not evaluated; nor is it checked that nobody
hands out more rights than they have (`escalate`, `bind`). Argo CD's kinds are served after
``local.kube.argocd_crds.install(store)``, or once the real definitions are applied.

As on the real server: a Pod that has ``spec.nodeName`` and is not finished is only marked by a delete
(``deletionTimestamp``); the kubelet ends it with ``DeleteOptions(grace_seconds=0)``. Jobs deleted without a
propagation policy orphan their Pods and Secrets. Applications have no status subresource: ``merge_status``
answers 404, ``status`` and ``operation`` are written with ``merge``, and every such write raises
``metadata.generation``.
"""

from local.kube.errors import ApiError
from local.kube.objects import Object
from local.kube.options import DeleteOptions, WriteOptions
from local.kube.rbac import Action, Identity
from local.kube.resources import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    APP_PROJECTS,
    APPLICATIONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Ref,
)
from local.kube.server import KubeServer
from local.kube.storage import Subscription, Watch, WatchEvent
from local.kube.store import Store
from local.kube.tls import Tls

__all__ = [
    "ADMISSION_POLICIES",
    "ADMISSION_POLICY_BINDINGS",
    "APPLICATIONS",
    "APP_PROJECTS",
    "CLUSTER_ROLES",
    "CLUSTER_ROLE_BINDINGS",
    "CONFIG_MAPS",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "RESOURCE_QUOTAS",
    "ROLES",
    "ROLE_BINDINGS",
    "SECRETS",
    "SERVICES",
    "SERVICE_ACCOUNTS",
    "STATEFUL_SETS",
    "Action",
    "ApiError",
    "DeleteOptions",
    "Identity",
    "KubeServer",
    "Object",
    "Ref",
    "Store",
    "Subscription",
    "Tls",
    "Watch",
    "WatchEvent",
    "WriteOptions",
]
