"""What a resolve leaves in the ledger under ``resolves/<run>/`` for the states after it."""

import base64
import json
from typing import Any

from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.decide.bundle import Bundle, BundledRelease
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.plan import PlannedChart, UpstreamSource
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.upgrades import ComponentRecord


class Resolves:
    """Documents of one run. A second writer must bring the same bytes."""

    def __init__(self, ledger: Ledger, run: str) -> None:
        self._ledger = ledger
        self._base = f"resolves/{run}"

    @property
    def snapshot_key(self) -> str:
        return f"{self._base}/snapshot.yaml"

    def snapshot(self) -> bytes | None:
        """The snapshot that the sweeper kept."""
        return self._ledger.get(self.snapshot_key)

    def put_runtime(self, text: bytes) -> None:
        """Keep the wish as it was written: its version in the inbox may be gone when somebody asks."""
        self._ledger.put_same(f"{self._base}/runtime.yaml", text, "application/yaml")

    def put_bundle(self, bundle: Bundle, oci_digest: str, recipe: bytes, content: bytes) -> None:
        """Keep what was read from the bundle, its recipe as AICR wrote it, and its content list."""
        document = {
            "bundleDigest": oci_digest,
            "recipeDigest": bundle.recipe_digest,
            "recipeName": bundle.recipe_name,
            "aicrVersion": bundle.aicr_version,
            "contentDigest": bundle.content_digest,
            "info": bundle.info,
            "releases": [_wire(release) for release in bundle.releases],
            "upgrades": [record.wire() for record in bundle.upgrades],
        }
        self._ledger.put_same(f"{self._base}/recipe.yaml", recipe, "application/yaml")
        self._ledger.put_same(f"{self._base}/content.sha256", content, "text/plain")
        self._ledger.put_same(f"{self._base}/bundle.json", json.dumps(document, sort_keys=True).encode())

    def bundle(self) -> tuple[Bundle, str]:
        """The bundle, and the digest of its artifact."""
        data = self._ledger.get_json(f"{self._base}/bundle.json")
        return Bundle(
            recipe={},
            recipe_digest=data["recipeDigest"],
            recipe_name=data["recipeName"],
            aicr_version=data["aicrVersion"],
            content_digest=data["contentDigest"],
            info=data["info"],
            releases=tuple(_read(release) for release in data["releases"]),
            upgrades=tuple(_record(record) for record in data.get("upgrades", [])),
        ), data["bundleDigest"]

    def put_chart(self, release: str, chart: PlannedChart) -> None:
        """Keep what was mirrored for a release."""
        body = json.dumps(chart.wire(), sort_keys=True).encode()
        self._ledger.put_same(f"{self._base}/charts/{release}.json", body)

    def chart(self, release: str) -> PlannedChart:
        """What was mirrored for a release."""
        return PlannedChart.model_validate(self._ledger.get_json(f"{self._base}/charts/{release}.json"))


def _wire(release: BundledRelease) -> dict[str, Any]:
    return {
        "name": release.name,
        "component": release.component,
        "namespace": release.namespace,
        "folder": release.folder,
        "source": release.source.wire() if release.source else None,
        "values": release.values,
        "files": {name: base64.b64encode(data).decode() for name, data in release.files.items()},
    }


def _record(data: dict[str, Any]) -> ComponentRecord:
    return parse(ComponentRecord, data, Reason.PlanUnreadable, "an upgrade record that the resolve kept")


def _read(data: dict[str, Any]) -> BundledRelease:
    return BundledRelease(
        name=data["name"],
        component=data["component"],
        namespace=data["namespace"],
        folder=data["folder"],
        source=UpstreamSource.model_validate(data["source"]) if data["source"] else None,
        values=data["values"],
        files={name: base64.b64decode(text) for name, text in data["files"].items()},
    )
