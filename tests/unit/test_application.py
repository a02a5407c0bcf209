"""The Application of a release: pinned, plain, and free of what a merge would keep."""

import copy
from typing import Any

import pytest
from aicr_pipeline.decide.application import (
    ASKED_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    PLAN_ANNOTATION,
    WRONG,
    application_spec,
    carries,
    is_ours,
    new_application,
    operation,
    same_but_nulls,
    updated_application,
)

from tests.unit.samples import config, release, sha

CONFIG = config()
CHART = release("gpu-operator", values={"driver": {"version": "580"}})
WRAPPER = release("gpu-operator-readiness", kind="wrapper")
OURS = "demo-1/001-gpu-operator"
WARNING = {"type": "OrphanedResourceWarning", "message": "x"}


def test_a_charts_spec() -> None:
    assert application_spec(CHART, CONFIG) == {
        "project": "aicr",
        "source": {
            "repoURL": f"{CONFIG.registry.repository}/charts/gpu-operator",
            "path": ".",
            "targetRevision": CHART.chart.manifest_digest,
            "helm": {"valuesObject": {"driver": {"version": "580"}}},
        },
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "gpu-operator"},
        "syncPolicy": {"syncOptions": ["ServerSideApply=true"]},
    }


def test_a_wrapper_has_no_values_block() -> None:
    source = application_spec(WRAPPER, CONFIG)["source"]
    assert source["repoURL"].endswith("/wrappers/gpu-operator-readiness")
    assert "helm" not in source


def test_empty_values_stay_a_values_block() -> None:
    source = application_spec(release("a", values={}), CONFIG)["source"]
    assert source["helm"] == {"valuesObject": {}}


def test_a_chart_that_has_another_name_than_its_release() -> None:
    other = release("kps", chart=release("kube-prometheus-stack").chart)
    assert new_application(other, CONFIG, sha("p"), OURS)["metadata"]["name"] == "kps"
    assert application_spec(other, CONFIG)["source"]["repoURL"].endswith("/charts/kube-prometheus-stack")


def test_the_operation_repeats_everything_it_needs() -> None:
    asked = operation(CHART, OURS)
    assert asked["sync"] == {
        "revision": CHART.chart.manifest_digest,
        "prune": True,
        "syncOptions": ["ServerSideApply=true"],
        "syncStrategy": {"hook": {}},
    }
    assert asked["retry"] == {"limit": 0}
    assert carries(asked, OURS)
    assert not {"resources", "source", "sources", "manifests"} & set(asked["sync"])


def test_a_new_application_is_nobodys_child() -> None:
    made = new_application(CHART, CONFIG, sha("plan"), OURS)
    assert made["metadata"] == {
        "name": "gpu-operator",
        "namespace": "argocd",
        "labels": {MANAGED_BY_LABEL: MANAGED_BY},
        "annotations": {PLAN_ANNOTATION: sha("plan"), ASKED_ANNOTATION: f"{OURS} after -1"},
    }
    assert is_ours(made)
    assert "automated" not in made["spec"]["syncPolicy"]
    assert made["operation"] == operation(CHART, OURS)


@pytest.fixture
def current() -> dict[str, Any]:
    """A ready Application as Argo CD left it, with what an administrator added."""
    old = release(
        "gpu-operator", "0.9.0", values={"driver": {"version": "570"}, "dropped": {"by": "the plan"}}
    )
    made = new_application(old, CONFIG, sha("before"), "demo-0/001-gpu-operator")
    del made["operation"]
    made["metadata"] |= {"resourceVersion": "7", "uid": "u", "finalizers": ["theirs"]}
    made["metadata"]["labels"]["team"] = "ml"
    made["metadata"]["annotations"]["note"] = "theirs"
    made["spec"]["syncPolicy"]["automated"] = {"prune": True, "selfHeal": True}
    made["spec"]["ignoreDifferences"] = [{"kind": "Secret"}]
    made["status"] = {
        "operationState": {"phase": "Succeeded"},
        "sync": {"status": "Synced"},
        "conditions": [WARNING, *({"type": kind, "message": "x"} for kind in WRONG)],
    }
    return made


def test_an_update_replaces_the_spec_as_a_whole(current: dict[str, Any]) -> None:
    before = copy.deepcopy(current)
    made = updated_application(current, CHART, CONFIG, sha("after"), OURS)
    assert made["spec"] == application_spec(CHART, CONFIG)
    assert "dropped" not in made["spec"]["source"]["helm"]["valuesObject"], "a merge would keep it"
    assert "automated" not in made["spec"]["syncPolicy"], "the controller would race with our operation"
    assert made["operation"] == operation(CHART, OURS)
    assert current == before, "what was read is not written to"


def test_an_update_drops_of_the_status_what_would_be_held_against_the_new_spec(
    current: dict[str, Any],
) -> None:
    made = updated_application(current, CHART, CONFIG, sha("after"), OURS)
    assert made["status"] == {"sync": {"status": "Synced"}, "conditions": [WARNING]}


def test_an_update_keeps_what_is_not_ours(current: dict[str, Any]) -> None:
    metadata = updated_application(current, CHART, CONFIG, sha("after"), OURS)["metadata"]
    assert metadata["annotations"] == {
        "note": "theirs",
        PLAN_ANNOTATION: sha("after"),
        ASKED_ANNOTATION: f"{OURS} after -1",
    }
    assert metadata["labels"]["team"] == "ml"
    assert (metadata["resourceVersion"], metadata["finalizers"]) == ("7", ["theirs"])


def test_an_update_of_one_that_was_never_reconciled(current: dict[str, Any]) -> None:
    del current["status"], current["metadata"]["annotations"]
    made = updated_application(current, CHART, CONFIG, sha("after"), OURS)
    assert made["status"] == {}
    assert made["metadata"]["annotations"] == {
        PLAN_ANNOTATION: sha("after"),
        ASKED_ANNOTATION: f"{OURS} after -1",
    }


@pytest.mark.parametrize(
    ("labels", "ours"),
    [
        ({MANAGED_BY_LABEL: MANAGED_BY}, True),
        ({MANAGED_BY_LABEL: "Helm"}, False),
        ({"x": MANAGED_BY}, False),
        ({}, False),
        (None, False),
    ],
)
def test_whose(labels: Any, ours: bool) -> None:
    assert is_ours({"metadata": {"labels": labels}}) is ours
    assert not is_ours({})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (operation(CHART, OURS), True),
        ({"operation": operation(CHART, OURS), "phase": "Running"}, True),
        (operation(CHART, OURS + "x"), False),
        ({"operation": operation(CHART, "other")}, False),
        ({"operation": None}, False),
        ({"info": None}, False),
        ({"operation": {"info": None}}, False),
        ({"info": [{"name": "x", "value": OURS}]}, False),
        ({}, False),
        (None, False),
    ],
)
def test_carries(given: Any, found: bool) -> None:
    assert carries(given, OURS) is found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": True}, {"a": 1}, False),
        ({"a": [0]}, {"a": [False]}, False),
        ({"a": {"b": 1}}, {"a": {"b": True}}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": None, "b": [True]}, {"b": [True]}, True),
        ({"a": {"b": None}}, {"a": {}}, True),
        (None, {}, False),
    ],
)
def test_what_is_installed_is_compared_as_json(one: Any, other: Any, same: bool) -> None:
    """Somebody's 1 in place of true is drift: a chart tells them apart."""
    assert same_but_nulls(one, other) is same
    assert same_but_nulls(other, one) is same
