"""AICR's evidence: the captured ones hold, and whatever is changed in them is found and named."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.aicr_evidence import check_made_by, check_same_report, read_aicr_evidence
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import refused

PROFILE = "h100-eks-ubuntu-training-kubeflow"
Files = dict[str, bytes]


def _folder(folder: Path) -> Files:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture(scope="module")
def deployment(captured: Path) -> Files:
    return _folder(captured / PROFILE / "evidence" / "summary-bundle")


@pytest.fixture(scope="module")
def all_phases(captured: Path, deployment: Files) -> Files:
    """Its recipe is left out of the captured folder, being equal to the other's."""
    found = _folder(captured / PROFILE / "evidence-all-phases" / "summary-bundle")
    return {**found, "recipe.yaml": deployment["recipe.yaml"]}


def test_the_captured_evidence_holds(captured: Path, deployment: Files) -> None:
    found = read_aicr_evidence(deployment)
    assert found.recipe_digest == "sha256:" + (captured / PROFILE / "evidence-digest.txt").read_text().strip()
    assert found.statement_digest == _sha(deployment["statement.intoto.json"])
    assert found.manifest_digest == _sha(deployment["manifest.json"])
    assert (found.aicr_version, found.attested_at) == ("v0.19.0-next", "2026-11-30T12:31:37Z")
    assert found.recipe_name == PROFILE
    assert [(phase, result.passed) for phase, result in found.phases.items()] == [("deployment", 4)]
    assert [image.rpartition("/")[2].partition(":")[0] for image, _ in found.validator_images] == [
        "conformance", "deployment", "performance",
    ]  # fmt: skip
    assert {digest for _, digest in found.validator_images} == {""}
    assert found.redacted


def test_the_captured_evidence_of_all_phases_holds(all_phases: Files) -> None:
    found = read_aicr_evidence(all_phases)
    assert {name: phase.passed for name, phase in found.phases.items()} == {
        "conformance": 10, "deployment": 4, "performance": 1,
    }  # fmt: skip


def test_the_report_of_the_captured_run_is_the_evidences(captured: Path, deployment: Files) -> None:
    """AICR took the checks' words out of it, and nothing else."""
    evidence = read_aicr_evidence(deployment)
    validate = captured / PROFILE / "validate"
    check_same_report(evidence, (validate / "ctrf-deployment-pass.json").read_bytes())
    with refused(Reason.RolloutFailed, "is not the report that this rollout's validation wrote"):
        check_same_report(evidence, (validate / "ctrf-deployment-fail.json").read_bytes())
    other = json.loads((validate / "ctrf-deployment-pass.json").read_bytes())
    other["results"]["tests"][0]["duration"] += 1
    with refused(Reason.RolloutFailed, "another run does not count"):
        check_same_report(evidence, json.dumps(other).encode())


def test_the_plans_aicr_made_it_and_names_what_ran(deployment: Files) -> None:
    evidence = read_aicr_evidence(deployment)
    images = [image for image, _ in evidence.validator_images]
    check_made_by(evidence, "v0.19.0-next", images)
    check_made_by(evidence, "0.19.0-next", [])
    with refused(Reason.AICRVersionMismatch, "made by AICR v0.19.0-next, but v1.1.2 is pinned"):
        check_made_by(evidence, "v1.1.2", images)
    with refused(Reason.RolloutFailed, "predicate.validatorImages does not name ghcr.io/me/x:v1"):
        check_made_by(evidence, "v0.19.0-next", ["ghcr.io/me/x:v1", *images])


