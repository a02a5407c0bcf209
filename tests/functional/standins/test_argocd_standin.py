"""The Argo CD stand-in on a real registry with a real Helm."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.clock import now
from aicr_pipeline.decide.application import REQUEST_ID
from aicr_pipeline.decide.credentials import RepoCreds, patch, repo_creds
from aicr_pipeline.decide.readiness import Readiness, readiness

from local.argocd import ArgoCdSettings, ArgoCdStandin, Fault, Scenario
from local.helm import helm_binary
from local.kube import argocd_crds
from local.kube.resources import APP_PROJECTS, APPLICATIONS, NAMESPACES, SECRETS
from local.kube.store import Store
from tests.functional.standins.support import DEPLOYMENT, PREFIX, Registry, eventually
from tests.unit.samples import config

SERVER = "https://kubernetes.default.svc"
Object = dict[str, Any]


class Bench:
    """A store with Argo CD's things in it, and its stand-in."""

    def __init__(self, registry: Registry, workdir: Path) -> None:
        self.registry = registry
        self.store = Store()
        argocd_crds.install(self.store)
        self.store.create(NAMESPACES, {"metadata": {"name": "argocd"}})
        self.store.create(
            APP_PROJECTS,
            {
                "metadata": {"name": "aicr"},
                "spec": {
                    "sourceRepos": [f"oci://{registry.host}/{PREFIX}/charts/*"],
                    "destinations": [{"server": SERVER, "namespace": "gpu-operator"}],
                    "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
                },
            },
            namespace="argocd",
        )
        self.argocd = ArgoCdStandin(
            self.store,
            helm=helm_binary(),
            workdir=workdir,
            settings=ArgoCdSettings(sync_seconds=0.05, health_seconds=0.2),
        )

    def login(self, password: str) -> None:
        """Write the repo-creds Secret."""
        values = {
            "type": "oci",
            "url": f"oci://{self.registry.host}/{PREFIX}",
            "username": self.registry.user,
            "password": password,
        }
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "aicr-registry",
                "namespace": "argocd",
                "labels": {"argocd.argoproj.io/secret-type": "repo-creds"},
            },
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
        }
        if self.store.find(SECRETS, "aicr-registry", namespace="argocd"):
            self.store.merge(SECRETS, "aicr-registry", {"data": body["data"]}, namespace="argocd")
        else:
            self.store.create(SECRETS, body, namespace="argocd")

    def create(self, revision: str, **more: Any) -> None:
        """Create the Application ``demo``."""
        self.store.create(
            APPLICATIONS,
            {
                "metadata": {"name": "demo"},
                "spec": {
                    "project": "aicr",
                    "source": {
                        "repoURL": f"oci://{self.registry.host}/{PREFIX}/charts/demo",
                        "path": ".",
                        "targetRevision": revision,
                        "helm": {"valuesObject": {"replicas": 2}},
                    },
                    "destination": {"server": SERVER, "namespace": "gpu-operator"},
                    **more,
                },
            },
            namespace="argocd",
        )

    def app(self) -> Object:
        return self.store.get(APPLICATIONS, "demo", namespace="argocd")

    def patch(self, patch: Object) -> None:
        self.store.merge(APPLICATIONS, "demo", patch, namespace="argocd")

    def patch_project(self, patch: Object) -> None:
        self.store.merge(APP_PROJECTS, "aicr", patch, namespace="argocd")

    def sync(self, revision: str, request: str) -> None:
        """Ask for one sync as the pipeline does."""
        self.patch(
            {
                "operation": {
                    "info": [{"name": REQUEST_ID, "value": request}],
                    "sync": {"revision": revision, "prune": True, "syncOptions": ["ServerSideApply=true"]},
                    "retry": {"limit": 0},
                },
                "status": {"operationState": None},
            }
        )

    def until(self, wanted: Any) -> Object:
        found: Object = eventually(self.app, lambda app: wanted(app.get("status") or {}, app))
        return found


