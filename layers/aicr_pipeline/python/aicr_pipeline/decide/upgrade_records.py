"""Upgrade records of a bundle: ``upgrades.yaml``, our own form around AICR's records, and ``UPGRADING.md``.

Both are stated in ``docs/bundle-format.md``. A record that is there but cannot be read is refused, never
skipped: that nobody could read it is not that nobody wrote it (ADR-021, decision 2).
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from aicr_pipeline.decide.artifacts import check_artifact
from aicr_pipeline.decide.upgrade_guide import read_guide
from aicr_pipeline.decide.version_range import parse_range
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.base import Document, parse
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.upgrades import Boundary, ComponentRecord, Guidance, Instruction, Prose

RECORDS: Literal["upgrades.yaml"] = "upgrades.yaml"
GUIDE: Literal["UPGRADING.md"] = "UPGRADING.md"
#: Each of the two files. Everything in it may be shown on one page.
MOST_BYTES = 256 << 10

#: Whose steps are taken from a record: the pipeline applies releases through Argo CD.
_DEPLOYER = "argocd"
_DEPLOYERS = Literal["argocd", "argocd-helm", "flux", "helm", "helmfile"]
# Controls other than tab and line feed, and what reorders text: records are printed in terminals and mail.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class _StepGroup(Document):
    deployers: Annotated[tuple[_DEPLOYERS, ...], Field(min_length=1)] | None = None
    steps: Annotated[tuple[Instruction, ...], Field(max_length=50)]


class _Hook(Document):
    file: Prose
    phase: Prose


class _AffectedResource(Document):
    group: str
    kinds: tuple[str, ...]


class _Transition(Document):
    from_: str = Field(alias="from")
    to: str
    verdict: Literal["safe", "manual", "blocked"]
    verified_by: Prose | None = None
    summary: Prose
    precondition: Prose | None = None
    reversible: bool | None = None
    reversible_notes: Prose | None = None
    steps_by_deployer: Annotated[tuple[_StepGroup, ...], Field(max_length=10)] = ()
    hooks: tuple[_Hook, ...] = ()
    affected_resources: tuple[_AffectedResource, ...] = ()
    references: Annotated[tuple[Prose, ...], Field(max_length=50)] = ()


class _Replaces(Document):
    """Read so that AICR's records are taken whole; added and removed components make no transition."""

    component: str
    verdict: Literal["safe", "manual", "blocked"]
    verified_by: Prose | None = None
    summary: Prose
    steps_by_deployer: Annotated[tuple[_StepGroup, ...], Field(max_length=10)] = ()


class _ComponentUpgrades(Document):
    """AICR's own document (``pkg/upgrade``, kind ComponentUpgrades)."""

    api_version: str
    kind: str
    component: Annotated[str, Field(min_length=1, max_length=128)]
    transitions: Annotated[tuple[_Transition, ...], Field(max_length=100)] = ()
    replaces: _Replaces | None = None


class _UpgradeRecords(Document):
    """Ours: AICR's records, as they are, in one file."""

    api_version: Literal["upgrades.aicr-pipeline.dev/v1"]
    kind: Literal["UpgradeRecords"]
    records: Annotated[tuple[dict[str, object], ...], Field(max_length=500)]


def read_records(files: Mapping[str, bytes], components: Collection[str]) -> tuple[ComponentRecord, ...]:
    """What a bundle's files record about its own components, sorted by name.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` naming the file and the record; ``AICRArtifactUnsupported`` for a version of
        AICR's document that is not known; ``ContentTooLarge``.
    """
    written = _from_file(files[RECORDS]) if RECORDS in files else {}
    guided = _from_guide(files[GUIDE]) if GUIDE in files else {}
    for component in written.keys() & guided.keys():
        _same(component, written[component], guided[component])
    found = {**guided, **written}
    return tuple(found[name] for name in sorted(found) if name in components)


def _from_file(data: bytes) -> dict[str, ComponentRecord]:
    document = yaml.load(data, Reason.BundleInvalid, RECORDS, most_bytes=MOST_BYTES)
    listed = parse(_UpgradeRecords, document, Reason.BundleInvalid, RECORDS)
    found: dict[str, ComponentRecord] = {}
    for number, entry in enumerate(listed.records):
        what = f"{RECORDS}: records[{number}]"
        check_artifact(entry, "ComponentUpgrades", what)
        record = parse(_ComponentUpgrades, entry, Reason.BundleInvalid, what)
        if record.component in found:
            raise _invalid(f"{what}: component {record.component} stands twice")
        boundaries = tuple(
            _boundary(transition, f"{what}.transitions[{index}]")
            for index, transition in enumerate(record.transitions)
        )
        found[record.component] = ComponentRecord(
            component=record.component, source=RECORDS, boundaries=boundaries
        )
    return found


