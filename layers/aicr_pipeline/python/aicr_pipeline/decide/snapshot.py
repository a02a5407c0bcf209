"""What a snapshot of the cluster says, and whether it can be used."""

from dataclasses import dataclass, field
from typing import Any

from aicr_pipeline.decide.artifacts import check_artifact
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import Criteria

#: Without these AICR did not reach the cluster's API, though it exits 0.
_NEEDED = ("service", "k8sVersion", "nodeCount")


@dataclass(frozen=True)
class Snapshot:
    """The parts of a snapshot that decisions use. Values AICR could not know are None."""

    digest: str
    aicr_version: str
    service: str | None
    accelerator: str | None
    os: str | None
    kubernetes_version: str
    node_count: int
    gpu_driver_state: str | None
    #: As AICR wrote them, in no order that lasts.
    measurements: list[Any] = field(default_factory=list, repr=False)


def read_snapshot(text: bytes) -> Snapshot:
    """Read ``snapshot.yaml``.

    Raises
    ------
    PipelineError
        ``AICRArtifactUnsupported`` for another kind or apiVersion; ``SnapshotIncomplete`` when AICR
        did not see the cluster: it then exits 0 with an empty fingerprint.
    """
    data = yaml.load(text, Reason.AICRArtifactUnsupported, "the snapshot", most_bytes=8 << 20)
    if not isinstance(data, dict):
        raise PipelineError(Reason.AICRArtifactUnsupported, "The snapshot is not a mapping.")
    check_artifact(data, "Snapshot", "The snapshot")
    fingerprint = data.get("fingerprint")
    missing = [name for name in _NEEDED if not _value(fingerprint, name)]
    nodes = _count(_value(fingerprint, "nodeCount"))
    if nodes is None and "nodeCount" not in missing:
        missing.append("nodeCount")
    if missing:
        raise PipelineError(
            Reason.SnapshotIncomplete,
            f"The snapshot lacks {', '.join(missing)}: AICR could not read the cluster's API. "
            "Check the rights of ServiceAccount aicr-snapshot.",
        )
    metadata, measurements = data.get("metadata"), data.get("measurements")
    return Snapshot(
        digest=sha256(text),
        aicr_version=str(metadata.get("version", "")) if isinstance(metadata, dict) else "",
        service=_text(fingerprint, "service"),
        accelerator=_text(fingerprint, "accelerator"),
        os=_text(fingerprint, "os"),
        kubernetes_version=str(_value(fingerprint, "k8sVersion")),
        node_count=nodes or 0,
        gpu_driver_state=_driver(measurements),
        measurements=measurements if isinstance(measurements, list) else [],
    )


def _count(value: Any) -> int | None:
    """A number of nodes as YAML has it, a number or its text; None for what cannot be one."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None
    return value if isinstance(value, int) and 0 < value < 10**9 else None


def check_criteria(snapshot: Snapshot, criteria: Criteria) -> None:
    """Before the install: what the snapshot knows must not contradict the wish.

    Raises
    ------
    PipelineError
        ``CriteriaConflict`` naming each field with both values.
    """
    _compare(
        [
            (name, wanted, found)
            for name, wanted, found in _pairs(snapshot, criteria)
            if found is not None and found != wanted
        ]
    )


def confirm_criteria(snapshot: Snapshot, criteria: Criteria) -> None:
    """After the install: the snapshot must know every criterion, and agree.

    Raises
    ------
    PipelineError
        ``CriteriaConflict``; an unknown value is a conflict too.
    """
    _compare([(name, wanted, found) for name, wanted, found in _pairs(snapshot, criteria) if found != wanted])


def _pairs(snapshot: Snapshot, criteria: Criteria) -> list[tuple[str, str, str | None]]:
    return [
        ("service", criteria.service, snapshot.service),
        ("accelerator", criteria.accelerator, snapshot.accelerator),
        ("os", criteria.os, snapshot.os),
    ]


def _compare(conflicts: list[tuple[str, str, str | None]]) -> None:
    if conflicts:
        named = "; ".join(
            f"spec.criteria.{name} is {wanted!r}, the snapshot says {found or 'nothing'}"
            for name, wanted, found in conflicts
        )
        raise PipelineError(Reason.CriteriaConflict, f"{named}.")


def _value(fingerprint: Any, name: str) -> Any:
    entry = fingerprint.get(name) if isinstance(fingerprint, dict) else None
    value = entry.get("value") if isinstance(entry, dict) else entry
    return value if isinstance(value, str | int) and value not in ("", "unknown", "any") else None


def _text(fingerprint: Any, name: str) -> str | None:
    value = _value(fingerprint, name)
    return str(value) if value is not None else None


def _driver(measurements: Any) -> str | None:
    for measurement in measurements if isinstance(measurements, list) else []:
        subtypes = measurement.get("subtypes") if isinstance(measurement, dict) else None
        for subtype in subtypes if isinstance(subtypes, list) else []:
            data = subtype.get("data") if isinstance(subtype, dict) else None
            if isinstance(data, dict) and "driver-loaded" in data:
                return "loaded" if data["driver-loaded"] in (True, "true") else "absent"
    return None
