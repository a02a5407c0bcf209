"""State "Mirror chart", once per release: the chart's exact bytes go into the cluster's own registry."""

from typing import Any

from aicr_pipeline.adapters import mirror
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.resolves import Resolves
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import PlannedChart
from aicr_pipeline.model.step import StepEvent

#: Of a held chart's message: hostile ones are long, and 500 of them must fit a state together (256 KiB).
_MOST_CHARACTERS = 350


def mirror_chart(step: StepEvent, ledger: Ledger, registry: Destination) -> dict[str, Any]:
    """Mirror one release's chart, or pack and push its wrapper.

    A chart that is refused is *held*: the others go on, and "Write plan" names all that are held.

    Returns
    -------
    dict
        ``release``, ``status`` (``mirrored``, ``unchanged`` or ``held``), ``requests``, ``bytes``, and
        ``reason`` with ``message`` when held.
    """
    name = str((step.item or {})["release"])
    resolves = Resolves(ledger, str(step.input["run"]))
    bundle, _ = resolves.bundle()
    release = next(release for release in bundle.releases if release.name == name)
    try:
        if release.source is None:
            result = mirror.mirror_wrapper(name, release.files, registry)
        else:
            result = mirror.mirror_chart(release.source, registry)
    except PipelineError as error:
        if error.retry:
            raise
        held = {"release": name, "status": "held", "requests": 0, "bytes": 0}
        return held | {"reason": str(error.reason), "message": error.message[:_MOST_CHARACTERS]}
    chart = PlannedChart(
        name=result.chart_name,
        version=result.chart_version,
        content_digest=result.content_digest,
        manifest_digest=result.manifest_digest,
    )
    resolves.put_chart(name, chart)
    status = "mirrored" if result.pushed else "unchanged"
    return {"release": name, "status": status, "requests": result.requests, "bytes": result.bytes}
