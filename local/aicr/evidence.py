"""The evidence of a validation: a summary of what was checked, its statement and the pointer to both.

Minimised as the real command does by default: no node names, no labels, no container output.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.aicr import AICR_VERSION
from local.aicr.documents import to_json, to_yaml
from local.aicr.recipe import name_of

PREDICATE_TYPE = "https://aicr.run/recipe-evidence/v1"
VALIDATOR_IMAGES = tuple(
    f"ghcr.io/nvidia/aicr-validators/{phase}:{AICR_VERSION}"
    for phase in ("conformance", "deployment", "performance")
)
_KEPT = {"OS": ("release",), "GPU": ("hardware",), "NodeTopology": ("summary",), "K8s": ("server", "node")}
_DROPPED = ("provider-id", "source-node", "container-runtime-id")
_MEDIA = {
    "json": "application/json",
    "yaml": "application/yaml",
    "cdx.json": "application/vnd.cyclonedx+json",
}


@dataclass(frozen=True)
class Evidence:
    """The files of ``summary-bundle/`` and what names them."""

    recipe_name: str
    attested_at: str
    files: dict[str, bytes]
    manifest_digest: str


def build(
    recipe: dict[str, Any], snapshot: dict[str, Any], report: dict[str, Any], attested_at: str
) -> Evidence:
    """The evidence of one run.

    Parameters
    ----------
    recipe, snapshot, report
        The documents of the run; the report is CTRF.
    attested_at
        RFC 3339, whole seconds.
    """
    name = name_of(recipe)
    bom = _bom(recipe, name, attested_at)
    payload = {
        "bom.cdx.json": to_json(bom).encode(),
        "ctrf/deployment.json": to_json(_minimal_report(report)).encode(),
        "recipe.yaml": to_yaml(recipe).encode(),
        "snapshot.yaml": to_yaml(_minimal_snapshot(snapshot)).encode(),
    }
    manifest = to_json(
        {"schemaVersion": "1.0.0", "files": [_entry(*item) for item in sorted(payload.items())]}
    )
    digest = _digest(manifest.encode())
    recipe_digest = hashlib.sha256(payload["recipe.yaml"]).hexdigest()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": f"recipe:{name}", "digest": {"sha256": recipe_digest}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "schemaVersion": "1.0.0",
            "aicrVersion": AICR_VERSION,
            "attestedAt": attested_at,
            "validatorCatalogVersion": "1.0.0",
            "validatorImages": [{"digest": "", "image": image} for image in VALIDATOR_IMAGES],
            "recipe": {"name": name, "digest": recipe_digest},
            "fingerprint": snapshot.get("fingerprint") or {},
            "criteriaMatch": _match(recipe, snapshot),
            "phases": {"deployment": _phase(report, _digest(payload["ctrf/deployment.json"]))},
            "bom": {
                "format": "CycloneDX",
                "version": "1.6",
                "digest": _digest(payload["bom.cdx.json"]),
                "imageCount": sum(1 for item in bom["components"] if item["type"] == "container"),
            },
            "manifest": {"digest": digest, "fileCount": len(payload)},
            "redaction": {
                "policy": "minimal",
                "version": "v2",
                "applied": [
                    "ctrf.tests.omit:message",
                    "ctrf.tests.omit:stdout",
                    "snapshot.header.allowlist",
                    "snapshot.measurements.allowlist",
                ],
            },
        },
    }
    files = {
        **payload,
        "manifest.json": manifest.encode(),
        "statement.intoto.json": json.dumps(statement, separators=(",", ":"), sort_keys=True).encode(),
    }
    return Evidence(name, attested_at, files, digest)


def write(evidence: Evidence, folder: Path) -> None:
    """Write ``summary-bundle/`` below the folder."""
    for name, content in evidence.files.items():
        path = folder / "summary-bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_pointer(evidence: Evidence, folder: Path, *, reference: str, digest: str) -> None:
    """Write ``pointer.yaml``: where the pushed bundle is, without a signer."""
    pointer = {
        "schemaVersion": "1.0.0",
        "recipe": evidence.recipe_name,
        "attestations": [
            {
                "attestedAt": evidence.attested_at,
                "bundle": {"digest": digest, "oci": reference, "predicateType": PREDICATE_TYPE},
            }
        ],
    }
    (folder / "pointer.yaml").write_text(to_yaml(pointer))


def _entry(path: str, content: bytes) -> dict[str, Any]:
    suffix = path.partition(".")[2]
    return {"path": path, "size": len(content), "sha256": _digest(content), "mediaType": _MEDIA[suffix]}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _minimal_report(report: dict[str, Any]) -> dict[str, Any]:
    kept = deepcopy(report)
    for test in kept["results"]["tests"]:
        for field in ("message", "stdout"):
            test.pop(field, None)
    return kept


def _minimal_snapshot(snapshot: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in snapshot.items() if key not in ("metadata", "measurements")}
    kept["metadata"] = {
        key: value
        for key, value in (snapshot.get("metadata") or {}).items()
        if key in ("timestamp", "version")
    }
    kept["measurements"] = [
        {"type": item["type"], "subtypes": subtypes}
        for item in snapshot.get("measurements") or []
        if (subtypes := _allowed(item))
    ]
    return kept


def _allowed(measurement: dict[str, Any]) -> list[dict[str, Any]]:
    names = _KEPT.get(measurement["type"], ())
    return [
        {
            "subtype": entry["subtype"],
            "data": {key: value for key, value in (entry.get("data") or {}).items() if key not in _DROPPED},
        }
        for entry in measurement.get("subtypes") or []
        if entry["subtype"] in names
    ]


def _phase(report: dict[str, Any], digest: str) -> dict[str, Any]:
    summary = report["results"]["summary"]
    return {"ctrfDigest": digest, **{key: summary[key] for key in ("passed", "failed", "skipped")}}


def _match(recipe: dict[str, Any], snapshot: dict[str, Any]) -> dict[str, Any]:
    fingerprint = snapshot.get("fingerprint") or {}
    dimensions = []
    for name in ("service", "accelerator", "os"):
        wanted = recipe["criteria"].get(name, "")
        provided = str((fingerprint.get(name) or {}).get("value", ""))
        dimensions.append(
            {
                "dimension": name,
                "recipeRequires": wanted,
                "fingerprintProvides": provided,
                "match": "matched" if wanted == provided else "mismatched",
            }
        )
    for name in ("intent", "platform"):
        dimensions.append(
            {"dimension": name, "recipeRequires": recipe["criteria"].get(name, ""), "match": "unknown"}
        )
    return {
        "matched": all(item["match"] != "mismatched" for item in dimensions),
        "perDimension": dimensions,
    }


def _bom(recipe: dict[str, Any], name: str, timestamp: str) -> dict[str, Any]:
    """Components and validator images as CycloneDX; the serial number follows from the content."""
    components: list[dict[str, Any]] = [
        {
            "bom-ref": f"{name}/{item['name']}",
            "type": "application",
            "name": item["name"],
            "version": str(item.get("version", "")),
            "properties": [
                {"name": "aicr:helm:repository", "value": str(item.get("source", ""))},
                {"name": "aicr:helm:chart", "value": str(item.get("chart", ""))},
                {"name": "aicr:helm:namespace", "value": str(item.get("namespace", ""))},
            ],
        }
        for item in recipe["componentRefs"]
    ]
    components += [{"bom-ref": image, "type": "container", "name": image} for image in VALIDATOR_IMAGES]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))}",
        "version": 1,
        "metadata": {
            "timestamp": timestamp,
            "tools": {"components": [{"type": "application", "name": "aicr", "version": AICR_VERSION}]},
            "component": {"bom-ref": name, "type": "application", "name": name, "version": AICR_VERSION},
        },
        "components": components,
    }
