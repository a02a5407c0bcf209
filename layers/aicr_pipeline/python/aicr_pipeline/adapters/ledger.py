"""The ledger and the inbox: two S3 buckets. The ledger is written once per key, and never deleted from."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.exceptions import ClientError

from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

_GONE = {"NoSuchKey", "404", "NotFound", "NoSuchVersion"}


class LedgerReader(Protocol):
    """What reading the ledger takes: its bucket has it, and a folder with a copy of its objects."""

    def get(self, key: str) -> bytes | None:
        """The content, or None when the key was never written."""
        ...

    def keys(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Pairs of key and the time it was written (ISO) under a prefix."""
        ...

    def first_key(self, prefix: str) -> str | None:
        """The first key under a prefix, in the order of the keys; None when there is none."""
        ...

    def level(self, prefix: str) -> list[str]:
        """What stands one level under a prefix, in order: keys, and folders, which end in a slash."""
        ...


class Ledger:
    """Write-once documents. ``If-None-Match: *`` makes the first writer the only one."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self.bucket = bucket

    def put_once(self, key: str, body: bytes, content_type: str = "application/json") -> bool:
        """Write a key that nobody wrote before.

        Returns
        -------
        bool
            True when this call wrote it; False when somebody did before. What they wrote is then the
            truth: read it.

        Raises
        ------
        TransientError
            ``Conflict`` while another writer is at it.
        """
        try:
            self._s3.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                ContentType=content_type,
                IfNoneMatch="*",
                ChecksumAlgorithm="SHA256",
            )
        except ClientError as error:
            code = error_code(error)
            if code == "PreconditionFailed":
                return False
            if code == "ConditionalRequestConflict":
                raise TransientError(Reason.Conflict, f"Another writer is at ledger key {key}.") from None
            raise
        return True

    def put_same(self, key: str, body: bytes, content_type: str = "application/json") -> None:
        """Write once, where a second writer must bring the same bytes.

        Raises
        ------
        PipelineError
            ``Conflict`` when other bytes stand under the key.
        """
        if not self.put_once(key, body, content_type) and self.get(key) != body:
            raise PipelineError(
                Reason.Conflict,
                f"Ledger key {key} already holds other content, and the ledger is written once.",
            )

    def get(self, key: str) -> bytes | None:
        """The content, or None when the key was never written."""
        try:
            body: bytes = self._s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error_code(error) in _GONE:
                return None
            raise
        return body

    def get_json(self, key: str) -> Any:
        """The parsed content, or None when the key was never written."""
        body = self.get(key)
        return None if body is None else json.loads(body)

    def keys(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Pairs of key and last-modified time (ISO) under a prefix."""
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            for item in page.get("Contents", []):
                yield item["Key"], item["LastModified"].isoformat()

    def first_key(self, prefix: str) -> str | None:
        """The first key under a prefix, by one request that lists no other; None when there is none."""
        page = self._s3.list_objects_v2(Bucket=self.bucket, Prefix=prefix, MaxKeys=1)
        return next((str(item["Key"]) for item in page.get("Contents", [])), None)

    def level(self, prefix: str, after: str = "") -> list[str]:
        """What stands one level under a prefix, in order: keys, and folders, which end in a slash.

        A thousand cost one request, whatever the folders hold.

        Parameters
        ----------
        after:
            Only what comes after this in the order of keys.
        """
        start = {"StartAfter": after} if after else {}
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix, Delimiter="/", **start
        )
        return sorted(
            str(found[name])
            for page in pages
            for part, name in (("Contents", "Key"), ("CommonPrefixes", "Prefix"))
            for found in page.get(part, [])
        )


class ListedLedger(Ledger):
    """One folder of the ledger, listed once: what is not there costs no request.

    A listing of S3 is as fresh as a read, so this is the folder as it is now; made anew for each look.
    """

    def __init__(self, ledger: Ledger, prefix: str) -> None:
        super().__init__(ledger._s3, ledger.bucket)
        self._ledger, self._prefix = ledger, prefix
        self._found = dict(ledger.keys(prefix))

    def get(self, key: str) -> bytes | None:
        if key.startswith(self._prefix) and key not in self._found:
            return None
        return self._ledger.get(key)

    def keys(self, prefix: str) -> Iterator[tuple[str, str]]:
        if not prefix.startswith(self._prefix):
            yield from self._ledger.keys(prefix)
            return
        yield from ((key, written) for key, written in self._found.items() if key.startswith(prefix))


class NotingLedger(Ledger):
    """Notes the digest of every document it reads, for who has to say later what was made of what."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger._s3, ledger.bucket)
        #: Key -> ``sha256:<hex>`` of what stood there.
        self.digests: dict[str, str] = {}

    def get(self, key: str) -> bytes | None:
        body = super().get(key)
        if body is not None:
            self.digests[key] = sha256(body)
        return body


class RememberingLedger(Ledger):
    """Keeps what it read for the life of its process: a key never changes once it is written.

    For pages, which people look at again and again. What is absent may be written, so it is asked for again.
    The gate reads for itself.
    """

    def __init__(self, s3: Any, bucket: str, most_bytes: int = 16 * 1024 * 1024) -> None:
        super().__init__(s3, bucket)
        self._most = most_bytes
        self._kept: dict[str, bytes] = {}
        self._size = 0

    def get(self, key: str) -> bytes | None:
        found = self._kept.get(key)
        if found is None and (found := super().get(key)) is not None:
            self._keep(key, found)
        return found

    def _keep(self, key: str, body: bytes) -> None:
        self._kept[key] = body
        self._size += len(body)
        while self._size > self._most:
            oldest = next(iter(self._kept))
            self._size -= len(self._kept.pop(oldest))


@dataclass(frozen=True)
class InboxObject:
    """One version of an inbox object."""

    version: str
    size: int
    body: bytes


class Inbox:
    """The bucket that people write their wish into."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self.bucket = bucket

    def current_version(self, key: str) -> str | None:
        """Version id of the current object, or None when there is none (or it was deleted)."""
        try:
            head: Mapping[str, Any] = self._s3.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if error_code(error) in _GONE:
                return None
            raise
        return str(head["VersionId"])

    def read(self, key: str, version: str, most_bytes: int) -> InboxObject | None:
        """One version, at most ``most_bytes + 1`` of it; None when it does not exist."""
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=key, VersionId=version)
        except ClientError as error:
            if error_code(error) in _GONE:
                return None
            raise
        return InboxObject(version, int(answer["ContentLength"]), answer["Body"].read(most_bytes + 1))

    def write(self, key: str, body: bytes, content_type: str) -> str:
        """Put a new version, whole or not at all; returns its id."""
        answer = self._s3.put_object(
            Bucket=self.bucket, Key=key, Body=body, ContentType=content_type, ChecksumAlgorithm="SHA256"
        )
        return str(answer["VersionId"])
