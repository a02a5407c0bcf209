"""Serves every chart a bundle names, under the paths its publishers use.

``https://host/path`` becomes ``http://127.0.0.1:<port>/host/path``, ``oci://host/path`` becomes
``oci://127.0.0.1:<port>/host/path``; ``upstreams`` is that mapping, in the form of ``registry.upstreams``.
"""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import yaml
from aicr_pipeline.decide.chart_archive import read_chart
from aicr_pipeline.decide.chart_package import (
    MANIFEST_TYPE,
    Chart,
    digest_of,
    helm_config,
    helm_manifest,
    tag_of,
)
from aicr_pipeline.decide.versions import same
from aicr_pipeline.errors import PipelineError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from local.registry.app import RegistryApp
from local.registry.server import serving
from local.registry.store import MemoryStore
from local.upstream.standins import standin_chart


class UpstreamCharts:
    """The publishers of one machine; a context manager.

    Parameters
    ----------
    wanted:
        (source, chart, version) as the bundle's ``upstream.env`` files name them. For OCI sources either
        the source is the whole ``oci://…`` address, or it is empty and the chart is.
    charts_dir:
        A folder of real ``*.tgz`` archives. One whose name and version are wanted is served in place of a
        stand-in.

    Raises
    ------
    PipelineError
        For an archive of ``charts_dir`` that the pipeline would refuse.
    """

    def __init__(self, wanted: Iterable[tuple[str, str, str]], charts_dir: Path | None = None) -> None:
        self._archives = _read_folder(charts_dir) if charts_dir else []
        self._files: dict[str, bytes] = {}
        self._indexes: dict[str, dict[str, list[dict[str, object]]]] = {}
        self._store = MemoryStore()
        self._sources: set[str] = set()
        self._port = 0
        for source, chart, version in wanted:
            self._add(source, chart, version)
        routes = [Mount("/v2", self._registry()), Route("/{path:path}", self._file, methods=["GET", "HEAD"])]
        self._serving = serving(Starlette(routes=routes))

    @property
    def upstreams(self) -> dict[str, str]:
        """Each publisher's address to ours, for ``registry.upstreams``."""
        host = f"127.0.0.1:{self._port}"
        found = {}
        for source in sorted(self._sources):
            url = urlsplit(source)
            scheme = "oci" if url.scheme == "oci" else "http"
            found[source] = f"{scheme}://{host}/{url.netloc}{url.path}".rstrip("/")
        return found

    def __enter__(self) -> Self:
        self._port = self._serving.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.__exit__(kind, error, trace)

    def _add(self, source: str, chart: str, version: str) -> None:
        if chart.startswith("oci://"):
            source, chart = chart, chart.rstrip("/").rpartition("/")[2]
        elif source.startswith("oci://") and source.rstrip("/").rpartition("/")[2] != chart:
            source = f"{source.rstrip('/')}/{chart}"
        self._sources.add(source.rstrip("/"))
        url = urlsplit(source)
        place = f"{url.netloc}{url.path}".strip("/")
        archive, about = self._archive(chart, version)
        if url.scheme == "oci":
            self._put_image(place, archive, about, version)
            return
        name = f"{about.name}-{about.version}.tgz"
        self._files[f"{place}/{name}"] = archive
        listed = self._indexes.setdefault(place, {}).setdefault(chart, [])
        entry = {**about.metadata, "digest": digest_of(archive).removeprefix("sha256:"), "urls": [name]}
        if entry not in listed:
            listed.append(entry)

    def _archive(self, chart: str, version: str) -> tuple[bytes, Chart]:
        for content, about in self._archives:
            if about.name == chart and same(about.version, version):
                return content, about
        content = standin_chart(chart, version)
        return content, read_chart(io.BytesIO(content), f"the stand-in of {chart}")

    def _put_image(self, place: str, archive: bytes, about: Chart, version: str) -> None:
        config = helm_config(about.metadata)
        for blob in (config, archive):
            self._store.put_blob(place, blob)
        manifest = helm_manifest((digest_of(config), len(config)), (digest_of(archive), len(archive)))
        self._store.put_manifest(place, tag_of(version), manifest, MANIFEST_TYPE)

    def _registry(self) -> Starlette:
        app = RegistryApp(self._store, None)
        return Starlette(routes=[Route("/{path:path}", app.answer, methods=["GET", "HEAD", "PUT", "POST"])])

    async def _file(self, request: Request) -> Response:
        path = request.path_params["path"]
        if path in self._files:
            return Response(self._files[path], media_type="application/gzip")
        place, _, name = path.rpartition("/")
        if name == "index.yaml" and place in self._indexes:
            index = {"apiVersion": "v1", "entries": self._indexes[place], "generated": "1970-01-01T00:00:00Z"}
            # Through JSON: the same objects listed twice would become YAML aliases.
            text = yaml.safe_dump(json.loads(json.dumps(index)), sort_keys=True)
            return Response(text, media_type="text/yaml")
        return PlainTextResponse(f"nothing at {path}\n", 404)


def _read_folder(folder: Path) -> list[tuple[bytes, Chart]]:
    found = []
    for path in sorted(folder.glob("*.tgz")):
        content = path.read_bytes()
        try:
            found.append((content, read_chart(io.BytesIO(content), path.name)))
        except PipelineError as error:
            raise PipelineError(
                error.reason, f"{error.message} (CHARTS names the folder {folder})"
            ) from error
    return found
