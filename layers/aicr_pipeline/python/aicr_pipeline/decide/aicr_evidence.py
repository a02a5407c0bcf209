"""AICR's own evidence: its chain of digests, from the statement over the manifest to every file.

Facts: AICR's ADR-007 and ``docs/spec/recipe-evidence-v1.md``, its captured output, and for the predicate
types after v1 its ``pkg/evidence/attestation``. What is not known is refused; unknown fields are ignored.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.canonical import equal, sha256
from aicr_pipeline.decide.fields import Fields, unsupported
from aicr_pipeline.decide.strict_json import read_json
from aicr_pipeline.decide.validation import read_report
from aicr_pipeline.decide.versions import check_recorded
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Of all files of an evidence together. The captured one has 128 KB.
MOST_EVIDENCE_BYTES = 8 << 20
_MOST_DOCUMENT_BYTES = 1 << 20
_STATEMENT, _MANIFEST, _SIGNED = "statement.intoto.json", "manifest.json", "attestation.intoto.jsonl"
_RECIPE, _BOM = "recipe.yaml", "bom.cdx.json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_SCHEMA = "1.0.0"
_V1, _V2, _V3 = (f"https://aicr.run/recipe-evidence/v{number}" for number in (1, 2, 3))
#: v1 is of recipes without a configuration profile, v2 of those with one; v3 is of both, and its recipe
#: digest leaves out which AICR made the recipe. ``aicr.nvidia.com`` was the domain of releases before v1.
_PROFILED: Mapping[str, bool | None] = {_V1: False, _V2: True, _V3: None}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]{64}")
#: Logs that may be published later are named ahead; they are not in the artifact.
_LOG = re.compile(r"phases/[a-z]+/logs/[^/]+")
_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_PHASES = ("deployment", "performance", "conformance")
#: What AICR's redaction takes out of a report's tests: ``ctrf.tests.omit:*``, ``…extra.allowlist``.
_REDACTED = frozenset({"message", "stdout", "extra"})


@dataclass(frozen=True)
class PhaseResult:
    """What the statement says of one phase; its digest and counts are its report's."""

    ctrf_digest: str
    passed: int
    failed: int
    skipped: int


@dataclass(frozen=True)
class AicrEvidence:
    """Evidence whose digests all hold.

    ``recipe_digest`` and ``statement_digest`` are ``sha256:<hex>``, as all digests here.
    ``validator_images`` are as AICR names them, each with a digest or an empty text.
    """

    statement: bytes
    statement_digest: str
    manifest_digest: str
    predicate_type: str
    aicr_version: str
    attested_at: str
    recipe_name: str
    recipe_digest: str
    phases: Mapping[str, PhaseResult]
    validator_images: tuple[tuple[str, str], ...]
    report: bytes
    redacted: bool


def read_aicr_evidence(files: Mapping[str, bytes], *, most_bytes: int = MOST_EVIDENCE_BYTES) -> AicrEvidence:
    """Read the files of AICR's evidence and check that each is the one the statement binds.

    Raises
    ------
    PipelineError
        ``ContentTooLarge``; ``AICRArtifactUnsupported`` for a type, version or form that is not known;
        ``RolloutFailed`` naming file and field when a digest or a count does not hold.
    """
    total = sum(map(len, files.values()))
    if total > most_bytes:
        raise PipelineError(
            Reason.ContentTooLarge, f"AICR's evidence has {total:,} bytes; {most_bytes:,} are read at most."
        )
    text = _file(files, _STATEMENT)
    statement = Fields(_json(files, _STATEMENT), _STATEMENT)
    predicate = _predicate(statement)
    manifest = predicate.inner("manifest")
    _same(manifest.text("digest"), sha256(_file(files, _MANIFEST)), _MANIFEST, "predicate.manifest.digest")
    listed = _listed(files, manifest.count("fileCount"))
    recipe = predicate.inner("recipe")
    name, digest = recipe.text("name"), recipe.text("digest")
    _check_subject(statement, name, digest)
    _check_recipe(_bound(files, listed, _RECIPE), digest, statement.text("predicateType"))
    bom = predicate.inner("bom").text("digest")
    _same(bom, sha256(_bound(files, listed, _BOM)), _BOM, "predicate.bom.digest")
    phases = _phases(files, listed, predicate.inner("phases"))
    return AicrEvidence(
        statement=text,
        statement_digest=sha256(text),
        manifest_digest=manifest.text("digest"),
        predicate_type=statement.text("predicateType"),
        aicr_version=predicate.text("aicrVersion"),
        attested_at=predicate.text("attestedAt"),
        recipe_name=name,
        recipe_digest=f"sha256:{digest}",
        phases=phases,
        validator_images=tuple(_image(item) for item in predicate.items("validatorImages")),
        report=files["ctrf/deployment.json"],
        redacted=predicate.has("redaction"),
    )