@pytest.fixture
def bench(registry: Registry, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(registry, tmp_path)
    made.argocd.start()
    yield made
    made.argocd.stop()
    assert made.argocd.problems == []


def judge(app: Object, digest: str, request: str) -> Readiness:
    return readiness(app, digest, request, now())


def synced_and_healthy(status: Object, app: Object) -> bool:
    return (
        status.get("sync", {}).get("status") == "Synced"
        and status.get("health", {}).get("status") == "Healthy"
        and not app.get("operation")
    )


def test_a_sync_at_a_digest_goes_from_missing_to_healthy(bench: Bench, registry: Registry) -> None:
    digest = registry.push_chart("demo", "1.0.0", {"deployment.yaml": DEPLOYMENT})
    bench.login(registry.password)
    bench.create(digest)
    app = bench.until(lambda status, _: status.get("sync", {}).get("status") == "OutOfSync")
    assert app["status"]["health"]["status"] == "Missing"
    assert app["status"]["sync"]["revision"] == digest
    assert app["status"]["sync"]["comparedTo"]["source"] == app["spec"]["source"]
    bench.sync(digest, "r-1")
    app = bench.until(lambda status, _: status.get("health", {}).get("status") == "Progressing")
    state = app["status"]["operationState"]
    assert (state["phase"], state["syncResult"]["revision"]) == ("Succeeded", digest)
    assert judge(app, digest, "r-1").state == "waiting"
    assert "operation" not in app
    app = bench.until(synced_and_healthy)
    status = app["status"]
    assert judge(app, digest, "r-1").state == "ready"
    assert judge(app, digest, "r-2").state == "waiting"
    assert status["reconciledAt"] >= status["operationState"]["finishedAt"]
    assert status["resources"] == [
        {
            "group": "apps",
            "version": "v1",
            "kind": "Deployment",
            "namespace": "gpu-operator",
            "name": "demo",
            "status": "Synced",
            "health": {"status": "Healthy"},
        }
    ]
    assert status["history"][0]["revision"] == digest
    assert status["summary"]["images"] == ["example.invalid/main:1.0.0"]


def test_without_credentials_the_comparison_fails_and_a_refresh_heals_it(
    bench: Bench, registry: Registry
) -> None:
    digest = registry.push_chart("demo", "1.0.0", {"deployment.yaml": DEPLOYMENT})
    bench.create(digest)
    app = bench.until(lambda status, _: status.get("conditions"))
    condition = app["status"]["conditions"][0]
    assert condition["type"] == "ComparisonError"
    assert f'failed to resolve revision "{digest}": cannot get digest for revision' in condition["message"]
    assert condition["message"].endswith("response status code 401: Unauthorized")
    assert app["status"]["sync"]["status"] == "Unknown"
    bench.login(registry.password)
    bench.patch({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}})
    app = bench.until(lambda status, _: not status.get("conditions"))
    assert "argocd.argoproj.io/refresh" not in (app["metadata"].get("annotations") or {})
    assert app["status"]["sync"]["status"] == "OutOfSync"


def test_the_helm_form_of_the_credentials_serves_charts_by_version(bench: Bench, registry: Registry) -> None:
    """The Secret that ``engine.helmRepoCreds`` asks for, beside the one for native sources."""
    registry.push_chart("demo", "1.0.0", {"deployment.yaml": DEPLOYMENT})
    base = f"{registry.host}/{PREFIX}"
    settings = {"registry.repository": f"oci://{base}", "registry.plainHttp": True}
    native, helm = repo_creds(config(**settings, **{"engine.helmRepoCreds": True}))
    source = {"repoURL": f"{base}/charts", "chart": "demo", "path": None, "targetRevision": "1.0.0"}
    bench.patch_project({"spec": {"sourceRepos": [f"{base}/charts"]}})

    def write(wanted: RepoCreds) -> None:
        secret = patch(wanted, registry.user, registry.password, "2030-01-01T00:00:00Z")
        body = {**secret, "metadata": {**secret["metadata"], "name": wanted.name}}
        bench.store.create(SECRETS, body, namespace="argocd")

    write(native)
    bench.create("1.0.0")
    bench.patch({"spec": {"source": source}})
    bench.until(lambda status, _: "401" in str(status.get("conditions")))  # oci:// is no prefix of it
    write(helm)
    bench.patch({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}})
    bench.until(lambda status, _: not status.get("conditions"))
    bench.sync("1.0.0", "r-1")
    app = bench.until(synced_and_healthy)
    assert app["status"]["sync"]["revision"] == "1.0.0"


