"""Checking what runs: digests of pipeline, AICR, validators and charts, against the plan and a release."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aicr_pipeline.decide.qualification import Now, Proven, assets, digest_of
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.qualification import Running
from aicr_pipeline.model.release import Release
from aicr_pipeline.model.status import Status

State = Literal["ok", "differs", "unknown"]

_DEPENDENCIES = "layer dependencies"


@dataclass(frozen=True)
class Line:
    """One part that runs, against one thing that says how it should be."""

    part: str
    against: str
    state: State
    detail: str


def check(now: Now, release: Release | None, found: Sequence[Proven], status: Status | None) -> list[Line]:
    """All lines: against the release where one is given, and against the active plan.

    Parameters
    ----------
    found:
        Verified statements; that of the active rollout says which charts it rolled out.
    status:
        As the pipeline keeps it; it says whether Argo CD shows each release at its digest.
    """
    lines = list(_against_release(now.running, release)) if release is not None else []
    if now.plan is not None:
        lines += _against_plan(now, now.plan)
        bound = next((one for one in found if one.binding.rollout.name == now.rollout), None)
        lines += _charts(now.plan, bound, status)
    return lines


def _against_release(running: Running | None, release: Release) -> Iterable[Line]:
    against = f"release {release.version}"
    released = {f"function {name}": digest for name, digest in release.functions.items()}
    released |= {f"layer {name}": digest for name, digest in release.layers.items()}
    runs = assets(running.pipeline) if running else {}
    runs.pop("manifests", None)
    for part in sorted(released.keys() | runs.keys() | {_DEPENDENCIES}):
        if part == _DEPENDENCIES and part not in released:
            yield Line(part, against, "unknown", "the release was made without that layer built")
            continue
        yield _line(part, against, released.get(part), runs.get(part), known=running is not None)
    cluster = release.cluster
    if running is None:
        for part in ("manifests", "configuration", "AICR image", "validator images"):
            yield Line(part, against, "unknown", "not known what runs")
        return
    # Manifests follow from a cluster's own configuration; a release has those of one.
    if cluster.name == running.cluster and cluster.configuration == running.pipeline.configuration:
        yield _line("manifests", against, cluster.manifests, running.pipeline.manifests)
    else:
        detail = f"it was made for cluster {cluster.name} as configured there; make release CLUSTER="
        yield Line("manifests", against, "unknown", f"{detail}{running.cluster} from its checkout")
    image = digest_of(running.aicr.image)
    yield _line("AICR image", against, digest_of(cluster.aicr_image), image)
    validators = [digest_of(one) for one in running.aicr.validator_images]
    wanted = [digest_of(one) for one in cluster.validator_images]
    yield _line("validator images", against, _listed(wanted), _listed(validators))


def _against_plan(now: Now, plan: Plan) -> Iterable[Line]:
    state, running = plan.desired_state, now.running
    image = digest_of(running.aicr.image) if running else None
    yield _line("AICR image", "plan", state.aicr.image_digest, image, known=running is not None)
    wanted = _listed(map(digest_of, state.validator_images))
    found = _listed(map(digest_of, running.aicr.validator_images)) if running else None
    yield _line("validator images", "plan", wanted, found, known=running is not None)


def _charts(plan: Plan, bound: Proven | None, status: Status | None) -> Iterable[Line]:
    """What the statement says was rolled out, and where the pipeline is asked what Argo CD shows."""
    rolled: Mapping[str, str] = {}
    if bound is not None:
        rolled = {release.name: release.manifest_digest for release in bound.binding.releases}
    shown = {release.name: release for release in status.releases} if status else {}
    for release in plan.desired_state.releases:
        part, wanted = f"chart {release.name}", release.chart.manifest_digest
        if bound is None:
            yield Line(part, "plan", "unknown", "no verified statement of the active rollout")
        else:
            yield _line(part, "plan", wanted, rolled.get(release.name))
        if status is not None and status.active_plan == plan.desired_state_digest:
            yield _shown(part, shown[release.name].state if release.name in shown else "")


def _shown(part: str, state: str) -> Line:
    if state == "Ready":
        return Line(part, "cluster", "ok", "ready at its digest")
    if state in ("Drifted", "Healing"):
        return Line(part, "cluster", "differs", f"Argo CD shows it {state.lower()}")
    return Line(part, "cluster", "unknown", "not ready, so not known" if state else "not seen")


def _line(part: str, against: str, wanted: str | None, found: str | None, *, known: bool = True) -> Line:
    if not known:
        return Line(part, against, "unknown", "not known what runs")
    if wanted == found and wanted is not None:
        return Line(part, against, "ok", wanted)
    return Line(part, against, "differs", f"{wanted or 'none'} there, {found or 'none'} runs")


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(values)) or "none"
