"""The admission policies let through what the program writes, and nothing near it.

Evaluated by the local cluster's implementation of CEL, with objects that the program's own functions build.
"""

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from aicr_pipeline.decide.aicr_job import (
    PushTarget,
    Signing,
    output_config_map,
    registry_secret,
    render_job,
    snapshot_job,
    validate_job,
)
from aicr_pipeline.decide.application import (
    AUTOMATED,
    new_application,
    ready_again,
    refresh_request,
    updated_application,
    withdrawal,
)
from aicr_pipeline.model.aicr_generation import Generation
from aicr_pipeline.model.config import ClusterConfig, load_cluster_config
from aicr_pipeline.model.plan import PlannedChart, PlannedRelease
from aicr_pipeline.model.runtime import ClusterRuntime, parse_runtime

from infra.cluster_admission import admission_policies
from infra.cluster_rbac import Manifest
from infra.names import kubernetes_group
from local.kube.cel import CelError, compile_rule
from local.kube.patches import merge_patch
from tests.infra.conftest import DEMO

Change = Callable[[dict[str, Any]], object]

CONFIG: ClusterConfig = load_cluster_config(DEMO)
IMAGE = CONFIG.aicr.image
DIGEST = "sha256:" + "a" * 64
POLICIES = {
    manifest["metadata"]["name"].removeprefix("aicr-pipeline-"): manifest["spec"]
    for manifest in admission_policies(CONFIG)
    if manifest["kind"] == "ValidatingAdmissionPolicy"
}
RUNTIME: ClusterRuntime = parse_runtime(
    b"""
apiVersion: operator.aicr.run/v1alpha1
kind: ClusterRuntime
metadata: {name: cluster}
spec:
  intent: training
  platform: kubeflow
  criteria: {service: eks, accelerator: h100, os: ubuntu}
  placement:
    system: {nodeSelector: {group: system}}
    accelerated: {nodeSelector: {group: gpu}}
"""
)


def refusals(
    policy: str, function: str, new: Manifest, old: Manifest | None = None, operation: str | None = None
) -> list[str]:
    """Messages of the validations that refuse; an error refuses too, as with ``failurePolicy: Fail``."""
    variables = {
        "object": new,
        "oldObject": old,
        "request": {
            "operation": operation or ("UPDATE" if old else "CREATE"),
            "userInfo": {"groups": [kubernetes_group(function), "system:authenticated"]},
        },
    }
    spec = POLICIES[policy]
    assert compile_rule(spec["matchConditions"][0]["expression"])(variables) is True
    found = []
    for validation in spec["validations"]:
        try:
            passed = compile_rule(validation["expression"])(variables)
        except CelError:
            passed = False
        if passed is not True:
            found.append(validation["message"])
    return found


def application() -> Manifest:
    """What ``apply_release`` creates."""
    chart = PlannedChart(name="gpu-operator", version="v1.0.0", content_digest=DIGEST, manifest_digest=DIGEST)
    release = PlannedRelease(
        name="gpu-operator",
        component="gpu-operator",
        namespace="gpu-operator",
        kind="chart",
        chart=chart,
        values={"a": 1},
    )
    return new_application(release, CONFIG, DIGEST, "request-1")


def running(new: Manifest) -> Manifest:
    """The same, ready and with self-heal."""
    settled = deepcopy(new)
    del settled["operation"]
    settled["spec"]["syncPolicy"]["automated"] = dict(AUTOMATED)
    return settled


def job(function: str) -> Manifest:
    """The Job that a function creates."""
    target = PushTarget("registry.example.com/aicr/demo/bundles/demo:run-1", plain_http=False)
    if function == "render_bundle":
        return render_job("run-render-1", "run", IMAGE, RUNTIME, target)
    if function == "validate_deployment":
        system, key = RUNTIME.spec.placement.system, Signing("awskms:///alias/k", "us-west-2", False)
        return validate_job("run-validate-1", "run", IMAGE, Generation.NAMED_ACCOUNT, system, target, key)
    return snapshot_job("run-snapshot-1", "run", IMAGE, RUNTIME.spec.placement.accelerated)


def pod(job: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]
    return found


def test_policies_fail_closed_and_are_bound() -> None:
    bindings = [
        manifest
        for manifest in admission_policies(CONFIG)
        if manifest["kind"] == "ValidatingAdmissionPolicyBinding"
    ]
    assert {binding["spec"]["policyName"] for binding in bindings} == {
        f"aicr-pipeline-{name}" for name in POLICIES
    }
    for binding in bindings:
        assert binding["spec"]["validationActions"] == ["Deny"]
    for spec in POLICIES.values():
        assert spec["failurePolicy"] == "Fail"


@pytest.mark.parametrize("groups", [["system:masters", "system:authenticated"], [], None])
def test_nobody_else_is_concerned(groups: list[str] | None) -> None:
    user = {} if groups is None else {"groups": groups}
    for spec in POLICIES.values():
        condition = compile_rule(spec["matchConditions"][0]["expression"])
        assert condition({"request": {"userInfo": user}}) is False


# Applications


