"""One repository of an OCI registry: exact bytes in, exact bytes out, every digest checked.

Built on the ``oras`` library for what holds there: reference parsing, the registry API's addresses, media
types. Its ``Registry`` class is left out: each of its operations goes through one request function without
timeouts, retries or digest checks, manifests are re-serialised, a push reads the file into memory, and
importing it costs a cold start more than all the rest of this adapter (``tests/functional/registry`` shows
each defect beside its cure).
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

import oras.container  # type: ignore[import-untyped]
import oras.defaults  # type: ignore[import-untyped]

from aicr_pipeline.adapters.http import Answer, Counters, Transport, UnreachableError
from aicr_pipeline.adapters.registry_auth import Authorization, Credentials
from aicr_pipeline.adapters.registry_content import mismatch, receive
from aicr_pipeline.adapters.registry_errors import UnsupportedError, is_absent, refusal
from aicr_pipeline.decide.addresses import joined
from aicr_pipeline.decide.chart_package import is_repository
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

#: ECR's limit and the specification's advice.
MAX_MANIFEST = 4 * 1024 * 1024
MANIFEST_TYPES: tuple[str, ...] = tuple(oras.defaults.default_manifest_accepted_media_types)

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII
)
_REFUSED_DESTINATION = "public.ecr.aws"


class Manifest(NamedTuple):
    """A manifest as the registry serves it: the digest is of exactly these bytes."""

    content: bytes
    media_type: str
    digest: str


class Reference(NamedTuple):
    """``host/repository`` without a tag."""

    host: str
    repository: str

    def __str__(self) -> str:
        return f"oci://{self.host}/{self.repository}"


def parse_reference(text: str) -> Reference:
    """Split ``oci://host[:port]/path``.

    Raises
    ------
    PipelineError
        ``ChartSourceUnsupported`` when there is no host, or a tag or digest where none belongs.
    """
    bare = text.removeprefix("oci://").rstrip("/")
    try:
        parsed = oras.container.Container(bare, registry="")
    except ValueError:
        parsed = None
    # Compared whole: the library's pattern is not anchored, adds Docker Hub where no host is given, and takes
    # whatever is not a separator ('..', '?', upper case) for a name.
    if (
        parsed is None
        or bare != f"{parsed.registry}/{parsed.api_prefix}"
        or not _HOST.fullmatch(str(parsed.registry))
        or not is_repository(str(parsed.api_prefix))
    ):
        raise PipelineError(
            Reason.ChartSourceUnsupported,
            f"{text!r} is not an address like oci://host/path/chart, in lower case, without tag or digest; "
            "correct it.",
        )
    host = str(parsed.registry)
    # Docker Hub answers its API under another name than its references carry.
    if host in (oras.defaults.registry.index_name, oras.defaults.registry.index_hostname):
        host = oras.defaults.registry.default_v2_registry["host"]
    return Reference(host, str(parsed.api_prefix))


class Repository:
    """A client of one repository.

    Parameters
    ----------
    transport:
        Shared by the repositories of a function; it knows which hosts are plain http.
    reference:
        Which repository.
    credentials:
        None: anonymous, with a token service where the registry names one.
    counters:
        Counts this repository's requests; may be shared by what one operation uses.
    pace:
        Waits before each attempt to put a manifest.
    """

    def __init__(
        self,
        transport: Transport,
        reference: Reference,
        credentials: Credentials | None = None,
        counters: Counters | None = None,
        pace: Callable[[], None] | None = None,
    ) -> None:
        self.transport = transport
        self.reference = reference
        self.counters = counters or Counters()
        self.pace = pace
        self._auth = Authorization(transport, reference.repository, credentials, self.counters)
        self._container = oras.container.Container(f"{reference.host}/{reference.repository}")
        self._container.registry = reference.host

    def head_manifest(self, reference: str) -> str | None:
        """The digest under a tag or digest, or None when it is absent.

        Raises ``DeniedError``, ``TokenExpiredError`` and the like for a refusal: 403 is not 404.
        """
        doing = f"Looking up {self.reference}:{reference}"
        answer = self._send("HEAD", self._manifest_url(reference), doing, headers=_ACCEPT)
        answer.discard()
        if is_absent(answer.status, ""):
            return None
        self._require(answer, (200,), doing, "HEAD", "")
        digest = answer.headers.get("Docker-Content-Digest", "")
        if _DIGEST.fullmatch(digest):
            return digest
        manifest = self.get_manifest(reference)  # the header is optional in the specification
        return manifest.digest if manifest else None

    def get_manifest(self, reference: str) -> Manifest | None:
        """A manifest's exact bytes, the Content-Type it was served with, and its digest; None when absent.

        Raises
        ------
        DigestMismatchError
            When the bytes are not the digest asked for, or not the one the registry says.
        """
        doing = f"Reading the manifest {self.reference}:{reference}"
        answer = self._send("GET", self._manifest_url(reference), doing, headers=_ACCEPT)
        if answer.status != 200:
            text = answer.text()
            if is_absent(answer.status, text):
                return None
            raise refusal(doing, "GET", answer.status, text)
        content = self._small_body(answer, doing)
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        for said in (reference, answer.headers.get("Docker-Content-Digest", "")):
            if _DIGEST.fullmatch(said) and said != digest:
                raise mismatch(doing, said, digest)
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        return Manifest(content, media_type or _media_type_inside(content), digest)

    def tags(self) -> list[str]:
        """All tags of the repository (one page, up to a thousand); empty when it is absent.

        Raises as ``head_manifest``; ``AICRArtifactUnsupported`` when the answer is no list of tags.
        """
        doing = f"Listing the tags of {self.reference}"
        url = self._url(self._container.tags_url())
        answer = self._send("GET", url, doing)
        content = self._small_body(answer, doing)
        if is_absent(answer.status, ""):
            return []
        self._require(answer, (200,), doing, "GET", content.decode(errors="replace"))
        try:
            return [str(tag) for tag in json.loads(content)["tags"] or []]
        except (ValueError, KeyError, TypeError):
            raise PipelineError(
                Reason.AICRArtifactUnsupported, f"{doing}: the answer holds no list of tags."
            ) from None

    def referrers(self, digest: str) -> bytes | None:
        """The index of what is attached to a manifest (distribution-spec 1.1, "Listing Referrers").

        None where the registry does not have that API. Raises as ``head_manifest``.
        """
        doing = f"Listing what is attached to {self.reference}@{digest}"
        url = self._manifest_url(digest).replace("/manifests/", "/referrers/")
        answer = self._send("GET", url, doing, headers=_ACCEPT)
        content = self._small_body(answer, doing)
        if answer.status == 405 or is_absent(answer.status, ""):
            return None
        self._require(answer, (200,), doing, "GET", content.decode(errors="replace"))
        return content

    def get_blob(self, digest: str, size: int, sink: BinaryIO) -> None:
        """Stream a blob into a file, checking size and digest on the way.

        Parameters
        ----------
        digest, size:
            From the manifest. Not a byte more than ``size`` is read.
        sink:
            Rewound and emptied before each attempt; left at its end.

        Raises
        ------
        DigestMismatchError
            When the bytes are not the blob. The sink is emptied: wrong bytes are never left behind.
        """
        doing = f"Reading the blob {digest} of {self.reference}"
        url = self._url(self._container.get_blob_url(digest))
        waited, attempt = 0.0, 0
        while True:
            attempt += 1
            answer = self._send("GET", url, doing)
            if answer.status != 200:
                raise refusal(doing, "GET", answer.status, answer.text())
            try:
                problem = receive(answer.chunks(), digest, size, sink, doing)
            except TransientError as error:
                waited = self.transport.wait(attempt, waited, None, error, self.counters)
                continue
            if problem:
                sink.seek(0)
                sink.truncate()
                raise problem
            return

    def blob_exists(self, digest: str) -> bool:
        """Whether the repository holds a blob. Refusals raise."""
        doing = f"Looking up the blob {digest} of {self.reference}"
        answer = self._send("HEAD", self._url(self._container.get_blob_url(digest)), doing)
        answer.discard()
        if is_absent(answer.status, ""):
            return False
        self._require(answer, (200,), doing, "HEAD", "")
        return True

    def push_blob(self, digest: str, size: int, content: bytes | BinaryIO) -> None:
        """Upload a blob in one piece: two requests.

        Parameters
        ----------
        content:
            Bytes, or a file that is read from its start in pieces.

        Raises
        ------
        DigestMismatchError
            When the registry computes another digest.
        """
        self._refuse_public()
        doing = f"Pushing the blob {digest} to {self.reference}"
        for _ in range(2):
            text = self._upload(digest, size, content, doing)
            # An upload that was cut off may have ended well, or lost its session with the connection.
            if text is None or self.blob_exists(digest):
                return
        raise UnreachableError(
            Reason.RegistryUnreachable, f"{doing}: the registry lost the upload twice; try again later."
        )

    def push_manifest(self, content: bytes, media_type: str, tag: str) -> str:
        """Put a manifest under a tag and read back what the registry made of it.

        Returns
        -------
        str
            The digest, which is proven to be that of ``content``.

        Raises
        ------
        TagImmutableError
            When the tag is taken, even by the same manifest (ECR). ``DigestMismatchError`` when the registry
            stored other bytes.
        """
        self._refuse_public()
        doing = f"Pushing the manifest {self.reference}:{tag}"
        url, headers = self._manifest_url(tag), {"Content-Type": media_type}
        answer = self._send("PUT", url, doing, headers=headers, body=content, pace=self.pace)
        self._require(answer, (200, 201, 202), doing, "PUT", answer.text())
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        stored = answer.headers.get("Docker-Content-Digest") or self.head_manifest(tag)
        if stored != digest:
            raise mismatch(doing, digest, str(stored))
        return digest

    def _upload(self, digest: str, size: int, content: bytes | BinaryIO, doing: str) -> str | None:
        """Open an upload and finish it: None, or what the registry says of a session it forgot."""
        start = self._url(self._container.upload_blob_url())
        answer = self._send("POST", start, doing)
        self._require(answer, (202,), doing, "POST", answer.text())
        location = answer.headers.get("Location")
        if not location:
            raise UnsupportedError(
                Reason.ChartSourceUnsupported,
                f"{doing}: the registry opened an upload without an address for it.",
            )
        url = joined(answer.url, location, doing)
        url += ("&" if "?" in url else "?") + f"digest={digest}"
        headers = {"Content-Type": "application/octet-stream"}
        answer = self._send("PUT", url, doing, headers=headers, body=content, size=size)
        text = answer.text()
        if any(word in text for word in _ENDED):
            return text
        self._require(answer, (201, 202, 204), doing, "PUT", text)
        return None

    def _refuse_public(self) -> None:
        if self.reference.host.partition(":")[0].rstrip(".").lower() == _REFUSED_DESTINATION:
            raise PipelineError(
                Reason.InvalidConfiguration,
                f"{self.reference} is public; change registry.repository to a private registry.",
            )

    def _send(
        self,
        method: str,
        url: str,
        doing: str,
        headers: dict[str, str] | None = None,
        body: bytes | BinaryIO | None = None,
        size: int = 0,
        pace: Callable[[], None] | None = None,
    ) -> Answer:
        """Send with our identity; a refused one is renewed or exchanged for a token at most twice."""
        ours = self._url(f"{self.reference.host}/")
        same_host = url.startswith(ours)
        for attempt in range(3):
            identity = self._auth.headers() if same_host else {}
            answer = self.transport.send(
                method,
                url,
                doing=doing,
                counters=self.counters,
                headers={**(headers or {}), **identity},
                body=body,
                size=size,
                pace=pace,
            )
            # Who was redirected to does not know us, and must not name the token service that we tell.
            if answer.status not in (401, 403) or not same_host or not answer.url.startswith(ours):
                return answer
            text = answer.text()
            challenge = answer.headers.get("WWW-Authenticate")
            if attempt == 2 or not self._auth.recover(identity, answer.status, challenge, text):
                raise refusal(doing, method, answer.status, text)
        raise AssertionError("the third answer is returned or raised")

    def _require(self, answer: Answer, accepted: tuple[int, ...], doing: str, method: str, text: str) -> None:
        if answer.status not in accepted:
            raise refusal(doing, method, answer.status, text)

    def _small_body(self, answer: Answer, doing: str) -> bytes:
        content = answer.read(MAX_MANIFEST)
        if content is None:
            raise PipelineError(
                Reason.ContentTooLarge,
                f"{doing}: it is above {MAX_MANIFEST:,} bytes; no registry would take it.",
            )
        return content

    def _manifest_url(self, reference: str) -> str:
        return self._url(self._container.manifest_url(reference))

    def _url(self, path: str) -> str:
        return f"{self.transport.scheme(self.reference.host)}://{path}"


#: A session that is over, perhaps because somebody (our own lost attempt, too) has stored the blob.
_ENDED = ("BLOB_UPLOAD_UNKNOWN", "BLOB_UPLOAD_INVALID", "LayerAlreadyExists")
_ACCEPT = {"Accept": ", ".join(MANIFEST_TYPES)}


def _media_type_inside(content: bytes) -> str:
    try:
        inside = json.loads(content).get("mediaType")
    except (ValueError, AttributeError):
        inside = None
    return str(inside or oras.defaults.default_manifest_media_type)
