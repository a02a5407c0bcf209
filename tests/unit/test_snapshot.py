"""Snapshots: the captured ones read, and the traps."""

import copy
import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.snapshot import Snapshot, check_criteria, confirm_criteria, read_snapshot
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import Criteria

from tests.unit.samples import refused

GOOD: dict[str, Any] = {
    "apiVersion": "aicr.run/v1",
    "kind": "Snapshot",
    "metadata": {"version": "v1.1.2"},
    "fingerprint": {
        "service": {"value": "eks"},
        "accelerator": {"value": "h100"},
        "os": {"value": "ubuntu", "version": "24.04"},
        "k8sVersion": {"value": "1.34.2"},
        "nodeCount": {"value": 4},
    },
    "measurements": [{"type": "GPU", "subtypes": [{"data": {"driver-loaded": "true"}}]}],
}
CRITERIA = Criteria(service="eks", accelerator="h100", os="ubuntu")
H100 = "h100-eks-ubuntu-training-kubeflow/snapshot"


def read(**fingerprint: Any) -> Snapshot:
    made = copy.deepcopy(GOOD)
    for name, value in fingerprint.items():
        if value is None:
            del made["fingerprint"][name]
        else:
            made["fingerprint"][name] = value
    return read_snapshot(yaml.safe_dump(made).encode())


def test_a_count_of_thousands_of_digits_is_none() -> None:
    """Python neither prints such a number nor reads its decimal form; YAML has it in hexadecimal, too."""
    text = yaml.safe_dump(GOOD).encode()
    hostile = text.replace(b"value: 4", b"value: 0x" + b"f" * 5000)
    assert hostile != text
    with refused(Reason.SnapshotIncomplete, "nodeCount"):
        read_snapshot(hostile)


@pytest.mark.parametrize("name", ["pre", "post"])
def test_captured(captured: Path, name: str) -> None:
    found = read_snapshot((captured / H100 / f"snapshot-{name}-install.yaml").read_bytes())
    assert (found.service, found.accelerator, found.os) == (
        "eks",
        "h100",
        "ubuntu",
    )
    assert found.kubernetes_version.startswith("1.34.2")
    assert found.node_count == 4
    assert found.aicr_version == "v0.19.0-next"
    assert found.gpu_driver_state == "absent", "the captured nodes have no kernel to load a driver into"
    confirm_criteria(found, CRITERIA)


def test_the_digest_is_of_the_bytes() -> None:
    text = yaml.safe_dump(GOOD).encode()
    assert read_snapshot(text).digest == "sha256:" + hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"service": None}, "service"),
        ({"k8sVersion": None}, "k8sVersion"),
        ({"nodeCount": None}, "nodeCount"),
        ({"service": {"value": ""}}, "service"),
        ({"service": {"value": "unknown"}}, "service"),
        ({"service": {"value": "any"}}, "service"),
        ({"service": {}}, "service"),
        ({"service": ["eks"]}, "service"),
        ({"nodeCount": {"value": 0}}, "nodeCount"),
        ({"nodeCount": {"value": "four"}}, "nodeCount"),
        ({"nodeCount": {"value": -1}}, "nodeCount"),
        ({"nodeCount": {"value": 4.5}}, "nodeCount"),
        ({"nodeCount": {"value": 10**9}}, "nodeCount"),
        ({"nodeCount": {"value": "٣"}}, "nodeCount"),
    ],
)
def test_aicr_did_not_see_the_cluster(change: dict[str, Any], named: str) -> None:
    with refused(Reason.SnapshotIncomplete, f"lacks {named}", "aicr-snapshot"):
        read(**change)


@pytest.mark.parametrize("fingerprint", [None, {}, [], "x", {"os": {"value": "ubuntu"}}])
def test_an_empty_fingerprint_though_aicr_exits_0(fingerprint: Any) -> None:
    made = {**GOOD, "fingerprint": fingerprint}
    with refused(Reason.SnapshotIncomplete, "service, k8sVersion, nodeCount"):
        read_snapshot(yaml.safe_dump(made).encode())


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"a: [",
        yaml.safe_dump({**GOOD, "kind": "Recipe"}).encode(),
        yaml.safe_dump({**GOOD, "apiVersion": "aicr.run/v2"}).encode(),
        yaml.safe_dump({**GOOD, "apiVersion": "aicr.run/v1alpha1"}).encode(),
        yaml.safe_dump({**GOOD, "apiVersion": 1}).encode(),
    ],
)
def test_no_snapshot(document: bytes) -> None:
    with refused(Reason.AICRArtifactUnsupported):
        read_snapshot(document)


def test_too_large() -> None:
    with refused(Reason.ContentTooLarge):
        read_snapshot(b"#" * ((8 << 20) + 1))


@pytest.mark.parametrize("count", [4, "4"])
def test_node_counts_as_number_or_text(count: Any) -> None:
    assert read(nodeCount={"value": count}).node_count == 4


def test_values_without_a_wrapper() -> None:
    found = read(service="eks", nodeCount=2)
    assert (found.service, found.node_count) == ("eks", 2)


@pytest.mark.parametrize(
    ("data", "state"),
    [
        ({"driver-loaded": "true"}, "loaded"),
        ({"driver-loaded": True}, "loaded"),
        ({"driver-loaded": "false"}, "absent"),
        ({"driver-loaded": False}, "absent"),
        ({}, None),
    ],
)
def test_driver(data: Any, state: str | None) -> None:
    made = {**GOOD, "measurements": [None, {"subtypes": None}, {"subtypes": [None, {"data": data}]}]}
    assert read_snapshot(yaml.safe_dump(made).encode()).gpu_driver_state == state


@pytest.mark.parametrize("field", ["service", "accelerator", "os"])
def test_a_conflict_before_and_after(field: str) -> None:
    found = read(**{field: {"value": "other"}})
    for check in (check_criteria, confirm_criteria):
        with refused(Reason.CriteriaConflict, f"spec.criteria.{field} is", "the snapshot says other"):
            check(found, CRITERIA)


@pytest.mark.parametrize("field", ["accelerator", "os"])
def test_what_is_not_known_conflicts_only_after_the_install(field: str) -> None:
    found = read(**{field: None})
    check_criteria(found, CRITERIA)
    with refused(Reason.CriteriaConflict, f"spec.criteria.{field}", "says nothing"):
        confirm_criteria(found, CRITERIA)


def test_every_conflict_is_named() -> None:
    with refused(Reason.CriteriaConflict, "service", "accelerator", "os"):
        check_criteria(read(), Criteria(service="gke", accelerator="gb200", os="cos"))