def check_same_report(evidence: AicrEvidence, report: bytes) -> None:
    """The deployment report in the evidence must be the one that the Job wrote for us.

    Compared as documents, since AICR writes both from one. Of a redacted evidence each test's message, output
    and extras are left out, and nothing else.

    Raises
    ------
    PipelineError
        ``RolloutFailed``.
    """
    leave_out: frozenset[str] = _REDACTED if evidence.redacted else frozenset()
    ours, theirs = (_without(read_report(text).document, leave_out) for text in (report, evidence.report))
    if not equal(ours, theirs):
        raise _broken(
            "ctrf/deployment.json is not the report that this rollout's validation wrote; evidence of "
            "another run does not count"
        )


def check_made_by(evidence: AicrEvidence, aicr_version: str, ran: Iterable[str]) -> None:
    """The plan's AICR made it, and names the images that its validators really ran.

    Parameters
    ----------
    aicr_version
        The plan's.
    ran
        Images of the pods that were seen, as AICR wrote them into their Jobs.

    Raises
    ------
    PipelineError
        ``AICRVersionMismatch``; ``RolloutFailed`` for an image that the evidence does not name.
    """
    check_recorded("evidence", evidence.aicr_version, aicr_version)
    named = {image for image, _ in evidence.validator_images}
    strange = sorted(set(ran) - named)
    if strange:
        raise _broken(f"predicate.validatorImages does not name {strange[0][:200]}, which a check ran")


def _predicate(statement: Fields) -> Fields:
    if statement.text("_type") != _STATEMENT_TYPE:
        raise unsupported(f"{_STATEMENT}._type", f"is {statement.text('_type')[:80]!r}")
    kind = statement.text("predicateType")
    if kind not in _PROFILED:
        raise unsupported(f"{_STATEMENT}.predicateType", f"is {kind[:80]!r}")
    predicate = statement.inner("predicate")
    if predicate.text("schemaVersion") != _SCHEMA:
        raise unsupported("predicate.schemaVersion", f"is {predicate.text('schemaVersion')[:40]!r}")
    profiled = _PROFILED[kind]
    if profiled is not None and predicate.has("profile") is not profiled:
        raise unsupported("predicate.profile", f"does not go with {kind}")
    return predicate


def _check_subject(statement: Fields, name: str, digest: str) -> None:
    if not _HEX.fullmatch(digest):
        raise unsupported("predicate.recipe.digest", "is not a SHA-256 in lower-case hex")
    subjects = statement.items("subject")
    if len(subjects) != 1:
        raise unsupported(f"{_STATEMENT}.subject", f"has {len(subjects)} entries, not one")
    if subjects[0].text("name") != f"recipe:{name}":
        raise _broken(f"{_STATEMENT}: subject[0].name is not recipe:{name[:80]}")
    _same(subjects[0].inner("digest").text("sha256"), digest, _STATEMENT, "subject[0].digest.sha256")


def _check_recipe(recipe: bytes, digest: str, kind: str) -> None:
    """The recipe in the bundle is AICR's canonical form already: its digest is that of the bytes.

    v3 leaves ``metadata.version`` out of what is hashed, whether or not it stands in the file.
    """
    found = {sha256(recipe).removeprefix("sha256:")}
    if kind == _V3:
        found.add(sha256(_without_version(recipe)).removeprefix("sha256:"))
    if digest not in found:
        raise _broken(f"{_RECIPE}: its digest is not predicate.recipe.digest")


def _without_version(recipe: bytes) -> bytes:
    """The canonical recipe without the line of ``metadata.version``; maps are sorted, indents are 4."""
    inside, kept = False, []
    for line in recipe.split(b"\n"):
        if line and not line.startswith(b" "):
            inside = line == b"metadata:"
        if inside and line.startswith(b"    version: "):
            continue
        kept.append(line)
    return b"\n".join(kept)