def test_what_apply_release_creates_and_replaces() -> None:
    new = application()
    assert refusals("applications", "apply_release", new) == []
    current = running(new)
    replaced = updated_application(current, _release(new), CONFIG, DIGEST, "request-2")
    assert refusals("applications", "apply_release", replaced, current) == []


def _release(new: Manifest) -> PlannedRelease:
    chart = PlannedChart(name="gpu-operator", version="v1.1.0", content_digest=DIGEST, manifest_digest=DIGEST)
    return PlannedRelease(
        name=new["metadata"]["name"],
        component="gpu-operator",
        namespace="gpu-operator",
        kind="chart",
        chart=chart,
    )


def test_the_sweep_gives_self_heal_back() -> None:
    new = running(application())
    old = deepcopy(new)
    del old["spec"]["syncPolicy"]["automated"]
    assert refusals("applications", "sweep_waiters", new, old) == []


APPLICATION_CHANGES: list[tuple[str, Change]] = [
    ("other project", lambda a: a["spec"].update(project="default")),
    ("other source", lambda a: a["spec"]["source"].update(repoURL="oci://evil.example.com/charts/a")),
    (
        "bundles are no charts",
        lambda a: a["spec"]["source"].update(repoURL=f"{CONFIG.registry.repository}/bundles/a"),
    ),
    (
        "prefix without its slash",
        lambda a: a["spec"]["source"].update(repoURL=f"{CONFIG.registry.repository}-x/charts/a"),
    ),
    ("a tag", lambda a: a["spec"]["source"].update(targetRevision="v1.0.0")),
    ("no revision", lambda a: a["spec"]["source"].pop("targetRevision")),
    ("more sources", lambda a: a["spec"].update(sources=[a["spec"]["source"]])),
    ("other server", lambda a: a["spec"]["destination"].update(server="https://other.example.com")),
    (
        "server by name",
        lambda a: a["spec"].update(destination={"name": "other", "namespace": "gpu-operator"}),
    ),
    ("other namespace", lambda a: a["spec"]["destination"].update(namespace="argocd")),
    ("manifests in the sync", lambda a: a["operation"]["sync"].update(manifests=["kind: Secret"])),
    (
        "source in the sync",
        lambda a: a["operation"]["sync"].update(source={"repoURL": "https://evil.example.com"}),
    ),
    ("other revision in the sync", lambda a: a["operation"]["sync"].update(revision="sha256:" + "b" * 64)),
    (
        "cascade finalizer",
        lambda a: a["metadata"].update(finalizers=["resources-finalizer.argocd.argoproj.io"]),
    ),
    ("an owner", lambda a: a["metadata"].update(ownerReferences=[{"kind": "Job", "name": "a"}])),
    ("not marked as ours", lambda a: a["metadata"].pop("labels")),
]


@pytest.mark.parametrize(
    "change", [c for _, c in APPLICATION_CHANGES], ids=[n for n, _ in APPLICATION_CHANGES]
)
def test_other_applications_are_refused(change: Change) -> None:
    changed = application()
    change(changed)
    assert refusals("applications", "apply_release", changed)


def test_an_application_of_somebody_else_is_never_taken_over() -> None:
    new, old = application(), running(application())
    old["metadata"].pop("labels")
    assert refusals("applications", "apply_release", new, old) == [
        "the pipeline never adopts an Application that it did not create"
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a["spec"]["source"].update(targetRevision="sha256:" + "b" * 64),
        lambda a: a["spec"]["destination"].update(namespace="monitoring"),
        lambda a: a.update(operation=application()["operation"]),
    ],
    ids=["source", "destination", "operation"],
)
def test_the_sweep_changes_nothing_else(change: Change) -> None:
    old = running(application())
    new = deepcopy(old)
    change(new)
    assert refusals("applications", "sweep_waiters", new, old) == [
        "the sweep asks for no sync and changes no source"
    ]
    assert refusals("applications", "sweep_waiters", application())


@pytest.mark.parametrize("does", ["self-heal", "refresh", "takes back"])
def test_the_sweep_s_own_writes_are_admitted(does: str) -> None:
    old = application()
    old["metadata"]["resourceVersion"] = "1"
    patch = {
        "self-heal": ready_again(old, "demo-1/001-gpu-operator"),
        "refresh": refresh_request("hard", datetime.now(UTC)),
        "takes back": withdrawal(old, old["operation"]["info"][0]["value"]),
    }[does]
    assert patch
    assert refusals("applications", "sweep_waiters", merge_patch(deepcopy(old), patch), old) == []


# Jobs


@pytest.mark.parametrize(
    "function", ["take_snapshot", "confirm_criteria", "render_bundle", "validate_deployment"]
)
def test_each_functions_job(function: str) -> None:
    assert refusals("jobs", function, job(function)) == []


def test_another_digest_of_the_same_image_is_fine() -> None:
    changed = job("render_bundle")
    for container in [*pod(changed)["containers"], *pod(changed)["initContainers"]]:
        container["image"] = f"{IMAGE.partition('@')[0]}@sha256:{'c' * 64}"
    assert refusals("jobs", "render_bundle", changed) == []