def _from_guide(data: bytes) -> dict[str, ComponentRecord]:
    if len(data) > MOST_BYTES:
        raise PipelineError(
            Reason.ContentTooLarge, f"{GUIDE} has {len(data)} bytes; the limit is {MOST_BYTES}."
        )
    try:
        entries = read_guide(data.decode())
    except ValueError as error:
        raise _invalid(f"{GUIDE}: {error}") from None
    found: dict[str, list[Boundary]] = {}
    for component, boundary in entries:
        what = f"{GUIDE}: {component}"
        _check(boundary, what)
        found.setdefault(component, []).append(boundary)
    return {
        component: ComponentRecord(component=component, source=GUIDE, boundaries=tuple(boundaries))
        for component, boundaries in found.items()
    }


def _boundary(transition: _Transition, what: str) -> Boundary:
    steps = _steps(transition, what)
    if transition.verdict == "safe" and transition.verified_by is None:
        raise _invalid(f"{what} is safe, but names nothing that verified it (verifiedBy)")
    if transition.verdict == "safe" and transition.steps_by_deployer:
        raise _invalid(f"{what} is safe, but has steps")
    if transition.verdict != "safe" and not steps:
        raise _invalid(f"{what} is {transition.verdict}, but has no steps for {_DEPLOYER}")
    if transition.reversible and transition.reversible_notes is None:
        raise _invalid(f"{what} is reversible, but does not say how (reversibleNotes)")
    made = Boundary(
        verdict=transition.verdict,
        guidance=Guidance(
            applies_from=transition.from_,
            applies_to=transition.to,
            summary=transition.summary,
            precondition=transition.precondition,
            reversible=transition.reversible,
            reversible_notes=transition.reversible_notes,
            verified_by=transition.verified_by,
            deployer=_DEPLOYER,
            steps=steps,
            references=transition.references,
        ),
    )
    _check(made, what)
    if parse_range(transition.to).upper is None:
        raise _invalid(f"{what}: to has no upper end, so it would vouch for versions that nobody has seen")
    return made


def _steps(transition: _Transition, what: str) -> tuple[Instruction, ...]:
    """The steps of the one group that speaks to us: the one that names us, else the one that names nobody."""
    named = [deployer for group in transition.steps_by_deployer for deployer in group.deployers or ()]
    rests = [group for group in transition.steps_by_deployer if group.deployers is None]
    if len(set(named)) != len(named) or len(rests) > 1:
        raise _invalid(f"{what}: two groups of steps are for the same deployer")
    own = [group for group in transition.steps_by_deployer if _DEPLOYER in (group.deployers or ())]
    return next((group.steps for group in own + rests), ())


def _check(boundary: Boundary, what: str) -> None:
    """A boundary goes forward only, and says where it lies; nothing in it may disturb a terminal."""
    guidance = boundary.guidance
    try:
        origin, target = parse_range(guidance.applies_from), parse_range(guidance.applies_to)
    except ValueError as error:
        raise _invalid(f"{what}: {error}") from None
    if target.lower is None:
        raise _invalid(f"{what}: to has no lower end, so it names no boundary")
    ceiling = origin.upper
    if ceiling is None or (target.lower.floors(ceiling.key) and ceiling.inclusive):
        raise _invalid(f"{what}: from reaches into to, so it would also speak of going back")
    for text in _texts(guidance):
        if _UNPRINTABLE.search(text):
            raise _invalid(f"{what} holds characters that cannot be printed")


def _texts(guidance: Guidance) -> Iterable[str]:
    yield from (text for text in guidance.wire().values() if isinstance(text, str))
    yield from guidance.references
    for step in guidance.steps:
        yield from step.wire().values()


def _same(component: str, written: ComponentRecord, guided: ComponentRecord) -> None:
    """The guide is made from the records: what it says must be among them."""
    missing = set(map(_claim, guided.boundaries)) - set(map(_claim, written.boundaries))
    if missing:
        origin, target, verdict = min(missing)
        raise _invalid(
            f"{GUIDE} says that {component} from {origin} into {target} is {verdict}, and {RECORDS} does not"
        )


def _claim(boundary: Boundary) -> tuple[str, str, str]:
    return boundary.guidance.applies_from, boundary.guidance.applies_to, boundary.verdict


def _invalid(what: str) -> PipelineError:
    return PipelineError(Reason.BundleInvalid, f"The rendered bundle is refused: {what}.")
