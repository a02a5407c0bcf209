"""``OUT/summary.json`` and the documents beside it: what a run did, from the ledger and the histories."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from aicr_pipeline.adapters.aicr_artifact import FolderArtifacts, RegistryArtifacts
from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.adapters.ledger_folder import LedgerFolder
from aicr_pipeline.adapters.registry import Repository, parse_reference
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.decide.dsse import read_envelope
from aicr_pipeline.decide.verify import pem
from aicr_pipeline.evidence_pack import BLOBS, write_archive
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.rollout import rollout_key
from aicr_pipeline.qualification import RUNNING_FILE

from local.pipeline import LocalPipeline
from local.progress import Progress

#: Of a rollout's evidence, in the folder of the run.
ARCHIVE = "evidence-pack.tar.gz"


def refused(reason: str, message: str, seconds: float) -> dict[str, Any]:
    """The summary of a run that ended before there was a rollout."""
    return {
        "outcome": "Stalled",
        "reason": reason,
        "message": message,
        "rollout": None,
        "planDigest": None,
        "steps": [],
        "approval": None,
        "validation": None,
        "evidence": None,
        "execution": {},
        "seconds": round(seconds, 2),
    }


def summarize(
    pipeline: LocalPipeline, resolve: Progress | None, rollout: Progress | None, out: Path, seconds: float
) -> dict[str, Any]:
    """Write the ledger, the plan, the evidence envelope and the public key to ``out``; return the summary."""
    _keep_ledger(pipeline, out / "ledger")
    (out / RUNNING_FILE).write_text(json.dumps(pipeline.running().wire(), indent=2))
    _keep_mails(pipeline, out / "mails")
    executions = {
        name: {
            "name": found.name,
            "status": found.status,
            "transitions": found.transitions,
            "historyEvents": found.events,
        }
        for name, found in (("resolve", resolve), ("rollout", rollout))
        if found is not None
    }
    mirrored = ((resolve.output or {}).get("mirror") or []) if resolve else []
    mirror = {
        "charts": len(mirrored),
        "pushed": sum(1 for chart in mirrored if chart["status"] == "mirrored"),
        "requests": sum(chart["requests"] for chart in mirrored),
        "bytes": sum(chart["bytes"] for chart in mirrored),
    }
    if rollout is None:
        announcement = ((resolve.output or {}).get("announcement") or {}) if resolve else {}
        if "because" in announcement:
            found = refused("Paused", f"The plan is not announced: {announcement['because']}.", seconds)
            found["outcome"] = "Paused" if announcement["event"] == "Plan Paused" else "Unchanged"
        else:
            reason = (resolve.error if resolve else None) or "Resolving"
            message = (resolve.cause if resolve else None) or "The resolve did not lead to a rollout."
            found = refused(reason, message, seconds)
        found["planDigest"] = ((resolve.output or {}).get("plan") or {}).get("digest") if resolve else None
        return found | {"execution": executions, "mirror": mirror}
    return _of_rollout(pipeline, rollout, out, seconds) | {"execution": executions, "mirror": mirror}


def _keep_ledger(pipeline: LocalPipeline, folder: Path) -> None:
    """The ledger as ``aws s3 sync`` leaves it, for the commands that read one: times are the objects' own."""
    for part in ("plans", "resolves", "rollouts", "evidence"):
        shutil.rmtree(folder / part, ignore_errors=True)
    shutil.rmtree(folder.parent / BLOBS, ignore_errors=True)
    s3, bucket = pipeline.aws.client("s3"), pipeline.aws.outputs["LedgerBucket"]
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for found in page.get("Contents", []):
            file, written = folder / found["Key"], found["LastModified"].timestamp()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(pipeline.ledger(found["Key"]) or b"")
            os.utime(file, (written, written))


