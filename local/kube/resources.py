"""Which resources the cluster serves: the built-in ones, and those that CustomResourceDefinitions add."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from local.kube import errors


class Ref(NamedTuple):
    """A kind of resource as a request names it; `group` is empty for the core group."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """What objects of this kind carry as apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True)
class Resource:
    """A served resource: its names, its scope, and what of it can be written apart."""

    ref: Ref
    kind: str
    singular: str
    namespaced: bool = True
    status: bool = False  # has a status subresource
    generation: bool = False  # metadata.generation counts changes of the wish
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None  # openAPIV3Schema of a custom resource
    selectable: tuple[str, ...] = ()  # field selectors beside name and namespace
    custom: bool = False

    @property
    def storage_key(self) -> tuple[str, str]:
        """Where objects are kept: all versions of a resource are one collection."""
        return (self.ref.group, self.ref.plural)

    @property
    def qualified(self) -> str:
        """The name that messages use."""
        return errors.qualified(self.ref.group, self.ref.plural)


def _core(plural: str) -> Ref:
    return Ref("", "v1", plural)


NAMESPACES = _core("namespaces")
SECRETS = _core("secrets")
CONFIG_MAPS = _core("configmaps")
SERVICE_ACCOUNTS = _core("serviceaccounts")
RESOURCE_QUOTAS = _core("resourcequotas")
PODS = _core("pods")
NODES = _core("nodes")
EVENTS = _core("events")
SERVICES = _core("services")
JOBS = Ref("batch", "v1", "jobs")
STATEFUL_SETS = Ref("apps", "v1", "statefulsets")
DEPLOYMENTS = Ref("apps", "v1", "deployments")
LEASES = Ref("coordination.k8s.io", "v1", "leases")
RBAC = "rbac.authorization.k8s.io"
ROLES = Ref(RBAC, "v1", "roles")
ROLE_BINDINGS = Ref(RBAC, "v1", "rolebindings")
CLUSTER_ROLES = Ref(RBAC, "v1", "clusterroles")
CLUSTER_ROLE_BINDINGS = Ref(RBAC, "v1", "clusterrolebindings")
ADMISSION = "admissionregistration.k8s.io"
ADMISSION_POLICIES = Ref(ADMISSION, "v1", "validatingadmissionpolicies")
ADMISSION_POLICY_BINDINGS = Ref(ADMISSION, "v1", "validatingadmissionpolicybindings")
CUSTOM_RESOURCE_DEFINITIONS = Ref("apiextensions.k8s.io", "v1", "customresourcedefinitions")
APPLICATIONS = Ref("argoproj.io", "v1alpha1", "applications")
APP_PROJECTS = Ref("argoproj.io", "v1alpha1", "appprojects")

BUILTIN: tuple[Resource, ...] = (
    Resource(
        NAMESPACES,
        "Namespace",
        "namespace",
        namespaced=False,
        status=True,
        short_names=("ns",),
        selectable=("status.phase",),
    ),
    Resource(SECRETS, "Secret", "secret", selectable=("type",)),
    Resource(CONFIG_MAPS, "ConfigMap", "configmap", short_names=("cm",)),
    Resource(RESOURCE_QUOTAS, "ResourceQuota", "resourcequota", status=True, short_names=("quota",)),
    Resource(SERVICE_ACCOUNTS, "ServiceAccount", "serviceaccount", short_names=("sa",)),
    Resource(
        PODS,
        "Pod",
        "pod",
        status=True,
        generation=True,
        short_names=("po",),
        categories=("all",),
        selectable=(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
    ),
    Resource(
        NODES,
        "Node",
        "node",
        namespaced=False,
        status=True,
        short_names=("no",),
        selectable=("spec.unschedulable",),
    ),
    Resource(
        EVENTS,
        "Event",
        "event",
        short_names=("ev",),
        selectable=(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ),
    ),
    Resource(SERVICES, "Service", "service", status=True, short_names=("svc",), categories=("all",)),
    Resource(
        JOBS,
        "Job",
        "job",
        status=True,
        generation=True,
        categories=("all",),
        selectable=("status.successful",),
    ),
    Resource(
        STATEFUL_SETS,
        "StatefulSet",
        "statefulset",
        status=True,
        generation=True,
        short_names=("sts",),
        categories=("all",),
    ),
    Resource(
        DEPLOYMENTS,
        "Deployment",
        "deployment",
        status=True,
        generation=True,
        short_names=("deploy",),
        categories=("all",),
    ),
    Resource(LEASES, "Lease", "lease"),
    Resource(ROLES, "Role", "role"),
    Resource(ROLE_BINDINGS, "RoleBinding", "rolebinding"),
    Resource(CLUSTER_ROLES, "ClusterRole", "clusterrole", namespaced=False),
    Resource(CLUSTER_ROLE_BINDINGS, "ClusterRoleBinding", "clusterrolebinding", namespaced=False),
    Resource(
        ADMISSION_POLICIES,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicy",
        namespaced=False,
        status=True,
        generation=True,
    ),
    Resource(
        ADMISSION_POLICY_BINDINGS,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybinding",
        namespaced=False,
        generation=True,
    ),
    Resource(
        CUSTOM_RESOURCE_DEFINITIONS,
        "CustomResourceDefinition",
        "customresourcedefinition",
        namespaced=False,
        status=True,
        generation=True,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
    ),
)


class Registry:
    """The served resources by name and by kind. Not thread-safe: the Store guards it with its lock."""

    def __init__(self) -> None:
        self._by_ref = {resource.ref: resource for resource in BUILTIN}
        self._by_kind = {(r.ref.api_version, r.kind): r for r in BUILTIN}

    def find(self, ref: Ref) -> Resource | None:
        """The resource a request names, or None."""
        return self._by_ref.get(ref)

    def get(self, ref: Ref) -> Resource:
        """The resource a request names. Raises ApiError 404 when it is not served."""
        resource = self._by_ref.get(ref)
        if resource is None:
            raise errors.unknown_path()
        return resource

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource that objects of this apiVersion and kind belong to, or None."""
        return self._by_kind.get((api_version, kind))

    def all(self) -> list[Resource]:
        """Everything served, in order of registration."""
        return list(self._by_ref.values())

    def namespaced_keys(self) -> list[tuple[str, str]]:
        """Storage keys of everything that lives in a namespace."""
        return list(dict.fromkeys(r.storage_key for r in self._by_ref.values() if r.namespaced))

    def replace_custom(self, group: str, plural: str, resources: Iterable[Resource]) -> None:
        """Serve exactly `resources` for the custom resource `plural.group` (none: it goes)."""
        for ref in [r for r in self._by_ref if (r.group, r.plural) == (group, plural)]:
            gone = self._by_ref.pop(ref)
            self._by_kind.pop((ref.api_version, gone.kind), None)
        for resource in resources:
            self._by_ref[resource.ref] = resource
            self._by_kind[(resource.ref.api_version, resource.kind)] = resource