def test_any_flipped_byte_is_found(deployment: Files) -> None:
    """One in each part of each file: nothing of it can change unseen."""
    for name, content in deployment.items():
        for place in range(len(content) // 14, len(content), len(content) // 7):
            changed = bytearray(content)
            changed[place] ^= 1
            if name == "statement.intoto.json" and _same_meaning(content, bytes(changed)):
                continue  # of what it binds nothing changed: the signature and our binding hold its own bytes
            with pytest.raises(PipelineError) as caught:
                read_aicr_evidence({**deployment, name: bytes(changed)})
            assert caught.value.reason in (Reason.RolloutFailed, Reason.AICRArtifactUnsupported)


def _same_meaning(one: bytes, other: bytes) -> bool:
    """Whether what the chain of digests rests on is the same in both statements."""
    try:
        pair = [json.loads(text) for text in (one, other)]
    except ValueError:
        return False
    fields = ("schemaVersion", "manifest", "recipe", "phases")
    bound = [
        [
            *(item.get(key) for key in ("_type", "predicateType", "subject")),
            *(item.get("predicate", {}).get(key) for key in fields),
            item.get("predicate", {}).get("bom", {}).get("digest"),
        ]
        for item in pair
    ]
    return bool(bound[0] == bound[1])


Change = Callable[[Files], None]


def _statement(**changes: Any) -> Change:
    """Set fields of the statement by dotted path."""

    def change(files: Files) -> None:
        statement = json.loads(files["statement.intoto.json"])
        for path, value in changes.items():
            *way, last = path.split("__")
            target = statement
            for part in way:
                target = target[int(part)] if isinstance(target, list) else target[part]
            if value is None:
                target.pop(last)
            else:
                target[last] = value
        files["statement.intoto.json"] = json.dumps(statement).encode()

    return change


def _put(name: str, content: bytes) -> Change:
    return lambda files: files.update({name: content})


def _drop(name: str) -> Change:
    return lambda files: files.pop(name) and None


def _manifest(change: Callable[[dict[str, Any]], None]) -> Change:
    """A manifest that says something else, bound anew."""

    def apply(files: Files) -> None:
        manifest = json.loads(files["manifest.json"])
        change(manifest)
        files["manifest.json"] = json.dumps(manifest).encode()
        _statement(
            predicate__manifest={"digest": _sha(files["manifest.json"]), "fileCount": len(manifest["files"])}
        )(files)

    return apply


UNSUPPORTED, BAD = Reason.AICRArtifactUnsupported, Reason.RolloutFailed
BROKEN: dict[str, tuple[Change, Reason, str]] = {
    "no statement": (_drop("statement.intoto.json"), UNSUPPORTED, "statement.intoto.json is missing"),
    "no manifest": (_drop("manifest.json"), UNSUPPORTED, "manifest.json is missing"),
    "a file is gone": (_drop("bom.cdx.json"), BAD, "bom.cdx.json: manifest.json names it"),
    "a file too many": (_put("extra.txt", b"x"), BAD, "'extra.txt': it is there"),
    "a changed recipe": (_put("recipe.yaml", b"x"), BAD, "recipe.yaml: it has 1 bytes"),
    "another type": (
        _statement(predicateType="https://aicr.run/recipe-evidence/v4"),
        UNSUPPORTED,
        "statement.intoto.json.predicateType is",
    ),
    "the old domain": (
        _statement(predicateType="https://aicr.nvidia.com/recipe-evidence/v1"),
        UNSUPPORTED,
        "predicateType is",
    ),
    "another statement": (_statement(_type="https://in-toto.io/Statement/v0.1"), UNSUPPORTED, "_type is"),
    "another schema": (_statement(predicate__schemaVersion="2.0.0"), UNSUPPORTED, "schemaVersion is '2.0.0'"),
    "v1 with a profile": (
        _statement(predicate__profile={"selection": "a=b"}),
        UNSUPPORTED,
        "does not go with",
    ),
    "v2 without one": (
        _statement(predicateType="https://aicr.run/recipe-evidence/v2"),
        UNSUPPORTED,
        "predicate.profile does not go with",
    ),
    "no subject": (_statement(subject=[]), UNSUPPORTED, "subject has 0 entries"),
    "another subject": (_statement(subject__0__name="recipe:other"), BAD, "subject[0].name"),
    "another subject digest": (
        _statement(subject__0__digest={"sha256": "0" * 64}),
        BAD,
        "subject[0].digest.sha256 is 0000",
    ),
    "another recipe digest": (
        _statement(predicate__recipe__digest="0" * 64, subject__0__digest={"sha256": "0" * 64}),
        BAD,
        "recipe.yaml: its digest is not predicate.recipe.digest",
    ),
    "a digest with a line end": (
        _statement(predicate__recipe__digest="0" * 64 + "\n"),
        UNSUPPORTED,
        "predicate.recipe.digest",
    ),
    "another bom": (
        _statement(predicate__bom__digest="sha256:" + "0" * 64),
        BAD,
        "bom.cdx.json: predicate.bom.digest",
    ),
    "another manifest": (
        _statement(predicate__manifest__digest="sha256:0"),
        BAD,
        "manifest.json: predicate.manifest.digest",
    ),
    "another count of files": (_statement(predicate__manifest__fileCount=5), BAD, "fileCount is 5"),
    "another report": (
        _statement(predicate__phases__deployment__ctrfDigest="sha256:0"),
        BAD,
        "ctrf/deployment.json: predicate.phases.deployment.ctrfDigest",
    ),
    "another count": (_statement(predicate__phases__deployment__passed=5), BAD, "passed is 5"),
    "a count that is none": (
        _statement(predicate__phases__deployment__passed=True),
        UNSUPPORTED,
        "not a whole number",
    ),
    "an unknown phase": (
        _statement(predicate__phases={"canary": {}}),
        UNSUPPORTED,
        "predicate.phases.canary",
    ),
    "no deployment": (_statement(predicate__phases={}), BAD, "of no deployment validation"),
    "no AICR version": (
        _statement(predicate__aicrVersion=None),
        UNSUPPORTED,
        "predicate.aicrVersion is missing",
    ),
    "images that are none": (
        _statement(predicate__validatorImages={}),
        UNSUPPORTED,
        "validatorImages is not a list",
    ),
    "an image's odd digest": (
        _statement(predicate__validatorImages=[{"image": "a", "digest": "md5:1"}]),
        UNSUPPORTED,
        "'md5:1'",
    ),
    "a manifest of another schema": (
        _manifest(lambda m: m.update(schemaVersion="9")),
        UNSUPPORTED,
        "schemaVersion is '9'",
    ),
    "a file listed twice": (_manifest(lambda m: m["files"].append(m["files"][0])), BAD, "or twice"),
    "a path that leaves": (_manifest(lambda m: m["files"][0].update(path="../x")), BAD, "which it may not"),
    "a digest in the manifest": (
        _manifest(lambda m: m["files"][0].update(sha256="sha256:0")),
        BAD,
        "bom.cdx.json: sha256 in manifest.json",
    ),
    "a file not listed": (_manifest(lambda m: m["files"].pop(0)), BAD, "manifest.json does not name it"),
    "no JSON": (_put("statement.intoto.json", b"{"), UNSUPPORTED, "is not JSON"),
    "NaN": (_put("statement.intoto.json", b'{"a": NaN}'), UNSUPPORTED, "NaN"),
    "deep JSON": (_put("statement.intoto.json", b"[" * 100_000), UNSUPPORTED, "nested"),
    "a field twice": (_put("statement.intoto.json", b'{"_type": 1, "_type": 2}'), UNSUPPORTED, "twice"),
    "a list": (_put("statement.intoto.json", b"[]"), UNSUPPORTED, "is not an object"),
    "a huge file": (_put("x", b"x" * (9 << 20)), Reason.ContentTooLarge, "are read at most"),
    "a huge statement": (
        _put("statement.intoto.json", b" " * (2 << 20)),
        Reason.ContentTooLarge,
        "are read at most",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_hold_is_named(deployment: Files, name: str) -> None:
    change, reason, words = BROKEN[name]
    files = dict(deployment)
    change(files)
    with refused(reason, words):
        read_aicr_evidence(files)


def test_logs_that_come_later_may_be_missing(deployment: Files) -> None:
    files = dict(deployment)
    log = {"path": "phases/deployment/logs/a.log", "size": 1, "sha256": "sha256:" + "0" * 64}
    _manifest(lambda manifest: manifest["files"].append(log))(files)
    read_aicr_evidence(files)


def test_fields_that_are_not_known_are_ignored(deployment: Files) -> None:
    files = dict(deployment)
    _statement(predicate__later={"any": 1}, more="x")(files)
    read_aicr_evidence(files)


def test_v3_leaves_out_who_made_the_recipe(deployment: Files) -> None:
    """The same recipe, resolved by two builds of AICR, has one digest; anything else changes it."""
    files = dict(deployment)
    recipe = files["recipe.yaml"]
    line = next(line for line in recipe.splitlines(keepends=True) if line.startswith(b"    version: v0.19"))
    digest = hashlib.sha256(recipe.replace(line, b"", 1)).hexdigest()
    change = _statement(
        predicateType="https://aicr.run/recipe-evidence/v3",
        predicate__recipe__digest=digest,
        subject__0__digest={"sha256": digest},
    )
    change(files)
    assert read_aicr_evidence(files).recipe_digest == f"sha256:{digest}"
    other = json.loads(files["statement.intoto.json"])
    other["predicateType"] = "https://aicr.run/recipe-evidence/v1"
    with refused(Reason.RolloutFailed, "recipe.yaml: its digest"):
        read_aicr_evidence({**files, "statement.intoto.json": json.dumps(other).encode()})


def _sha(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