def _keep_mails(pipeline: LocalPipeline, folder: Path) -> None:
    """What people were sent, a file for each; their links end with the run."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, mail in enumerate(pipeline.aws.messages, 1):
        to = mail.topic_arn.rpartition(":")[2]
        text = f"To: {to}\nSubject: {mail.subject}\nDate: {mail.time.isoformat()}\n\n{mail.message}"
        (folder / f"{number:02}-{to}.txt").write_text(text)


def _of_rollout(pipeline: LocalPipeline, progress: Progress, out: Path, seconds: float) -> dict[str, Any]:
    name = progress.name
    outcome = _json(pipeline, rollout_key(name, "outcome")) or {
        "outcome": "Stalled",
        "reason": progress.error or "NotReady",
        "message": progress.cause or "The execution did not end.",
    }
    rollout = _json(pipeline, rollout_key(name, "rollout")) or {}
    decision = _json(pipeline, rollout_key(name, "decision")) or _json(pipeline, rollout_key(name, "bypass"))
    report = _json(pipeline, f"rollouts/{name}/validation.json")
    plan = pipeline.ledger(plan_key(rollout["toPlan"])) or b"{}"
    (out / "plan.json").write_bytes(plan)
    return {
        "outcome": outcome["outcome"],
        "reason": outcome["reason"],
        "message": outcome["message"],
        "rollout": name,
        "planDigest": rollout["toPlan"],
        "steps": list(_steps(json.loads(plan), progress)),
        "approval": _approval(decision),
        "validation": _validation(report),
        "evidence": _evidence(pipeline, name, out),
        "seconds": round(seconds, 2),
    }


def _steps(plan: dict[str, Any], progress: Progress) -> Any:
    for release in plan["desiredState"]["releases"]:
        step = progress.steps.get(release["name"])
        yield {
            "release": release["name"],
            "namespace": release["namespace"],
            "action": step.action if step else None,
            "chartDigest": release["chart"]["contentDigest"],
            "manifestDigest": release["chart"]["manifestDigest"],
            "seconds": round(step.seconds, 2) if step and step.seconds is not None else None,
        }


def _approval(decision: dict[str, Any] | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {
        "by": ", ".join(decision["by"]),
        "decision": decision["decision"],
        "identity": decision["identity"],
        "reason": decision["reason"],
        "at": decision["at"],
    }


def _validation(report: dict[str, Any] | None) -> dict[str, int] | None:
    if report is None:
        return None
    summary = report["results"]["summary"]
    return {name: summary[name] for name in ("passed", "failed", "skipped", "other")}


def _evidence(pipeline: LocalPipeline, rollout: str, out: Path) -> dict[str, str] | None:
    pointer = _json(pipeline, rollout_key(rollout, "binding"))
    if pointer is None:
        return None
    path, key = out / "evidence.intoto.json", out / "public-key.pem"
    path.write_bytes(pipeline.ledger(pointer["key"]) or b"")
    kms = pipeline.aws.client("kms")
    key.write_bytes(pem(kms.get_public_key(KeyId=pipeline.aws.outputs["SigningKey"])["PublicKey"]))
    return {
        "path": str(path),
        "publicKey": str(key),
        "fingerprint": pointer["fingerprint"],
        "archive": str(_archive(pipeline, rollout, path.read_bytes(), out)),
    }


def _archive(pipeline: LocalPipeline, rollout: str, sealed: bytes, out: Path) -> Path:
    """What an auditor gets. The registry ends with the run, so AICR's evidence is kept beside the ledger."""
    user, password, _ = pipeline.registry.issuer.issue()
    transport = Transport(frozenset({pipeline.registry.host}))

    def repository(address: str) -> Repository:
        return Repository(transport, parse_reference(address), FixedCredentials(user, password))

    kept = FolderArtifacts(out / BLOBS)
    bound = json.loads(read_envelope(sealed).payload)["predicate"].get("aicrEvidence")
    if bound is not None:
        found = RegistryArtifacts(repository).get(bound["reference"], signed=bound["signed"])
        if found is not None:
            kept.keep(bound["reference"], found)
    file = out / ARCHIVE
    write_archive(LedgerFolder(out / "ledger"), rollout, kept, None, file)
    return file


def _json(pipeline: LocalPipeline, key: str) -> Any:
    text = pipeline.ledger(key)
    return None if text is None else json.loads(text)
