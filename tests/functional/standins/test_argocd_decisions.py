"""What the Argo CD stand-in permits and writes, as tables."""

import base64
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from local.argocd.credentials import Credentials, find_credentials
from local.argocd.manifests import Resource, target
from local.argocd.project import resource_error, source_permitted, spec_errors
from local.argocd.reconcile import auto_sync, compared, ended, not_loaded, refresh_reason
from local.argocd.repository import RepositoryError, _address
from local.argocd.scenario import FOLDER, Fault, Scenario, names

NOW = datetime(2026, 11, 30, 12, 0, 0, 900_000, UTC)
URL = "oci://registry.example/aicr/demo/charts/gpu-operator"


def secret(url: str, user: str, kind: str = "repo-creds") -> dict[str, Any]:
    data = {"type": "oci", "url": url, "username": user, "password": "p"}
    return {
        "metadata": {"labels": {"argocd.argoproj.io/secret-type": kind}},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


@pytest.mark.parametrize(
    ("secrets", "user"),
    [
        ([], None),
        ([secret("oci://registry.example", "a")], "a"),
        ([secret("oci://registry.example", "a"), secret("oci://registry.example/aicr/demo", "b")], "b"),
        ([secret("registry.example/aicr/demo", "a")], None),
        ([secret("oci://REGISTRY.example/aicr/demo", "a")], "a"),
        ([secret("oci://registry.example", "a", kind="cluster")], None),
        ([secret(URL, "exact", kind="repository"), secret("oci://registry.example", "a")], "exact"),
    ],
)
def test_the_longest_prefix_wins(secrets: list[dict[str, Any]], user: str | None) -> None:
    found = find_credentials(secrets, URL)
    assert (found.username if found else None) == user


@pytest.mark.parametrize(
    ("source", "kind", "found"),
    [
        ({"repoURL": "oci://r/a/charts/x"}, "oci", ("oci://r/a/charts/x", "1.0.0+b")),
        ({"repoURL": "r/a/charts", "chart": "x"}, "helm", ("oci://r/a/charts/x", "1.0.0_b")),
        ({"repoURL": "oci://r/a/charts/x"}, "helm", "do not fit"),
        ({"repoURL": "r/a/charts", "chart": "x"}, "git", "do not fit"),
        ({"repoURL": "oci://r/a/charts", "chart": "x"}, "helm", "has a scheme"),
        ({"repoURL": "https://r/a"}, "oci", "only"),
    ],
)
def test_each_form_of_a_source_wants_credentials_of_its_type(
    source: dict[str, Any], kind: str, found: tuple[str, str] | str
) -> None:
    credentials = Credentials("AWS", "p", False, kind)
    if isinstance(found, str):
        with pytest.raises(RepositoryError, match=found):
            _address(source, "1.0.0+b", credentials)
    else:
        assert _address(source, "1.0.0+b", credentials) == _address(source, "1.0.0+b", None) == found


def test_a_chart_is_never_pinned_by_digest() -> None:
    with pytest.raises(RepositoryError, match="improper constraint"):
        _address({"repoURL": "r/a", "chart": "x"}, "sha256:1", None)


@pytest.mark.parametrize(
    ("pattern", "permitted"),
    [
        ("oci://registry.example/aicr/demo/charts/*", True),
        ("oci://registry.example/aicr/*", False),
        ("oci://registry.example/aicr/**", True),
        ("*", True),
        ("oci://registry.example/aicr/demo/wrappers/*", False),
    ],
)
def test_source_globs_stop_at_slashes(pattern: str, *, permitted: bool) -> None:
    assert source_permitted({"spec": {"sourceRepos": [pattern]}}, URL) is permitted


def project(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "aicr"},
        "spec": {
            "sourceRepos": ["oci://registry.example/aicr/demo/charts/*"],
            "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "gpu-operator"}],
            **spec,
        },
    }


def application(**more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "gpu-operator", "namespace": "argocd"},
        "spec": {
            "project": "aicr",
            "source": {"repoURL": URL, "path": ".", "targetRevision": "sha256:1"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "gpu-operator"},
        },
        **more,
    }


def test_refusals_say_what_argo_cd_says() -> None:
    assert spec_errors(application(), None) == ["Application referencing project aicr which does not exist"]
    assert spec_errors(application(), project()) == []
    assert spec_errors(application(), project(sourceRepos=[]))[0].startswith(f"application repo {URL} is not")
    elsewhere = Resource("", "v1", "ConfigMap", "kube-system", "x")
    assert resource_error(project(), application(), elsewhere) == (
        "namespace kube-system is not permitted in project 'aicr'"
    )
    role = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "x")
    assert resource_error(project(), application(), role) == (
        "resource rbac.authorization.k8s.io:ClusterRole is not permitted in project aicr"
    )
    everything = project(clusterResourceWhitelist=[{"group": "*", "kind": "*"}])
    assert resource_error(everything, application(), role) == ""


