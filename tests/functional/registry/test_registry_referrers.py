"""AICR's evidence and its signature in real registries: with the referrers API, and with the tag for it.

Packed and attached as the stand-in does it, signed with local keys.
"""

import base64
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.adapters.aicr_evidence import FetchedEvidence, fetch_aicr_evidence
from aicr_pipeline.adapters.referrers import attached, own_tags
from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.decide.aicr_signature import BUNDLE_TYPE
from aicr_pipeline.decide.dsse import fingerprint
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from cryptography.hazmat.primitives.asymmetric import ec

from local.aicr import evidence, profile
from local.aicr.artifact import Artifact, Files, Reference, attach, pack, push
from local.aicr.checks import Result, report
from local.aicr.recipe import resolve
from local.aicr.signing import about
from tests.functional.registry.conftest import Registry
from tests.unit.samples import refused
from tests.unit.test_aicr_signature import KEY, der, signed

BUILT = evidence.build(
    resolve(dict(profile.CRITERIA)),
    {"measurements": [], "fingerprint": {}},
    report([Result("operator-health", "passed")], "v1.1.2", 1, 2, "2026-01-02T03:04:05Z"),
    "2026-01-02T03:04:05Z",
)
FILES: Files = {name: (content, 0o600) for name, content in BUILT.files.items()}
PUBLIC = der(KEY)
Place = tuple[Registry, str]


@pytest.fixture
def place(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A registry with the stand-in's login, and a repository that nobody else uses."""
    auth = base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return registry, f"aicr/demo/evidence/{uuid.uuid4().hex}"


def pushed(place: Place, files: Files = FILES, tag: str = "profile-123456789012") -> Artifact:
    registry, name = place
    artifact = pack(files, "AICR Recipe Evidence")
    push(artifact, Reference(registry.host, name, tag), scheme="http")
    return artifact


def attached_to(place: Place, artifact: Artifact, document: bytes, kind: str = BUNDLE_TYPE) -> None:
    registry, name = place
    attach(document, kind, artifact, Reference(registry.host, name, "x"), scheme="http")


def bundle(artifact: Artifact, key: Any = KEY) -> bytes:
    return signed(about(BUILT.files["statement.intoto.json"], artifact.digest), key)


def fetched(place: Place, signing_key: str | None = "awskms:///alias/k") -> FetchedEvidence:
    registry, name = place
    return fetch_aicr_evidence(registry.repository(name), signing_key, lambda _: PUBLIC)


def repository(place: Place) -> Repository:
    return place[0].repository(place[1])


def test_signed_evidence(place: Place) -> None:
    artifact = pushed(place)
    attached_to(place, artifact, bundle(artifact))
    found = fetched(place)
    assert (found.digest, found.reference) == (
        artifact.digest,
        f"{repository(place).reference}@{artifact.digest}",
    )
    assert found.signature is not None
    assert (found.signature.fingerprint, found.signature.public_key) == (fingerprint(PUBLIC), PUBLIC)
    assert found.signature.bundle == bundle_of(place, artifact)
    assert found.evidence.manifest_digest == BUILT.manifest_digest
    assert own_tags(repository(place).tags()) == ["profile-123456789012"]


def bundle_of(place: Place, artifact: Artifact) -> bytes:
    (found,) = attached(repository(place), artifact.digest, BUNDLE_TYPE, 1 << 20)
    return found


def test_without_a_key_nobody_looks_for_a_signature(place: Place) -> None:
    pushed(place)
    assert fetched(place, None).signature is None


def test_a_missing_signature(place: Place) -> None:
    pushed(place)
    with refused(Reason.RolloutFailed, "is not signed, but validation.signingKey is set"):
        fetched(place)


def test_a_signature_of_another_key(place: Place) -> None:
    artifact = pushed(place)
    attached_to(place, artifact, bundle(artifact, ec.generate_private_key(ec.SECP256R1())))
    with refused(Reason.RolloutFailed, "is not signed by the key in validation.signingKey"):
        fetched(place)


def test_a_signature_of_other_evidence(place: Place) -> None:
    artifact = pushed(place)
    other = pack({**FILES, "more": (b"", 0o600)}, "AICR Recipe Evidence")
    attached_to(place, artifact, bundle(other))
    with refused(Reason.RolloutFailed, "about another artifact than sha256:"):
        fetched(place)


def test_what_else_is_attached_is_no_signature(place: Place) -> None:
    artifact = pushed(place)
    attached_to(place, artifact, b"{}", "application/vnd.cyclonedx+json")
    with refused(Reason.RolloutFailed, "is not signed"):
        fetched(place)


def test_a_signature_inside_of_the_bundle(place: Place) -> None:
    """As AICR writes it beside the files, where it was signed before it was pushed."""
    inside = signed(BUILT.files["statement.intoto.json"])
    pushed(place, {**FILES, "attestation.intoto.jsonl": (inside, 0o600)})
    found = fetched(place)
    assert found.signature is not None
    assert found.signature.bundle == inside


Spoil = Callable[[Files], Files]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda files: {**files, "recipe.yaml": (b"other: recipe\n", 0o600)},
        lambda files: {**files, "more.txt": (b"x", 0o600)},
    ],
    ids=["changed", "added"],
)
def test_files_that_are_not_the_statements(place: Place, spoil: Spoil) -> None:
    pushed(place, spoil(FILES))
    with refused(Reason.RolloutFailed, "AICR's evidence does not hold"):
        fetched(place, None)


def test_none_and_two(place: Place) -> None:
    with refused(Reason.RolloutFailed, "has 0 tags"):
        fetched(place)
    pushed(place)
    pushed(place, tag="another")
    with refused(Reason.RolloutFailed, "has 2 tags"):
        fetched(place)


def test_a_huge_attachment_is_not_read(place: Place) -> None:
    artifact = pushed(place)
    attached_to(place, artifact, b" " * 3000)
    with pytest.raises(PipelineError) as caught:
        attached(repository(place), artifact.digest, BUNDLE_TYPE, 2000)
    assert caught.value.reason is Reason.ContentTooLarge
