"""A bucket and a key service in memory, for the worlds that evidence is of."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils


class MemoryS3:
    """A bucket with what the ledger asks of S3; twice as fast as moto, and no thread."""

    def __init__(self, written: datetime) -> None:
        #: When all that is in it was written.
        self.written = written
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Key: str, Body: bytes, **_: Any) -> None:
        if Key in self.objects:
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "PutObject")
        self.objects[Key] = Body

    def get_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}

    def list_objects_v2(self, *, Prefix: str, MaxKeys: int, **_: Any) -> dict[str, Any]:
        (page,) = self.paginate(Prefix=Prefix)
        return {"Contents": page["Contents"][:MaxKeys]}

    def get_paginator(self, _: str) -> MemoryS3:
        return self

    def paginate(self, *, Prefix: str, Delimiter: str = "\0", **_: Any) -> Iterator[dict[str, Any]]:
        parts = [key[len(Prefix) :].partition(Delimiter) for key in self.objects if key.startswith(Prefix)]
        found = sorted({Prefix + head + cut for head, cut, _rest in parts})
        yield {
            "Contents": [{"Key": key, "LastModified": self.written} for key in found if key in self.objects],
            "CommonPrefixes": [{"Prefix": key} for key in found if key not in self.objects],
        }


class Kms:
    """Software keys behind an alias, with KMS' answers. ``errors`` are raised first, one for each call."""

    def __init__(self, key: Any = None) -> None:
        self.key = key or ec.derive_private_key(0xA1C2, ec.SECP256R1())
        self.errors: list[str] = []
        self.calls: list[str] = []
        #: The key that takes the alias when so many calls were made.
        self.moves: dict[int, Any] = {}

    def sign(self, *, Message: bytes, MessageType: str, SigningAlgorithm: str, **_: Any) -> dict[str, bytes]:
        self._called("sign")
        assert (MessageType, SigningAlgorithm) == ("DIGEST", "ECDSA_SHA_256")
        return {"Signature": self.key.sign(Message, ec.ECDSA(utils.Prehashed(hashes.SHA256())))}

    def get_public_key(self, **_: Any) -> dict[str, bytes]:
        self._called("get_public_key")
        return {"PublicKey": der_of(self.key)}

    def _called(self, name: str) -> None:
        self.key = self.moves.pop(len(self.calls), self.key)
        self.calls.append(name)
        if self.errors and (code := self.errors.pop(0)):
            raise ClientError({"Error": {"Code": code, "Message": "x"}}, name)


def der_of(key: Any) -> bytes:
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return bytes(key.public_key().public_bytes(*form))