def test_a_new_spec_or_the_annotation_asks_for_a_refresh() -> None:
    plain = application()
    settled = application(
        status={
            "sync": {
                "comparedTo": {
                    "source": plain["spec"]["source"],
                    "destination": plain["spec"]["destination"],
                }
            }
        }
    )
    assert refresh_reason(plain, forced=False, due=False) == "spec"
    assert refresh_reason(settled, forced=False, due=False) is None
    assert refresh_reason(settled, forced=False, due=True) == "due"
    settled["metadata"]["annotations"] = {"argocd.argoproj.io/refresh": "normal"}
    assert refresh_reason(settled, forced=False, due=False) == "annotation"


def test_times_have_whole_seconds_and_the_annotation_goes_with_the_status() -> None:
    app = application()
    app["metadata"]["annotations"] = {"argocd.argoproj.io/refresh": "hard"}
    wanted = target("sha256:1", [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}], "ns")
    patch = compared(app, wanted, None, NOW, settled=False, fault=Fault())
    assert patch["status"]["reconciledAt"] == "2026-11-30T12:00:00Z"
    assert patch["status"]["sync"]["status"] == "OutOfSync"
    assert patch["status"]["health"]["status"] == "Missing"
    assert patch["metadata"]["annotations"] == {"argocd.argoproj.io/refresh": None}
    failed = not_loaded(app, "nothing there", NOW)
    assert failed["status"]["conditions"][0]["message"] == (
        "Failed to load target state: failed to generate manifest for source 1 of 1: "
        "rpc error: code = Unknown desc = nothing there"
    )


def test_automated_sync_does_not_repeat_what_failed() -> None:
    wanted = target("sha256:1", [], "ns")
    app = application()
    assert auto_sync(app, wanted, synced=False) == (None, "")
    app["spec"]["syncPolicy"] = {"automated": {"prune": True, "selfHeal": True}, "syncOptions": ["A=b"]}
    operation, _ = auto_sync(app, wanted, synced=False)
    assert operation is not None
    assert operation["sync"] == {"revision": "sha256:1", "prune": True, "syncOptions": ["A=b"]}
    assert auto_sync(app, wanted, synced=True) == (None, "")
    result = {"revision": "sha256:1", "source": app["spec"]["source"]}
    app["status"] = {"operationState": {"phase": "Failed", "message": "broken", "syncResult": result}}
    assert auto_sync(app, wanted, synced=False) == (None, "Failed last sync attempt to [sha256:1]: broken")
    app["status"]["operationState"]["phase"] = "Running"
    assert auto_sync(app, wanted, synced=False) == (None, "")


def test_a_scenario_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("applications:\n  a: {helth: Degraded}\n")
    with pytest.raises(ValueError, match="unknown helth"):
        Scenario.load(path)
    path.write_text("applications:\n  a: {operation: Failed, times: 1}\n")
    scenario = Scenario.load(path)
    assert scenario.fault("a", 1).operation == "Failed"
    assert scenario.fault("a", 2) == Fault()


def test_the_shipped_scenarios_can_be_read_and_are_in_the_documentation() -> None:
    page = (FOLDER.parents[1] / "docs" / "local-engine.md").read_text()
    told = dict(re.findall(r"^\| `([a-z-]+)` \|[^|]+\| `([A-Za-z]+)` \|$", page, re.MULTILINE))
    assert told == {name: Scenario.named(name).reason for name in names()}
    assert all(Scenario.named(name).applications for name in names())
    with pytest.raises(ValueError, match="there is no scenario 'x'; there are automated-again, "):
        Scenario.named("x")


def test_a_scenario_s_settings_take_the_place_of_the_cluster_s() -> None:
    scenario = Scenario(settings={"engine.graces.errors": "5s", "sweepInterval": "1s"})
    before = {"engine": {"project": "p", "graces": {"degraded": "1m"}}}
    assert scenario.configured(before) == {
        "engine": {"project": "p", "graces": {"degraded": "1m", "errors": "5s"}},
        "sweepInterval": "1s",
    }
    assert before == {"engine": {"project": "p", "graces": {"degraded": "1m"}}}


def test_only_whole_syncs_are_history() -> None:
    app = application()
    source = app["spec"]["source"]

    def kept(**sync: Any) -> bool:
        patch = ended(app, {"sync": {"revision": "sha256:1", **sync}}, source, "Succeeded", "", "r", [], NOW)
        return "history" in patch["status"]

    assert (kept(), kept(resources=[{"kind": "Job"}]), kept(dryRun=True)) == (True, False, False)