def _listed(files: Mapping[str, bytes], count: int) -> Mapping[str, bytes]:
    """The files that the manifest names, each as it says; nothing else may be there."""
    manifest = Fields(_json(files, _MANIFEST), _MANIFEST)
    if manifest.text("schemaVersion") != _SCHEMA:
        raise unsupported(f"{_MANIFEST}.schemaVersion", f"is {manifest.text('schemaVersion')[:40]!r}")
    entries = manifest.items("files")
    if len(entries) != count:
        raise _broken(
            f"{_MANIFEST}: it names {len(entries)} files, but predicate.manifest.fileCount is {count}"
        )
    found: dict[str, bytes] = {}
    named: set[str] = set()
    for entry in entries:
        path, digest, size = entry.text("path"), entry.text("sha256"), entry.count("size")
        if not _PATH.fullmatch(path) or path in named or path in (_STATEMENT, _MANIFEST, _SIGNED):
            raise _broken(f"{_MANIFEST}: files names {path[:80]!r}, which it may not, or twice")
        named.add(path)
        if path not in files:
            if _LOG.fullmatch(path):
                continue
            raise _broken(f"{path[:200]}: {_MANIFEST} names it, but it is missing")
        if len(files[path]) != size:
            raise _broken(f"{path[:200]}: it has {len(files[path])} bytes, {_MANIFEST} says {size}")
        _same(digest, sha256(files[path]), path, f"sha256 in {_MANIFEST}")
        found[path] = files[path]
    foreign = sorted(set(files) - named - {_STATEMENT, _MANIFEST, _SIGNED})
    if foreign:
        raise _broken(f"{foreign[0][:200]!r}: it is there, but {_MANIFEST} does not name it")
    return found


def _phases(
    files: Mapping[str, bytes], listed: Mapping[str, bytes], phases: Fields
) -> Mapping[str, PhaseResult]:
    found: dict[str, PhaseResult] = {}
    for name in phases.names():
        if name not in _PHASES:
            raise unsupported(f"predicate.phases.{name[:40]}", "is no phase that is known")
        phase, path = phases.inner(name), f"ctrf/{name}.json"
        result = PhaseResult(
            phase.text("ctrfDigest"), phase.count("passed"), phase.count("failed"), phase.count("skipped")
        )
        report = _bound(files, listed, path)
        _same(result.ctrf_digest, sha256(report), path, f"predicate.phases.{name}.ctrfDigest")
        read = read_report(report)
        for status, said in (
            ("passed", result.passed), ("failed", result.failed), ("skipped", result.skipped)
        ):  # fmt: skip
            if read.count(status) != said:
                raise _broken(
                    f"{path}: {read.count(status)} tests are {status}, but predicate.phases.{name}.{status} "
                    f"is {said}"
                )
        found[name] = result
    if "deployment" not in found:
        raise _broken("predicate.phases: it is of no deployment validation")
    loose = sorted(path for path in listed if path.startswith("ctrf/") and path[5:-5] not in found)
    if loose:
        raise _broken(f"{loose[0]}: predicate.phases does not have it")
    return found


def _image(item: Fields) -> tuple[str, str]:
    digest = item.text_or_empty("digest")
    if digest and not _DIGEST.fullmatch(digest):
        raise unsupported("predicate.validatorImages", f"has the digest {digest[:80]!r}")
    return item.text("image"), digest


def _without(report: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    results = report["results"]
    tests = [{key: value for key, value in test.items() if key not in names} for test in results["tests"]]
    return {**report, "results": {**results, "tests": tests}}


def _json(files: Mapping[str, bytes], path: str) -> Any:
    return read_json(_file(files, path), f"file {path} of AICR's evidence", most_bytes=_MOST_DOCUMENT_BYTES)


def _file(files: Mapping[str, bytes], path: str) -> bytes:
    if path not in files:
        raise unsupported(path, "is missing")
    return files[path]


def _bound(files: Mapping[str, bytes], listed: Mapping[str, bytes], path: str) -> bytes:
    """A file that the manifest names, and so the statement binds."""
    if path not in listed:
        _file(files, path)
        raise _broken(f"{path}: {_MANIFEST} does not name it")
    return listed[path]


def _same(said: str, found: str, path: str, field: str) -> None:
    if said != found:
        raise _broken(f"{path}: {field} is {said[:80]}, but it is {found}")


def _broken(problem: str) -> PipelineError:
    return PipelineError(
        Reason.RolloutFailed, f"AICR's evidence does not hold: {problem}. Start a fresh rollout."
    )
