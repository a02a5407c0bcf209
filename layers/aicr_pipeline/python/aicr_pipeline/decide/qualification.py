"""Whether what runs is qualified: the newest evidence that counts, and what differs from it by which row.

Pure. Evidence has been verified before (``decide/verify.py``); here is decided what it is good for. What
nobody recorded never covers anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.evidence import outdated
from aicr_pipeline.model.evidence import Binding, BoundApproval, BoundPipeline, BoundTuple
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.qualification import (
    BYPASS_NEVER_COUNTS,
    PROFILES,
    TUPLE_PARTS,
    Profile,
    Running,
    StaleRow,
)

CURRENT, NOT_QUALIFIED, INVALID, INCOMPLETE = 0, 1, 2, 3
NOT_RECORDED = "not recorded"
LAYERS = ("program", "dependencies")


class Standing(StrEnum):
    """How the profile stands on this cluster."""

    Qualified = "qualified"
    NotQualified = "not qualified"
    Stale = "stale"
    Incomplete = "incomplete"


_CODES: Mapping[Standing, int] = {
    Standing.Qualified: CURRENT,
    Standing.NotQualified: NOT_QUALIFIED,
    Standing.Stale: NOT_QUALIFIED,
    Standing.Incomplete: INCOMPLETE,
}


@dataclass(frozen=True)
class Proven:
    """A statement that verified, under its key in the ledger."""

    key: str
    binding: Binding


@dataclass(frozen=True)
class Left:
    """Evidence that was not used, and why."""

    key: str
    why: str


@dataclass(frozen=True)
class Now:
    """What runs now; None for what nobody could say."""

    cluster: str
    #: The active plan, and the rollout that installed it.
    plan: Plan | None
    rollout: str | None
    #: Whether the cluster is known to run all of that plan.
    whole: bool
    running: Running | None
    tuple_: BoundTuple | None


@dataclass(frozen=True)
class Difference:
    """One identity that is not what the evidence covers, with the row that makes it stale."""

    row: StaleRow
    part: str
    qualified: str
    now: str


@dataclass(frozen=True)
class Qualification:
    """The answer. ``evidence`` is the newest that counts for the profile."""

    cluster: str
    standing: Standing
    because: str
    profile: Profile | None
    evidence: Proven | None
    differences: tuple[Difference, ...]
    unknown: tuple[str, ...]
    ignored: tuple[Left, ...]

    @property
    def code(self) -> int:
        """The exit status."""
        return _CODES[self.standing]


def qualify(found: Iterable[Proven], unverified: Iterable[Left], now: Now) -> Qualification:
    """How the cluster's profile stands.

    Parameters
    ----------
    found:
        The statements of the ledger that verified, back to the newest that counts.
    unverified:
        What did not; it is named and changes nothing.
    """
    verified, ignored = list(found), list(unverified)
    for one in verified:
        why = "; ".join(never_counts(one.binding, now.cluster))
        if why:
            ignored.append(Left(one.key, why))
    recipe = now.plan.desired_state.recipe if now.plan else None
    profile = next((one for one in PROFILES if recipe is not None and one.recipe == recipe), None)
    newest = newest_counting(verified, now)
    if newest is not None:
        now = _with_planned_images(now, newest.binding)
    differences = tuple(stale(newest.binding, now)) if newest else ()
    unknown = tuple(_unknown(now)) if newest else ()
    standing, because = _standing(now, profile, newest, differences, unknown)
    return Qualification(
        now.cluster, standing, because, profile, newest, differences, unknown,
        tuple(sorted(ignored, key=lambda left: left.key)),
    )  # fmt: skip


def newest_counting(found: Iterable[Proven], now: Now) -> Proven | None:
    """The newest statement that counts for the recipe that is active."""
    recipe = now.plan.desired_state.recipe if now.plan else None
    return max(
        (
            one
            for one in found
            if one.binding.plan.recipe == recipe and not any(never_counts(one.binding, now.cluster))
        ),
        key=lambda one: parse_time(one.binding.bound_at),
        default=None,
    )


def _with_planned_images(now: Now, binding: Binding) -> Now:
    """A snapshot shows no workload image; the plan pins the charts that bring it, so the same plan has the
    same."""
    if now.plan is None or now.tuple_ is None or binding.tuple_ is None or now.tuple_.workload_images:
        return now
    if now.plan.desired_state_digest != binding.plan.digest:
        return now
    images = {"workload_images": binding.tuple_.workload_images}
    return replace(now, tuple_=now.tuple_.model_copy(update=images))


def _standing(
    now: Now,
    profile: Profile | None,
    newest: Proven | None,
    differences: tuple[Difference, ...],
    unknown: tuple[str, ...],
) -> tuple[Standing, str]:
    if now.plan is None and now.rollout is not None:
        return Standing.Incomplete, f"the plan of rollout {now.rollout} is not in what was read"
    if now.plan is None:
        return Standing.NotQualified, "no rollout has succeeded on this cluster"
    if profile is None:
        recipe = now.plan.desired_state.recipe
        return Standing.NotQualified, f"no profile of the support policy has the recipe {recipe}"
    if newest is None:
        return Standing.NotQualified, "no evidence counts: not qualified on hardware"
    if differences:
        rows = ", ".join(sorted({str(one.row) for one in differences}, key=_row_order))
        return Standing.Stale, f"what runs is not what was qualified ({rows})"
    if unknown:
        return Standing.Incomplete, f"not known: {'; '.join(unknown)}"
    return Standing.Qualified, "everything that runs is what the evidence covers"


def _row_order(row: str) -> int:
    return list(StaleRow).index(StaleRow(row))


def never_counts(binding: Binding, cluster: str) -> Iterable[str]:
    """Why verified evidence qualifies nothing here, whatever runs; empty when it counts."""
    if binding.cluster != cluster:
        yield f"it is of cluster {binding.cluster}"
    if _is_bypassed(binding.approval):
        yield BYPASS_NEVER_COUNTS
    yield from binding.not_qualifying_because
    if not binding.qualifying and not binding.not_qualifying_because:
        yield "it does not qualify"
    yield from outdated(binding)
    if binding.outcome != "Succeeded":
        yield f"the rollout {binding.outcome.lower()}"
    validation = binding.validation
    if validation.mode != "Required" or validation.failed or validation.other or not validation.passed:
        yield "its deployment validation did not pass"
    try:
        parse_time(binding.bound_at)
    except ValueError:
        yield "its time is not one"


def _is_bypassed(approval: BoundApproval | None) -> bool:
    """Whoever's record says so."""
    if approval is None:
        return False
    return "bypass" in {approval.identity, *(one.identity for one in approval.decisions or ())}


