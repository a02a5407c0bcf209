"""Plans: the digest can be recomputed by anybody, covers what it should, and nothing that varies."""

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from aicr_pipeline.decide.bundle import Bundle, BundledRelease
from aicr_pipeline.decide.canonical import canonical, digest
from aicr_pipeline.decide.plan import desired_state_digest, make_plan, read_plan
from aicr_pipeline.model.plan import Plan, Recorded, UpstreamSource, plan_key
from aicr_pipeline.model.reasons import Reason
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.samples import chart, config, plan, refused, release, runtime, sha


def test_recomputed_with_the_public_rfc() -> None:
    made = plan()
    state = json.loads(json.dumps(made.wire()))["desiredState"]
    assert made.desired_state_digest == "sha256:" + hashlib.sha256(rfc8785.dumps(state)).hexdigest()


def test_a_golden_vector() -> None:
    """Written out by hand: whoever changes the scheme must change its version, and this."""
    state = {
        "releases": [{"values": {"é": 1.0, "b": [True, None, "x"], "a": 1e21}, "name": "z"}],
        "recipe": "r",
        "aicr": {"version": "v1"},
    }
    text = (
        '{"aicr":{"version":"v1"},"recipe":"r","releases":[{"name":"z","values":'
        '{"a":1e+21,"b":[true,null,"x"],"é":1}}]}'
    )
    assert canonical(state, "x").decode() == text
    golden = "cbe6291510982c319afe50999b809afcd456c867ad286bde07e4607d2ea8c024"
    assert desired_state_digest(state) == f"sha256:{golden}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        (1.0, "1"),
        (-0.0, "0"),
        (1e-7, "1e-7"),
        (9007199254740991, "9007199254740991"),
        ('\u20ac$\u000f\nA\'B"\\\\"/', '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        (
            {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5},
            '{"\\r":2,"1":4,"€":1,"😀":5,"\ufb33":3}',
        ),
        ([], "[]"),
        (None, "null"),
    ],
)
def test_rfc_8785(value: Any, text: str) -> None:
    assert canonical(value, "x").decode() == text


@pytest.mark.parametrize("value", [2**53 + 1, float("nan"), float("inf"), {"a": [-(2**60)]}])
def test_what_rfc_8785_cannot_say(value: Any) -> None:
    with refused(Reason.BundleInvalid, "the thing cannot be written as canonical JSON"):
        digest(value, "the thing")


STATE = plan(release("gpu-operator", values={"driver": {"version": "580", "rdma": True}})).wire()[
    "desiredState"
]


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [found for key, inner in enumerate(value) for found in leaves(inner, (*path, key))]
    return [path]


def with_leaf(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    made = json.loads(json.dumps(STATE))
    inner = made
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return dict(made)


@settings(max_examples=150)
@given(st.sampled_from(leaves(STATE)), st.text(max_size=4) | st.integers(-5, 5) | st.booleans())
def test_any_changed_field_changes_the_digest(path: tuple[str | int, ...], value: Any) -> None:
    changed = with_leaf(path, value)
    before = json.dumps(STATE, sort_keys=True)
    assert (desired_state_digest(changed) == desired_state_digest(STATE)) == (
        json.dumps(changed, sort_keys=True) == before
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("releases.0.values.replicas", 2),
        ("releases.0.chart.version", "1.0.1"),
        ("releases.0.chart.contentDigest", sha("other")),
        ("releases.0.chart.manifestDigest", sha("other")),
        ("releases.0.namespace", "other"),
        ("placement.accelerated.nodeSelector", {"pool": "other"}),
        ("placement.system.tolerations", [{"key": "a"}]),
        ("validation", "Disabled"),
        ("validatorImages", ["a@" + sha("v")]),
        ("criteria.os", "rhel"),
        ("aicr.imageDigest", sha("other")),
        ("bundleContentDigest", sha("other")),
        ("recipe", "other"),
    ],
)
def test_each_of_these_makes_another_plan(path: str, value: Any) -> None:
    assert plan(**{path: value}).desired_state_digest != plan().desired_state_digest


def test_order_matters() -> None:
    one, two = release("a"), release("b")
    assert plan(one, two).desired_state_digest != plan(two, one).desired_state_digest


# Making one


def bundle(info: dict[str, Any] | None = None) -> Bundle:
    source = UpstreamSource(chart="app", repo="https://charts.example", version="1.2.3")
    return Bundle(
        recipe={},
        recipe_digest=sha("recipe"),
        recipe_name="h100",
        aicr_version="v1.1.2",
        content_digest=sha("content"),
        info=info,
        releases=(
            BundledRelease("app", "app", "apps", "001-app", source, {"a": 1}, {}),
            BundledRelease("app-post", "app", "apps", "002-app-post", None, None, {"Chart.yaml": b"x"}),
        ),
    )


