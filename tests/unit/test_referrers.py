"""What is attached to a manifest is the word of whoever may push: a list of it may say anything."""

import json
from typing import Any, NamedTuple

import pytest
from aicr_pipeline.adapters.referrers import attached
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import refused, sha

KIND, ABOUT, DOCUMENT = "application/x", sha("evidence"), b"a document"
LAYER = {"digest": sha256(DOCUMENT), "size": len(DOCUMENT)}
GOOD: dict[str, Any] = {"layers": [LAYER], "subject": {"digest": ABOUT}}


class Manifest(NamedTuple):
    content: bytes


class Listing:
    """A repository that lists one attachment, and notes what it is asked for."""

    reference = "registry.example.com/demo/evidence/x-1"

    def __init__(self, manifest: Any, listed: str = sha("attachment")) -> None:
        self.manifest, self.listed, self.asked = manifest, listed, list[str]()

    def referrers(self, _: str) -> bytes:
        return json.dumps({"manifests": [{"artifactType": KIND, "digest": self.listed}]}).encode()

    def get_manifest(self, reference: str) -> Manifest:
        self.asked.append(reference)
        return Manifest(json.dumps(self.manifest).encode())

    def get_blob(self, digest: str, size: int, sink: Any) -> None:
        self.asked.append(digest)
        sink.write(DOCUMENT[:size])


def look(listing: Any) -> list[bytes]:
    return attached(listing, ABOUT, KIND, 1000)


def test_a_document() -> None:
    assert look(Listing(GOOD)) == [DOCUMENT]


@pytest.mark.parametrize(
    "listed", ["binding", "../../other/manifests/x", "sha256:../x", "SHA256:" + "0" * 64, ""]
)
def test_what_is_listed_is_asked_for_by_digest_alone(listed: str) -> None:
    """A tag may be another artifact by now, and a path leads elsewhere."""
    listing = Listing(GOOD, listed)
    with refused(Reason.AICRArtifactUnsupported, "is listed, and no digest"):
        look(listing)
    assert listing.asked == []


@pytest.mark.parametrize(
    "manifest",
    [
        [], {}, GOOD | {"layers": []}, GOOD | {"layers": [LAYER, LAYER]}, GOOD | {"layers": LAYER},
        GOOD | {"layers": [LAYER | {"digest": "sha256:../../x"}]},
        GOOD | {"layers": [LAYER | {"size": -1}]},
        GOOD | {"layers": [LAYER | {"size": "10"}]},
        GOOD | {"subject": {"digest": sha("other")}},
        GOOD | {"subject": ABOUT},
        {"layers": [LAYER]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_document_about_it(manifest: Any) -> None:
    listing = Listing(manifest)
    with refused(Reason.AICRArtifactUnsupported, "is no document about it"):
        look(listing)
    assert len(listing.asked) == 1, "no blob is asked for"


def test_a_document_that_is_too_large() -> None:
    with refused(Reason.ContentTooLarge, "1,001 bytes"):
        look(Listing(GOOD | {"layers": [LAYER | {"size": 1001}]}))