def stale(binding: Binding, now: Now) -> Iterable[Difference]:
    """Every identity that the evidence covers and that is another now."""
    yield from _rebuilt(binding, now)
    yield from _inputs(binding, now)
    if now.plan is not None:
        aicr = now.plan.desired_state.aicr
        if aicr.image_digest != binding.aicr_image_digest:
            yield Difference(
                StaleRow.AicrImage,
                "AICR image",
                f"{binding.aicr_image_digest} ({binding.aicr_version})",
                f"{aicr.image_digest} ({aicr.version})",
            )
    yield from _tuple(binding, now)
    yield from _planned(binding, now)


def _rebuilt(binding: Binding, now: Now) -> Iterable[Difference]:
    covered = binding.pipeline
    unrecorded = {
        "functions": not covered.functions,
        **{f"layer {layer}": layer not in covered.layers for layer in LAYERS},
        "manifests": covered.manifests is None,
    }
    for part, missing in unrecorded.items():
        if missing:
            yield Difference(StaleRow.Rebuild, part, NOT_RECORDED, "deployed")
    if now.running is None:
        return
    was, found = assets(covered), assets(now.running.pipeline)
    for part in sorted(was.keys() | found.keys()):
        recorded = part in was or not (part in unrecorded or not covered.functions)
        if recorded and was.get(part) != found.get(part):
            yield Difference(StaleRow.Rebuild, part, was.get(part, "none"), found.get(part, "none"))