def recorded(**changes: Any) -> Recorded:
    fields = {
        "run": "r",
        "runtime_version": "v",
        "created_at": "2026-01-01T00:00:00.000Z",
        "snapshot_digest": sha("snapshot"),
        "recipe_digest": sha("recipe"),
        "bundle_digest": sha("artifact"),
    }
    return Recorded(**(fields | changes))


CHARTS = {"app": chart("app", "1.2.3"), "app-post": chart("app-post", "0.1.0")}


def made(record: Recorded, info: dict[str, Any] | None = None, **images: Any) -> Plan:
    aicr = config(**images).aicr
    return make_plan(bundle(info), runtime(), aicr, CHARTS, record)


def test_what_a_plan_takes_from_where() -> None:
    state = made(recorded()).desired_state
    assert [(r.name, r.kind, r.repository) for r in state.releases] == [
        ("app", "chart", "charts/app"),
        ("app-post", "wrapper", "wrappers/app-post"),
    ]
    assert state.aicr.image_digest == "sha256:" + "a" * 64
    assert state.releases[0].values == {"a": 1}
    assert state.releases[1].values is None
    assert state.releases[0].source is not None
    assert state.criteria.wire() == {
        "service": "eks", "accelerator": "h100", "os": "ubuntu", "intent": "training", "platform": "kubeflow",
    }  # fmt: skip


def test_what_varies_between_two_runs_is_beside_the_digest() -> None:
    other = recorded(
        run="r2",
        runtime_version="v2",
        created_at="2027-01-01T00:00:00.000Z",
        snapshot_digest=sha("s2"),
        recipe_digest=sha("r2"),
        bundle_digest=sha("b2"),
        gpu_driver_state="loaded",
    )
    assert made(other, {"layout": 1}).desired_state_digest == made(recorded()).desired_state_digest


def test_validator_images_are_a_set() -> None:
    images = [f"ghcr.io/v/{name}@sha256:{'1' * 64}" for name in "ba"]
    one = made(recorded(), **{"aicr.validatorImages": images})
    assert one.desired_state.validator_images == tuple(sorted(images))
    assert (
        one.desired_state_digest
        == made(recorded(), **{"aicr.validatorImages": images[::-1]}).desired_state_digest
    )


# Reading one


def text(document: Any) -> bytes:
    return json.dumps(document).encode()


def test_round_trip() -> None:
    found = made(recorded(bundle_info={"a": [1]}, gpu_driver_state="absent"))
    assert read_plan(text(found.wire()), found.desired_state_digest) == found
    assert plan_key(found.desired_state_digest) == f"plans/{found.desired_state_digest[7:]}.json"
    assert found.release("app") is not None
    assert found.release("nope") is None


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"", "not a plan document"),
        (b"[]", "not a plan document"),
        (b"null", "not a plan document"),
        (b"\xff", "not a plan document"),
        (b'{"desiredState": "x"}', "not a plan document"),
        (b"{}", "not a plan document"),
        (b'{"desiredState": {}}', "was changed after it was written"),
    ],
)
def test_no_plan(document: bytes, said: str) -> None:
    with refused(Reason.PlanUnreadable, sha("x"), said):
        read_plan(document, sha("x"))


def test_another_plan_or_a_changed_one() -> None:
    good = plan()
    with refused(Reason.PlanUnreadable, "was changed"):
        read_plan(text(good.wire()), sha("other"))
    for path in leaves(good.wire()["desiredState"]):
        changed = good.wire()
        changed["desiredState"] = json.loads(json.dumps(changed["desiredState"]))
        inner = changed["desiredState"]
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = "changed"
        with refused(Reason.PlanUnreadable, "was changed"):
            read_plan(text(changed), good.desired_state_digest)


@pytest.mark.parametrize(
    ("field", "value"),
    [("apiVersion", "plan.aicr-pipeline.dev/v2"), ("kind", "Other"), ("extra", 1), ("recorded", {})],
)
def test_another_version_is_refused(field: str, value: Any) -> None:
    good = plan()
    with refused(Reason.PlanUnreadable, field):
        read_plan(text({**good.wire(), field: value}), good.desired_state_digest)


def test_a_digest_that_lies_about_itself() -> None:
    good = plan()
    with refused(Reason.PlanUnreadable):
        read_plan(text({**good.wire(), "desiredStateDigest": sha("x")}), good.desired_state_digest)
