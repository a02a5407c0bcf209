"""The recipe's constraints: AICR's grammar, and which of them a cluster is refused for."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.constraints import (
    Constraint,
    check_constraints,
    constraints_of,
    measured,
    satisfied,
)
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.model.reasons import Reason
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import refused
from tests.unit.test_bundle_captured import PROFILES

MEASUREMENTS: list[Any] = [
    {"type": "SystemD"},
    {
        "type": "OS",
        "subtypes": [
            {"subtype": "sysctl", "data": {"/proc/sys/kernel/osrelease": "6.17.0-1019-aws"}},
            {"subtype": "release", "data": {"ID": "ubuntu", "VERSION_ID": "24.04"}},
        ],
    },
    {"type": "GPU", "subtypes": [{"subtype": "hardware", "data": {"driver-loaded": False, "gpu-count": 8}}]},
]


def recipe(*constraints: tuple[str, str]) -> dict[str, Any]:
    return {"constraints": [{"name": name, "value": value} for name, value in constraints]}


@pytest.mark.parametrize(
    ("actual", "wanted", "holds"),
    [
        ("v1.34.2-eks-b3126f4", ">= 1.32.4", True),
        ("1.34.2", ">=1.34", True),
        ("1.34.2", "> 1.34", False),  # to the precision that is written
        ("1.34.2", "<= 1.34", True),
        ("1.33.9", ">= 1.34", False),
        ("1.9.0", ">= 1.10", False),
        ("1.35.0", "< 1.35.0", False),
        ("1.34.2", "== 1.34.2", True),
        ("v1.34.2-eks-1", "= 1.34.2", True),
        ("1.34.2", "== 1.34", False),
        ("1.34.2", "!= 1.34.2", False),
        ("1.34.2", "!= 1.34.3", True),
        ("ubuntu", "ubuntu", True),
        ("Ubuntu", "ubuntu", False),
        ("9" * 5000, ">= 1.0", False),
        ("24.04", "24.04", True),
        ("24.4", "24.04", False),  # without an operator it is text
        ("ubuntu", "!= rhel", True),
        ("true", "== true", True),
        ("1.34.5", ">= 1.34.3 < 1.35.0 || >= 1.35.2", True),
        ("1.35.1", ">= 1.34.3 < 1.35.0 || >= 1.35.2", False),
        ("1.35.2", ">= 1.34.3 < 1.35.0 || >= 1.35.2", True),
        ("1.34.3-gke.1318000", ">= 1.34.3-gke.1318000", True),
        ("1.34.3-gke.99", ">= 1.34.3-gke.1318000", False),
        ("1.34.3", ">= 1.34.3-gke.1318000", False),
        ("1.35.0-gke.1", "< 1.35.0", False),
        ("nonsense", ">= 1.34", False),
        ("1.2.3.4", ">= 1.0", False),
        ("-1", "-1", True),
        ("/dev/sda", "/dev/sda", True),
    ],
)
def test_grammar(actual: str, wanted: str, holds: bool) -> None:
    assert satisfied(actual, Constraint("x", wanted)) is holds


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        ">=",
        ">= ",
        "~> 1.2",
        "^1.34",
        "!label",
        "=> 1.2",
        ">= abc",
        ">= 1.2 ||",
        "||",
        ">= 1.2-gke.x",
    ],
)
def test_what_cannot_be_read_is_refused_not_compared_as_text(value: str) -> None:
    with refused(Reason.AICRArtifactUnsupported, "K8s.server.version", "update the pipeline"):
        check_constraints(recipe(("K8s.server.version", value)), [], "1.34.2")


@pytest.mark.parametrize(
    "listed", [{}, "x", ["x"], [{"name": "a"}], [{"name": 1, "value": "x"}], [{"name": "a", "value": 2}]]
)
def test_constraints_of_another_shape(listed: Any) -> None:
    with refused(Reason.AICRArtifactUnsupported, "not a list of names and values"):
        constraints_of({"constraints": listed})


def test_no_constraints() -> None:
    assert check_constraints({}, [], "1.34") == check_constraints({"constraints": []}, [], "1.34") == ()


def test_measurements_are_found_whatever_their_order_and_shape() -> None:
    strange: list[Any] = [
        None,
        "x",
        {"type": "OS", "subtypes": "x"},
        {"type": "OS", "subtypes": [1, {"data": 2}]},
    ]
    for found in (MEASUREMENTS, MEASUREMENTS[::-1], strange + MEASUREMENTS):
        assert measured(found, "OS.sysctl./proc/sys/kernel/osrelease") == "6.17.0-1019-aws"
        assert measured(found, "GPU.hardware.driver-loaded") == "false"
        assert measured(found, "GPU.hardware.gpu-count") == "8"
        assert measured(found, "OS.release.NAME") is None
        assert measured(found, "nonsense") is None


def test_every_failing_constraint_is_named_with_both_values() -> None:
    wanted = recipe(
        ("K8s.server.version", ">= 1.40"), ("OS.release.ID", "ubuntu"), ("OS.release.VERSION_ID", "22.04")
    )
    with refused(
        Reason.KubernetesUnsupported,
        "K8s.server.version '>= 1.40', found 'v1.34.2'",
        "OS.release.VERSION_ID '22.04', found '24.04'",
    ):
        check_constraints(wanted, MEASUREMENTS, "v1.34.2")
    with refused(Reason.CriteriaConflict, "OS.release.VERSION_ID '22.04', found '24.04'", "spec.criteria"):
        check_constraints(recipe(("OS.release.VERSION_ID", "22.04")), MEASUREMENTS, "v1.34.2")


def test_what_the_snapshot_does_not_know_is_said() -> None:
    wanted = recipe(("NodeTopology.gpu-nodes.label", "!opt-out"), ("OS.release.ID", "ubuntu"))
    assert check_constraints(wanted, MEASUREMENTS, "1.34") == ("NodeTopology.gpu-nodes.label",)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("when", ["pre", "post"])
def test_captured_recipes_against_the_captured_cluster(captured: Path, profile: str, when: str) -> None:
    found = yaml.safe_load((captured / profile / "recipe.yaml").read_text())
    text = (captured / PROFILES[0] / "snapshot" / f"snapshot-{when}-install.yaml").read_bytes()
    snapshot = read_snapshot(text)
    unchecked = check_constraints(found, snapshot.measurements, snapshot.kubernetes_version)
    assert unchecked == (("NodeTopology.gpu-nodes.label",) if "gke" in profile else ())
    with refused(Reason.KubernetesUnsupported, "K8s.server.version", "1.31.0"):
        check_constraints(found, snapshot.measurements, "v1.31.0-eks-1")


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_read_or_refused(actual: str, wanted: str) -> None:
    try:
        satisfied(actual, Constraint("x", wanted))
    except Exception as error:
        assert getattr(error, "reason", None) is Reason.AICRArtifactUnsupported
