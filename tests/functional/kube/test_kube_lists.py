"""Lists: selectors, pages that show one moment while the world moves on."""

from __future__ import annotations

import pytest
from kubernetes import client

from local.kube import CONFIG_MAPS, ApiError, Store
from local.kube.listing import page
from tests.functional.kube.helpers import MERGE, make_namespace, pod, refused


@pytest.fixture
def three(core: client.CoreV1Api, namespace: str) -> str:
    for name, labels in (("s1", {"a": "1", "b": "2"}), ("s2", {"a": "2"}), ("s3", {})):
        core.create_namespaced_secret(namespace, {"metadata": {"name": name, "labels": labels}})
    return namespace


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("a=1", ["s1"]),
        ("a==1,b=2", ["s1"]),
        ("a in (1, 2)", ["s1", "s2"]),
        ("a notin (1)", ["s2", "s3"]),
        ("a!=1", ["s2", "s3"]),
        ("!b", ["s2", "s3"]),
        ("b", ["s1"]),
        ("a,!b", ["s2"]),
    ],
)
def test_label_selectors(core: client.CoreV1Api, three: str, selector: str, names: list[str]) -> None:
    found = core.list_namespaced_secret(three, label_selector=selector)
    assert [item.metadata.name for item in found.items] == names


def test_field_selectors(core: client.CoreV1Api, three: str) -> None:
    def names(selector: str) -> list[str]:
        return [i.metadata.name for i in core.list_namespaced_secret(three, field_selector=selector).items]

    assert names("metadata.name=s2") == ["s2"]
    assert names("metadata.name!=s2,type=Opaque") == ["s1", "s3"]
    with refused(400, "BadRequest") as refusal:
        names("spec.colour=red")
    assert "field label not supported" in refusal.message
    with refused(400, "BadRequest"):
        core.list_namespaced_secret(three, label_selector="a in 1")


def test_pods_are_found_by_phase_and_node(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod("p", nodeName="n"))
    core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": "Running"}}, _content_type=MERGE)
    found = core.list_namespaced_pod(namespace, field_selector="status.phase=Running,spec.nodeName=n")
    assert [item.metadata.name for item in found.items] == ["p"]
    assert not core.list_namespaced_pod(namespace, field_selector="status.phase=Pending").items


def test_pages_show_the_moment_of_the_first_page(core: client.CoreV1Api, namespace: str) -> None:
    for number in range(5):
        core.create_namespaced_config_map(
            namespace, {"metadata": {"name": f"c{number}"}, "data": {"v": "old"}}
        )
    first = core.list_namespaced_config_map(namespace, limit=2)
    assert [item.metadata.name for item in first.items] == ["c0", "c1"]
    assert first.metadata.remaining_item_count == 3
    core.delete_namespaced_config_map("c2", namespace)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "c9"}})
    core.patch_namespaced_config_map("c3", namespace, {"data": {"v": "new"}}, _content_type=MERGE)
    second = core.list_namespaced_config_map(namespace, limit=2, _continue=first.metadata._continue)
    third = core.list_namespaced_config_map(namespace, limit=2, _continue=second.metadata._continue)
    seen = [(item.metadata.name, item.data["v"]) for item in [*second.items, *third.items]]
    assert seen == [("c2", "old"), ("c3", "old"), ("c4", "old")]
    assert third.metadata._continue is None
    assert third.metadata.resource_version == first.metadata.resource_version


def test_a_list_over_all_namespaces(core: client.CoreV1Api, api: client.ApiClient) -> None:
    spaces = [make_namespace(api), make_namespace(api)]
    for space in spaces:
        core.create_namespaced_config_map(space, {"metadata": {"name": "c", "labels": {"of": spaces[0]}}})
    found = core.list_config_map_for_all_namespaces(label_selector=f"of={spaces[0]}")
    assert sorted(item.metadata.namespace for item in found.items) == sorted(spaces)


def test_a_page_older_than_the_history_is_gone() -> None:
    store = Store(history=3)
    for number in range(3):
        store.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, "default")
    first = page(store, CONFIG_MAPS, "default", limit=1)
    for number in range(4):
        store.create(CONFIG_MAPS, {"metadata": {"name": f"d{number}"}}, "default")
    with pytest.raises(ApiError) as caught:
        page(store, CONFIG_MAPS, "default", limit=1, token=first["metadata"]["continue"])
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_a_malformed_continue_is_a_bad_request(core: client.CoreV1Api, namespace: str) -> None:
    with refused(400, "BadRequest"):
        core.list_namespaced_config_map(namespace, limit=1, _continue="bm9uc2Vuc2U")
