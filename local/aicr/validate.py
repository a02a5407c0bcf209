"""``validate``: the deployment phase, a Job for each check, then the CTRF report and the evidence."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.aicr import AICR_VERSION, evidence
from local.aicr.artifact import Reference, attach, pack, push, read_folder
from local.aicr.checks import Result, checks_of, report
from local.aicr.cluster import Cluster
from local.aicr.constraints import measured, satisfied
from local.aicr.documents import now, read_document, write_document
from local.aicr.errors import AicrError, Code, log
from local.aicr.launcher import Launch
from local.aicr.release import names_its_account


@dataclass(frozen=True)
class Settings:
    """The flags of one call."""

    recipe: str
    snapshot: str
    phases: tuple[str, ...]
    namespace: str
    attestation: str | None
    push: str | None
    no_sign: bool
    no_cleanup: bool
    signing_key: str | None
    tlog_upload: bool
    plain_http: bool
    output: str | None
    kubeconfig: str | None


def run(settings: Settings) -> None:
    """Check the constraints, run the checks, write the report and the evidence, then end as they did.

    Raises
    ------
    AicrError
        INVALID_REQUEST for another phase than deployment, for a push that would be signed otherwise than with
        a key, or when a constraint is not met; INTERNAL after everything is written when a check failed.
    """
    if settings.phases != ("deployment",):
        raise AicrError(Code.INVALID_REQUEST, "the stand-in runs --phase deployment only")
    check_signing(settings)
    recipe, _ = read_document(settings.recipe, settings.kubeconfig)
    snapshot, _ = read_document(settings.snapshot, settings.kubeconfig)
    check_constraints(recipe, snapshot)
    start = _milliseconds()
    cluster = Cluster.from_environment(settings.kubeconfig)
    launch = Launch(cluster, settings.namespace, AICR_VERSION, cleanup=not settings.no_cleanup)
    results = launch.run(recipe, snapshot, checks_of(recipe))
    document = report(results, AICR_VERSION, start, _milliseconds(), now())
    write_document(settings.output, document, output_format="json", kubeconfig=settings.kubeconfig)
    if settings.attestation:
        _emit(settings, recipe, snapshot, document, settings.attestation)
    if failed(results):
        raise AicrError(Code.INTERNAL, "validation failed: a phase did not pass")


def check_signing(settings: Settings) -> None:
    """Keyless signing wants the Sigstore services; a key only a public log, and only when asked.

    Raises
    ------
    AicrError
        INVALID_REQUEST; also for a key with a version before 1.1.0, which does not know the flag.
    """
    if settings.signing_key is None:
        if settings.push and not settings.no_sign:
            raise AicrError(
                Code.INVALID_REQUEST, "the stand-in signs with a key only: --signing-key, or --no-sign"
            )
        return
    if not names_its_account(AICR_VERSION):
        raise AicrError(Code.INVALID_REQUEST, "flag provided but not defined: -signing-key")
    if settings.no_sign or not settings.push or not settings.attestation:
        raise AicrError(
            Code.INVALID_REQUEST, "--signing-key needs --emit-attestation and --push, and no --no-sign"
        )
    if settings.tlog_upload:
        raise AicrError(Code.UNAVAILABLE, "the transparency log cannot be reached from the local engine")


def failed(results: list[Result]) -> bool:
    """True when a check failed or ended otherwise."""
    return any(result.status in ("failed", "other") for result in results)


def check_constraints(recipe: dict[str, Any], snapshot: dict[str, Any]) -> None:
    """The readiness pre-flight: every constraint of the recipe on the snapshot, closed on what is missing."""
    for item in recipe.get("constraints") or []:
        actual = measured(snapshot, item["name"])
        if actual is None or not satisfied(actual, item["value"]):
            raise AicrError(
                Code.INVALID_REQUEST,
                f"constraint {item['name']} not met: wanted {item['value']}, found {actual or 'nothing'}",
            )


def _emit(
    settings: Settings,
    recipe: dict[str, Any],
    snapshot: dict[str, Any],
    document: dict[str, Any],
    attestation: str,
) -> None:
    folder = Path(attestation)
    built = evidence.build(recipe, snapshot, document, now())
    evidence.write(built, folder)
    log("evidence bundle built", recipe=built.recipe_name, manifest=built.manifest_digest)
    if not settings.push:
        return
    tag = f"{built.recipe_name}-{built.manifest_digest.removeprefix('sha256:')[:12]}"
    reference = Reference.parse(settings.push, tag)
    artifact = pack(
        read_folder(folder / "summary-bundle"),
        "AICR Recipe Evidence",
        "Evidence bundle of the local engine's stand-in (recipe-evidence/v1).",
    )
    scheme = "http" if settings.plain_http else "https"
    push(artifact, reference, scheme=scheme)
    if settings.signing_key is not None:
        from local.aicr import signing  # boto3 costs a second

        bundle = signing.sigstore_bundle(
            signing.about(built.files["statement.intoto.json"], artifact.digest), settings.signing_key
        )
        attach(bundle, signing.BUNDLE_TYPE, artifact, reference, scheme=scheme)
        log("evidence bundle pushed and signed", reference=reference, digest=artifact.digest)
    evidence.write_pointer(built, folder, reference=str(reference), digest=artifact.digest)
    if settings.signing_key is None:
        log("evidence bundle pushed unsigned", reference=reference, digest=artifact.digest)


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
