"""State "Read bundle": the rendered bundle is fetched by digest, checked, and taken apart."""

from typing import Any

from aicr_pipeline.adapters.artifact import pull_files
from aicr_pipeline.adapters.http import Counters
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.resolves import Resolves
from aicr_pipeline.adapters.runtimes import pinned, read_runtime_text
from aicr_pipeline.decide.bundle import RECIPE, content_list
from aicr_pipeline.decide.bundle import read_bundle as decide_bundle
from aicr_pipeline.decide.constraints import check_constraints
from aicr_pipeline.decide.overrides import check_rendered
from aicr_pipeline.decide.plan import check_namespaces
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.decide.versions import check_recorded
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import parse_runtime
from aicr_pipeline.model.step import StepEvent


def read_bundle(
    step: StepEvent, config: ClusterConfig, inbox: Inbox, ledger: Ledger, registry: Destination
) -> dict[str, Any]:
    """Read the bundle that the render Job pushed, whose digest is what the registry says of the run's tag.

    Returns
    -------
    dict
        ``digest`` of the artifact; ``releases``: ``[{"release": name}]`` in order, the Map's items; and
        ``unchecked``: the recipe's constraints that the snapshot has no measurement for.

    Raises
    ------
    PipelineError
        ``BundleInvalid``, ``AICRArtifactUnsupported``, ``AICRVersionMismatch``, ``ChartSourceUnsupported``,
        ``ContentTooLarge``; ``OverridePathUnknown`` or ``InvalidOverride``, ``KubernetesUnsupported`` or
        ``CriteriaConflict``, ``NamespaceNotAllowed``.
    """
    run, tag = str(step.input["run"]), str(step.input["rendering"]["tag"])
    wish = read_runtime_text(inbox, str(step.input["runtimeVersion"]))
    runtime = parse_runtime(wish)
    repository = registry.repository("bundles", config.cluster.name, Counters())
    digest = repository.head_manifest(tag)
    if digest is None:
        raise PipelineError(
            Reason.BundleInvalid, f"The render Job ended well, but {repository.reference}:{tag} is not there."
        )
    files = pull_files(repository, digest, "The rendered bundle")
    bundle = decide_bundle(files)
    for what, version in bundle.recorded_versions():
        check_recorded(what, version, pinned(runtime, config.aicr).version)
    check_rendered(bundle, runtime.spec.overrides)
    resolves = Resolves(ledger, run)
    snapshot = read_snapshot(resolves.snapshot() or b"")
    unchecked = check_constraints(bundle.recipe, snapshot.measurements, snapshot.kubernetes_version)
    check_namespaces(bundle, {component.name for component in config.namespaces.components})
    resolves.put_runtime(wish)
    resolves.put_bundle(bundle, digest, files[RECIPE], content_list(files))
    releases = [{"release": release.name} for release in bundle.releases]
    return {"digest": digest, "releases": releases, "unchecked": list(unchecked)}
