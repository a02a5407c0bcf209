"""The wish: what is refused, with the path of the field, and what the defaults are."""

from typing import Any

import pytest
import yaml
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import parse_runtime

from tests.unit.samples import IMAGE, RUNTIME, changed, refused, runtime


def read(path: str, *value: Any) -> Any:
    return parse_runtime(yaml.safe_dump(changed(RUNTIME, path, *value)).encode())


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("status", {}, "status: unknown field"),
        ("spec.intnet", "x", "spec.intnet: unknown field"),
        (
            "spec.placement.system.tolerations",
            [{"key": "a", "tolerationSeconds": 3}],
            "[0].tolerationSeconds",
        ),
        ("spec.validation", {"performance": "Required"}, "spec.validation.performance: unknown field"),
        ("metadata.namespace", "x", "metadata.namespace: unknown field"),
        ("metadata.name", "other", "metadata.name: "),
        ("apiVersion", "operator.aicr.run/v1", "apiVersion: "),
        ("kind", "Runtime", "kind: "),
        ("spec.intent", 1, "spec.intent: "),
        ("spec.intent", "--help", "spec.intent: "),
        ("spec.platform", "", "spec.platform: "),
        ("spec.criteria.accelerator", "H100", "spec.criteria.accelerator: "),
        ("spec.criteria.service", "a b", "spec.criteria.service: "),
        ("spec.paused", "true", "spec.paused: "),
        ("spec.paused", 1, "spec.paused: "),
        ("spec.placement.system.nodeSelector", {}, "spec.placement.system.nodeSelector: "),
        ("spec.placement.system.nodeSelector", {"a b": "c"}, "spec.placement.system.nodeSelector"),
        ("spec.placement.system.nodeSelector", {"a": "b,c=d"}, "spec.placement.system.nodeSelector.a: "),
        ("spec.placement.system.nodeSelector", {"a": True}, "spec.placement.system.nodeSelector.a: "),
        ("spec.placement.accelerated.tolerations", {"key": "x"}, "spec.placement.accelerated.tolerations: "),
        ("spec.placement.accelerated.tolerations", [{"operator": "Equal"}], "key: required when operator"),
        (
            "spec.placement.accelerated.tolerations",
            [{"key": "a", "operator": "Exists", "value": "b"}],
            "value: must be absent when operator is Exists",
        ),
        ("spec.placement.accelerated.tolerations", [{"key": "a", "effect": "Never"}], "[0].effect: "),
        ("spec.validation", {"deployment": "Maybe"}, "spec.validation.deployment: "),
        ("spec.validation", {"deployment": True}, "spec.validation.deployment: "),
        ("spec.overrides", {"gpu-operator": "x"}, "spec.overrides.gpu-operator: "),
        ("spec.overrides", {"GPU": {"a": 1}}, "spec.overrides"),
        ("spec.overrides", {"gpu": {"a..b": 1}}, "spec.overrides.gpu.a..b"),
        ("spec.overrides", {"gpu": {"a.": 1}}, "spec.overrides.gpu.a."),
        ("spec.overrides", {"gpu": {".a": 1}}, "spec.overrides.gpu..a"),
        ("spec.aicr", {"version": "v1.1.2"}, "spec.aicr.image: required, but missing"),
        ("spec.aicr", {"version": "v1.1.2", "image": "ghcr.io/nvidia/aicr:v1.1.2"}, "spec.aicr.image: "),
        ("spec.aicr", {"version": "1", "image": IMAGE}, "spec.aicr.version: "),
    ],
)
def test_refused_with_its_path(path: str, value: Any, said: str) -> None:
    with refused(Reason.InvalidRuntime, "clusterruntime.yaml", said):
        read(path, value)


@pytest.mark.parametrize(
    "path",
    ["apiVersion", "metadata", "spec", "spec.placement", "spec.placement.accelerated", "spec.criteria.os"],
)
def test_required(path: str) -> None:
    with refused(Reason.InvalidRuntime, f"{path}: required, but missing"):
        read(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is not a mapping but NoneType"),
        (b"- a", "is not a mapping but list"),
        (b"kind: ClusterRuntime\nkind: x", "stands twice"),
        (
            yaml.safe_dump(changed(RUNTIME, "spec.overrides", {"a": {"b": float("nan")}})).encode(),
            "JSON cannot",
        ),
    ],
)
def test_other_documents(text: bytes, said: str) -> None:
    with refused(Reason.InvalidRuntime, said):
        parse_runtime(text)


@pytest.mark.parametrize("size", [(256 << 10) + 1, 2 << 20])
def test_too_large(size: int) -> None:
    text = yaml.safe_dump(RUNTIME).encode()
    with refused(Reason.ContentTooLarge, str(size)):
        parse_runtime(text + b"#" * (size - len(text)))


def test_deep_overrides_are_refused_not_a_crash() -> None:
    deep = yaml.safe_dump(RUNTIME) + "  overrides: {a: {b: " + "[" * 900 + "]" * 900 + "}}\n"
    with refused(Reason.InvalidRuntime):
        parse_runtime(deep.encode())


def test_defaults_and_overrides_of_every_type() -> None:
    plain = read("metadata.labels", {"team": "ml"}).spec
    assert (plain.validation.deployment, plain.paused, plain.overrides, plain.aicr) == (
        "Required",
        False,
        {},
        None,
    )
    values = {"a.b": 1, "c": "x", "d": [True, None], "e": {"f": 1.5}}
    assert read("spec.overrides", {"gpu-operator": values}).spec.overrides["gpu-operator"] == values


def test_round_trip() -> None:
    wish = runtime(
        paused=True,
        overrides={"gpu-operator": {"driver.version": "580.65.06"}},
        aicr={"version": "v1.2.0", "image": IMAGE},
    )
    assert parse_runtime(yaml.safe_dump(wish.wire()).encode()) == wish
