"""What a plan's digest depends on, from the bundle's files on: all that matters, and nothing else."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from aicr_pipeline.decide.bundle import read_bundle
from aicr_pipeline.decide.plan import make_plan, read_plan
from aicr_pipeline.model.plan import Plan, PlannedChart, Recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.samples import chart, config, runtime, sha
from tests.unit.test_bundle import RECIPE, WRAPPER, sealed

NAMES = ("alpha", "beta", "gamma")
SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text("ab: é", max_size=5)
VALUES = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.text("xy", min_size=1, max_size=2), inner, max_size=2)
        ),
        max_leaves=4,
    ),
    max_size=4,
)


@dataclass(frozen=True)
class Run:
    """All that goes into one plan: what AICR rendered, what was mirrored, the wish, and the run itself."""

    values: tuple[dict[str, Any], ...]
    versions: tuple[str, ...] = ("1.0.0", "2.0.0", "3.0.0")
    repos: tuple[str, ...] = ("https://a.example", "https://b.example", "https://c.example")
    namespaces: tuple[str, ...] = ("one", "two", "two")
    order: tuple[int, ...] = (0, 1, 2)
    template: bytes = b"kind: Job"
    people: bytes = b"read me"
    nodes: int | None = None
    charts: dict[str, PlannedChart] = field(default_factory=dict)
    wish: dict[str, Any] = field(default_factory=dict)
    pin: dict[str, Any] = field(default_factory=dict)
    run: str = "run-1"
    at: str = "2026-01-01T00:00:00.000Z"

    def plan(self) -> Plan:
        recipe = deepcopy(RECIPE)
        recipe["componentRefs"] = [
            {"name": name, "namespace": where} for name, where in zip(NAMES, self.namespaces, strict=True)
        ]
        if self.nodes is not None:
            recipe["criteria"] = {"nodes": self.nodes}
        files = {"recipe.yaml": yaml.safe_dump(recipe).encode(), "README.md": self.people}
        for number, index in enumerate(self.order, 1):
            folder = f"{number:03d}-{NAMES[index]}"
            files[f"{folder}/values.yaml"] = json.dumps(self.values[index]).encode()
            files[f"{folder}/install.sh"] = self.people
            files[f"{folder}/upstream.env"] = (
                f"CHART={NAMES[index]}\nREPO={self.repos[index]}\nVERSION={self.versions[index]}\n".encode()
            )
        files["004-gamma-post/Chart.yaml"] = WRAPPER
        files["004-gamma-post/templates/job.yaml"] = self.template
        bundle = read_bundle(sealed(files))
        charts = {release.name: chart(release.name) for release in bundle.releases} | self.charts
        recorded = Recorded(
            run=self.run,
            runtime_version=self.run,
            created_at=self.at,
            snapshot_digest=sha(self.run),
            recipe_digest=bundle.recipe_digest,
            bundle_digest=sha(files),
            gpu_driver_state="loaded" if self.nodes else None,
        )
        return make_plan(bundle, runtime(**self.wish), config(**self.pin).aicr, charts, recorded)


def with_chart(change: Callable[[PlannedChart], PlannedChart]) -> Callable[[Run, int], Run]:
    return lambda run, at: replace(run, charts={NAMES[at]: change(chart(NAMES[at]))})


def put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


def swapped(run: Run, at: int) -> Run:
    one, other = at, (at + 1) % 3
    order = list(run.order)
    order[one], order[other] = order[other], order[one]
    return replace(run, order=tuple(order))


#: Each makes one change; the number says to which release, where there are several.
MATTERS: dict[str, Callable[[Run, int], Run]] = {
    "a value": lambda run, at: replace(run, values=put(run.values, at, {**run.values[at], "zzz": 1})),
    "an upstream version": lambda run, at: replace(run, versions=put(run.versions, at, "9.9.9")),
    "an upstream": lambda run, at: replace(run, repos=put(run.repos, at, "https://other.example")),
    "a namespace": lambda run, at: replace(run, namespaces=put(run.namespaces, at, "three")),
    "the order": swapped,
    "a wrapper's template": lambda run, _: replace(run, template=b"kind: Pod"),
    "a chart's version": with_chart(lambda made: made.model_copy(update={"version": "9.9.9"})),
    "a chart's content": with_chart(lambda made: made.model_copy(update={"content_digest": sha("other")})),
    "a manifest": with_chart(lambda made: made.model_copy(update={"manifest_digest": sha("other")})),
    "AICR's image": lambda run, _: replace(run, pin={"aicr.image": "ghcr.io/nvidia/aicr@" + sha("other")}),
    "AICR's version": lambda run, _: replace(run, pin={"aicr.version": "v1.9.0"}),
    "a validator": lambda run, _: replace(run, pin={"aicr.validatorImages": ["ghcr.io/v/a@" + sha("v")]}),
    "a selector": lambda run, _: replace(run, wish={"placement.system.nodeSelector": {"pool": "x"}}),
    "a toleration": lambda run, _: replace(run, wish={"placement.accelerated.tolerations": []}),
    "the service": lambda run, _: replace(run, wish={"criteria.service": "gke"}),
    "the accelerator": lambda run, _: replace(run, wish={"criteria.accelerator": "gb200"}),
    "the system": lambda run, _: replace(run, wish={"criteria.os": "rhel"}),
    "the intent": lambda run, _: replace(run, wish={"intent": "inference"}),
    "the platform": lambda run, _: replace(run, wish={"platform": "dynamo"}),
    "the validation": lambda run, _: replace(run, wish={"validation": {"deployment": "Disabled"}}),
}
RUNS = st.tuples(VALUES, VALUES, VALUES).map(Run)


@settings(max_examples=25, deadline=None)
@given(
    RUNS, st.text("abcdef0123456789", min_size=1, max_size=8), st.integers(1, 10_000), st.binary(max_size=20)
)
def test_what_does_not_matter(run: Run, name: str, nodes: int, people: bytes) -> None:
    """Another run and day, a cluster of another size, other files for people, paused, a pin without its v."""
    first = run.plan()
    other = replace(
        run, run=name, at="2027-12-31T23:59:59.999Z", nodes=nodes, people=people, wish={"paused": True},
        pin={"aicr.version": config().aicr.version.removeprefix("v")},
    ).plan()  # fmt: skip
    assert other.desired_state_digest == first.desired_state_digest
    assert other.desired_state == first.desired_state
    text = json.dumps(other.wire()).encode()
    assert read_plan(text, first.desired_state_digest) == other


@settings(max_examples=12, deadline=None)
@given(RUNS, st.integers(0, 2))
def test_each_of_what_matters(run: Run, at: int) -> None:
    digests = {"": run.plan().desired_state_digest}
    for what, change in MATTERS.items():
        digests[what] = change(run, at).plan().desired_state_digest
    assert len(set(digests.values())) == len(digests), digests


@settings(max_examples=25, deadline=None)
@given(VALUES, VALUES)
def test_values_differ_exactly_when_they_differ_as_json(one: dict[str, Any], other: dict[str, Any]) -> None:
    """The state, not the digest: the bundle's bytes are covered beside what they mean."""
    states = [Run((values, {}, {})).plan().desired_state.wire()["releases"] for values in (one, other)]
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (json.dumps(states[0], sort_keys=True) == json.dumps(states[1], sort_keys=True)) == same