JOB_CHANGES: list[tuple[str, Change]] = [
    ("other image", lambda j: pod(j)["containers"][0].update(image="evil.example.com/a@sha256:" + "a" * 64)),
    ("a tag", lambda j: pod(j)["containers"][0].update(image="ghcr.io/nvidia/aicr:v1")),
    (
        "a longer name",
        lambda j: pod(j)["containers"][0].update(image="ghcr.io/nvidia/aicr-x@sha256:" + "a" * 64),
    ),
    (
        "dots are dots",
        lambda j: pod(j)["containers"][0].update(image="ghcrxio/nvidia/aicr@sha256:" + "a" * 64),
    ),
    (
        "init image",
        lambda j: pod(j)["initContainers"][0].update(image="evil.example.com/a@sha256:" + "a" * 64),
    ),
    ("other account", lambda j: pod(j).update(serviceAccountName="aicr-snapshot")),
    ("no account", lambda j: pod(j).pop("serviceAccountName")),
    ("other namespace", lambda j: j["metadata"].update(namespace="aicr-validation")),
    ("host network", lambda j: pod(j).update(hostNetwork=True)),
    ("host path", lambda j: pod(j)["volumes"].append({"name": "a", "hostPath": {"path": "/run/systemd"}})),
    ("privileged", lambda j: pod(j)["containers"][0]["securityContext"].update(privileged=True)),
]


@pytest.mark.parametrize("change", [c for _, c in JOB_CHANGES], ids=[n for n, _ in JOB_CHANGES])
def test_other_jobs_are_refused(change: Change) -> None:
    changed = job("render_bundle")
    change(changed)
    assert refusals("jobs", "render_bundle", changed)


def test_a_job_of_another_function_is_refused() -> None:
    assert refusals("jobs", "render_bundle", job("take_snapshot"))
    assert refusals("jobs", "take_snapshot", job("render_bundle"))
    assert refusals("jobs", "apply_release", job("render_bundle"))


def test_the_snapshot_sees_no_more_of_the_host() -> None:
    changed = job("take_snapshot")
    pod(changed)["volumes"].append({"name": "root", "hostPath": {"path": "/"}})
    assert refusals("jobs", "take_snapshot", changed)


# Secrets


def stored(manifest: Manifest) -> Manifest:
    """As the server holds it."""
    found = deepcopy(manifest)
    found["metadata"]["uid"] = "0-0"
    return found


def repo_creds() -> Manifest:
    return {
        "type": "Opaque",
        "metadata": {
            "name": "aicr-registry",
            "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": "repo-creds"},
        },
    }


def test_the_jobs_secret_and_argo_cds() -> None:
    secret = registry_secret(stored(job("render_bundle")), "registry.example.com", "AWS", "token")
    assert refusals("secrets", "render_bundle", secret) == []
    assert refusals("secrets", "refresh_credentials", repo_creds(), repo_creds()) == []


def test_other_secrets_are_refused() -> None:
    helm = repo_creds()
    helm["metadata"]["name"] = "aicr-registry-helm"
    assert refusals("secrets", "refresh_credentials", helm, helm), "not without engine.helmRepoCreds"
    token = registry_secret(stored(job("render_bundle")), "registry.example.com", "AWS", "token")
    token["type"] = "kubernetes.io/service-account-token"
    assert refusals("secrets", "render_bundle", token)
    unowned = registry_secret(stored(job("render_bundle")), "registry.example.com", "AWS", "token")
    del unowned["metadata"]["ownerReferences"]
    assert refusals("secrets", "render_bundle", unowned)
    again = registry_secret(stored(job("render_bundle")), "registry.example.com", "AWS", "token")
    assert refusals("secrets", "render_bundle", again, again) == []
    assert refusals("secrets", "render_bundle", again, unowned), "nothing is adopted"
    cluster = repo_creds()
    cluster["metadata"]["labels"]["argocd.argoproj.io/secret-type"] = "cluster"
    assert refusals("secrets", "refresh_credentials", cluster, repo_creds())


@pytest.mark.parametrize("function", ["take_snapshot", "confirm_criteria", "validate_deployment"])
def test_a_config_map_is_its_jobs(function: str) -> None:
    started = job(function)
    started["metadata"]["uid"] = "u-1"
    ours = output_config_map(started)
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}, "data": {}}
    said = "the pipeline writes ConfigMaps of its Jobs only, which go with them"
    assert refusals("configmaps", function, ours) == []
    assert refusals("configmaps", function, ours, ours) == []
    assert refusals("configmaps", function, foreign) == [said]
    assert refusals("configmaps", function, ours, foreign) == [said], "nothing is adopted"
    written = deepcopy(foreign) | {"metadata": {"name": "x", "labels": {"app.kubernetes.io/name": "aicr"}}}
    assert refusals("configmaps", function, ours, written) == [], "AICR was first: the function had died"
    assert refusals("configmaps", function, written, written) == [said]
    deployment = deepcopy(ours)
    deployment["metadata"]["ownerReferences"][0]["kind"] = "Deployment"
    assert refusals("configmaps", function, deployment) == [said]
