"""What the mirror's tests share: sources, publishers, a destination as a cluster configures it."""

import io
import json
import uuid
from pathlib import Path

from aicr_pipeline.adapters.chart_sources import plain_hosts
from aicr_pipeline.adapters.mirror import Destination, MirrorResult
from aicr_pipeline.decide.chart_package import (
    CONTENT_TYPE,
)
from aicr_pipeline.model.config import Registry as RegistryConfig
from aicr_pipeline.model.plan import UpstreamSource

from local.upstream import UpstreamCharts
from tests.functional.registry.conftest import Registry, patient

REPO = "https://charts.example.com/stable"


def chart_name() -> str:
    return f"chart-{uuid.uuid4().hex[:8]}"


def indexed(chart: str, version: str = "1.2.3") -> UpstreamSource:
    return UpstreamSource(chart=chart, repo=REPO, version=version)


def in_registry(chart: str, version: str = "1.2.3") -> UpstreamSource:
    return UpstreamSource(chart=f"oci://ghcr.example/org/{chart}", repo="", version=version)


def upstream(*sources: UpstreamSource, charts_dir: Path | None = None) -> UpstreamCharts:
    return UpstreamCharts([(one.repo, one.chart, one.version) for one in sources], charts_dir)


def destination(registry: Registry, up: UpstreamCharts) -> Destination:
    config = RegistryConfig.model_validate(
        {"repository": f"oci://{registry.host}/aicr/demo", "plainHttp": True, "upstreams": up.upstreams}
    )
    transport = patient(*plain_hosts(config)).transport
    return Destination(config.host, config.prefix, transport, registry.credentials, config.upstreams)


def pushed(registry: Registry, result: MirrorResult) -> tuple[dict[str, object], bytes]:
    """The manifest and the archive that are in the registry now."""
    repository = registry.repository(result.repository)
    manifest = repository.get_manifest(result.tag)
    assert manifest is not None
    assert manifest.digest == result.manifest_digest
    document = json.loads(manifest.content)
    layer = next(part for part in document["layers"] if part["mediaType"] == CONTENT_TYPE)
    sink = io.BytesIO()
    repository.get_blob(layer["digest"], layer["size"], sink)
    assert layer["digest"] == result.content_digest
    return document, sink.getvalue()
