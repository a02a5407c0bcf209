"""Argo CD's objects in the cluster."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from aicr_pipeline.adapters.cluster import Cluster, Json, ObjectMissingError
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import Engine
from aicr_pipeline.model.reasons import Reason

#: On the controller in Argo CD's manifests and, unless somebody renames it, in its Helm chart.
_CONTROLLER = "app.kubernetes.io/name=argocd-application-controller"


class ArgoCd:
    """Applications, the AppProject and the repository credentials of one Argo CD."""

    def __init__(self, cluster: Cluster, engine: Engine) -> None:
        self._cluster = cluster
        self._engine = engine
        self._base = f"/apis/argoproj.io/v1alpha1/namespaces/{engine.namespace}"

    def application(self, name: str) -> Json | None:
        """The Application, or None."""
        return self._cluster.get(f"{self._base}/applications/{name}")

    def applications(self) -> Iterator[Json]:
        """All Applications of the namespace, page by page."""
        return self._cluster.list(f"{self._base}/applications")

    def listed(self, names: Collection[str]) -> "ArgoCd":
        """The same, with these Applications read in one list instead of a request for each.

        One that the list does not have is asked for all the same: that it is gone ends a rollout.
        """
        found = {name: body for body in self.applications() if (name := body["metadata"]["name"]) in names}
        return _Listed(self._cluster, self._engine, found)

    def create_application(self, body: Mapping[str, Any]) -> Json:
        """Raises ObjectConflictError when it exists."""
        return self._cluster.create(f"{self._base}/applications", body)

    def replace_application(self, body: Mapping[str, Any]) -> Json:
        """Raises ObjectConflictError when the resourceVersion is not current."""
        return self._cluster.replace(f"{self._base}/applications/{body['metadata']['name']}", body)

    def change_application(self, name: str, patch: Mapping[str, Any]) -> Json:
        """Merge a patch into an Application: a refresh, or self-heal for a release that is ready.

        Raises ObjectConflictError when the patch names a resourceVersion that is not current, and
        ObjectMissingError when it is gone.
        """
        return self._cluster.merge(f"{self._base}/applications/{name}", patch)

    def project(self) -> Json | None:
        """The AppProject, or None."""
        return self._cluster.get(f"{self._base}/appprojects/{self._engine.project}")

    def is_installed(self) -> bool:
        """Whether the cluster knows Applications."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/applications.argoproj.io"
        return self._cluster.get(path) is not None

    def controllers(self) -> Iterator[Json]:
        """The application controller: a StatefulSet, or a Deployment where it shards dynamically.

        None where AWS runs it, out of sight.
        """
        if self._engine.kind == "eks-capability":
            return
        for plural in ("statefulsets", "deployments"):
            yield from self._cluster.list(
                f"/apis/apps/v1/namespaces/{self._engine.namespace}/{plural}", labelSelector=_CONTROLLER
            )

    def write_repo_creds(self, name: str, patch: Mapping[str, Any]) -> Json:
        """Merge into a credentials Secret, which the cluster manifests created empty; returns all of it.

        Raises
        ------
        PipelineError
            ``RegistryCredentialsUnavailable`` when it is not there: the pipeline may not create it.
        """
        namespace = self._engine.namespace
        try:
            return self._cluster.merge(f"/api/v1/namespaces/{namespace}/secrets/{name}", patch)
        except ObjectMissingError:
            raise PipelineError(
                Reason.RegistryCredentialsUnavailable,
                f"Argo CD's Secret {name} is not in namespace {namespace}; apply the cluster manifests.",
            ) from None


class _Listed(ArgoCd):
    """Argo CD with some Applications already read."""

    def __init__(self, cluster: Cluster, engine: Engine, found: dict[str, Json]) -> None:
        super().__init__(cluster, engine)
        self._found = found

    def application(self, name: str) -> Json | None:
        # Once: whoever asks again knows that it was written since.
        return self._found.pop(name, None) or super().application(name)