def assets(pipeline: BoundPipeline) -> dict[str, str]:
    """What a rebuild changes, part by part. The configuration is no such: its inputs have a row."""
    found = {f"function {name}": digest for name, digest in pipeline.functions.items()}
    found |= {f"layer {name}": digest for name, digest in pipeline.layers.items()}
    return found | ({"manifests": pipeline.manifests} if pipeline.manifests else {})


def _inputs(binding: Binding, now: Now) -> Iterable[Difference]:
    covered = {digest_of(image) for image in binding.validator_images}
    ran = {one.digest for one in binding.validators or ()}
    if not ran:
        yield Difference(StaleRow.Inputs, "validator images", NOT_RECORDED, "what ran is not known")
    if now.running is None:
        return
    image = digest_of(now.running.aicr.image)
    if image != binding.aicr_image_digest:
        yield Difference(StaleRow.Inputs, "AICR image", binding.aicr_image_digest, image)
    configured = {digest_of(one) for one in now.running.aicr.validator_images}
    if configured != covered or not ran <= configured:
        yield Difference(
            StaleRow.Inputs,
            "validator images",
            _listed(covered | ran) or "none",
            _listed(configured) or "none",
        )


def _tuple(binding: Binding, now: Now) -> Iterable[Difference]:
    for field, part in TUPLE_PARTS.items():
        was, found = _values(binding.tuple_, field), _values(now.tuple_, field)
        if not was:
            yield Difference(StaleRow.Tuple, part, NOT_RECORDED, _listed(found) or "not known")
        elif found and set(found) != set(was):
            yield Difference(StaleRow.Tuple, part, _listed(was), _listed(found))


def _planned(binding: Binding, now: Now) -> Iterable[Difference]:
    if now.plan is None:
        return
    plan = now.plan
    if plan.desired_state_digest != binding.plan.digest:
        yield Difference(StaleRow.Plan, "plan", binding.plan.digest, plan.desired_state_digest)
        return
    if now.rollout is not None and now.rollout != binding.rollout.name:
        yield Difference(StaleRow.Plan, "rollout", binding.rollout.name, now.rollout)
    if plan.recorded.run != binding.plan.resolved_by:
        yield Difference(StaleRow.Plan, "run", binding.plan.resolved_by or NOT_RECORDED, plan.recorded.run)
    if not now.whole:
        later = "a later rollout may have written releases and did not succeed"
        yield Difference(StaleRow.Plan, "plan", binding.plan.digest, later)


def _unknown(now: Now) -> Iterable[str]:
    """What evidence covers and nobody could say of what runs."""
    if now.running is None:
        yield "what of the pipeline is deployed, and with which AICR image and validators"
    missing = [part for field, part in TUPLE_PARTS.items() if not _values(now.tuple_, field)]
    if missing:
        yield f"of the newest snapshot: {', '.join(missing)}"


def _values(found: BoundTuple | None, field: str) -> tuple[str, ...]:
    value = getattr(found, field) if found is not None else ()
    return (value,) if isinstance(value, str) else tuple(value)


def identities(binding: Binding) -> Iterable[tuple[str, str]]:
    """What evidence covers, exactly: name and identity."""
    yield "cluster", binding.cluster
    yield "rollout", binding.rollout.name
    yield "plan", binding.plan.digest
    yield "run", binding.plan.resolved_by or NOT_RECORDED
    yield "bound at", binding.bound_at
    yield "pipeline", binding.pipeline.version
    yield from assets(binding.pipeline).items()
    yield "AICR image", f"{binding.aicr_image_digest} ({binding.aicr_version})"
    for image in binding.validator_images:
        yield "validator image", image
    for one in binding.validators or ():
        yield f"validator {one.check}", one.digest
    for field, part in TUPLE_PARTS.items():
        yield part, _listed(_values(binding.tuple_, field)) or NOT_RECORDED
    for release in binding.releases:
        yield f"chart {release.name}", release.manifest_digest
    if binding.aicr_evidence is not None:
        yield "AICR's evidence", binding.aicr_evidence.digest


def digest_of(image: str) -> str:
    """The digest of an image that is named by one; where it is pulled from does not matter."""
    return image.partition("@")[2]


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(values))