def test_a_chart_that_writes_elsewhere_fails_at_sync_with_the_projects_words(
    bench: Bench, registry: Registry
) -> None:
    elsewhere = DEPLOYMENT.replace(".Values.namespace | default .Release.Namespace", '"kube-system"')
    digest = registry.push_chart("demo", "1.0.0", {"deployment.yaml": elsewhere})
    bench.login(registry.password)
    bench.create(digest)
    bench.sync(digest, "r-1")
    app = bench.until(lambda status, _: status.get("operationState", {}).get("phase") == "Failed")
    state = app["status"]["operationState"]
    assert state["message"] == "one or more synchronization tasks are not valid"
    assert "namespace kube-system is not permitted in project 'aicr'" in judge(app, digest, "r-1").message
    refused = state["syncResult"]["resources"]
    assert [item["message"] for item in refused] == [
        "namespace kube-system is not permitted in project 'aicr'"
    ]


def test_another_source_is_an_invalid_spec_and_says_so(bench: Bench, registry: Registry) -> None:
    bench.create("sha256:" + "0" * 64)
    bench.patch({"spec": {"source": {"repoURL": "oci://elsewhere.example/demo"}}})
    app = bench.until(
        lambda status, _: any(c["type"] == "InvalidSpecError" for c in status.get("conditions", []))
    )
    assert app["status"]["conditions"][0]["message"] == (
        "application repo oci://elsewhere.example/demo is not permitted in project 'aicr'"
    )


def test_automated_sync_repairs_a_new_revision_by_itself(bench: Bench, registry: Registry) -> None:
    first = registry.push_chart("demo", "1.0.0", {"deployment.yaml": DEPLOYMENT})
    second = registry.push_chart("demo", "1.1.0", {"deployment.yaml": DEPLOYMENT})
    bench.login(registry.password)
    bench.create(first, syncPolicy={"automated": {"prune": True, "selfHeal": True}})
    bench.until(synced_and_healthy)
    bench.patch({"spec": {"source": {"targetRevision": second}}})
    app = bench.until(
        lambda status, app: synced_and_healthy(status, app) and status["sync"]["revision"] == second
    )
    assert app["status"]["operationState"]["operation"]["initiatedBy"] == {"automated": True}
    assert [item["revision"] for item in app["status"]["history"]] == [first, second]


def test_a_scenario_fails_one_operation_and_the_next_one_succeeds(bench: Bench, registry: Registry) -> None:
    digest = registry.push_chart("demo", "1.0.0", {"deployment.yaml": DEPLOYMENT})
    bench.login(registry.password)
    bench.argocd.scenario = Scenario({"demo": Fault(operation="Failed", hook="gate", times=1)})
    bench.create(digest)
    bench.sync(digest, "r-1")
    app = bench.until(lambda status, _: status.get("operationState", {}).get("phase") == "Failed")
    assert app["status"]["operationState"]["syncResult"]["resources"][0]["hookPhase"] == "Failed"
    bench.sync(digest, "r-2")
    bench.until(synced_and_healthy)
    bench.argocd.scenario = Scenario({"demo": Fault(health="Degraded", message="pods crash")})
    app = bench.until(lambda status, _: status["health"]["status"] == "Degraded")
    assert app["status"]["health"]["message"] == "pods crash"


def test_status_survives_a_restart_of_the_controller(
    bench: Bench, registry: Registry, tmp_path: Path
) -> None:
    digest = registry.push_chart("demo", "1.0.0", {"deployment.yaml": DEPLOYMENT})
    bench.login(registry.password)
    bench.create(digest)
    bench.sync(digest, "r-1")
    before = bench.until(synced_and_healthy)
    bench.argocd.stop()
    again = ArgoCdStandin(bench.store, helm=helm_binary(), workdir=tmp_path / "again")
    again.start()
    try:
        bench.patch({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}})
        after = bench.until(lambda _, app: not (app["metadata"].get("annotations") or {}))
    finally:
        again.stop()
    assert after["status"]["sync"] == before["status"]["sync"]
    assert after["status"]["health"] == before["status"]["health"]
