"""Signing evidence with a KMS key, with ``--signing-key``: a DSSE envelope in a Sigstore bundle.

KMS is asked through boto3, whose endpoint the environment names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from typing import Any

import boto3

from local.aicr.errors import AicrError, Code

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_ALGORITHMS = {"ECC_NIST_P256": "ECDSA_SHA_256", "RSA_2048": "RSASSA_PKCS1_V1_5_SHA_256"}


def about(statement: bytes, artifact: str) -> bytes:
    """The statement as it is signed: about the pushed artifact, where the signature is looked for."""
    document = json.loads(statement)
    name = document["subject"][0]["name"]
    document["subject"] = [{"name": name, "digest": {"sha256": artifact.removeprefix("sha256:")}}]
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def sigstore_bundle(payload: bytes, key: str) -> bytes:
    """The bundle of a payload that the key ``awskms:///…`` signs; raises AicrError when KMS refuses."""
    kind = _PAYLOAD_TYPE.encode()
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    signature, mark = _sign(hashlib.sha256(message).digest(), key.removeprefix("awskms:///"))
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": _PAYLOAD_TYPE,
        "signatures": [{"sig": base64.b64encode(signature).decode()}],
    }
    material = {"publicKey": {"hint": mark}, "tlogEntries": []}
    return json.dumps(
        {"mediaType": BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope},
        separators=(",", ":"),
    ).encode()


def _sign(digest: bytes, key: str) -> tuple[bytes, str]:
    kms: Any = boto3.client("kms", region_name=os.environ["AWS_REGION"])
    try:
        described = kms.describe_key(KeyId=key)["KeyMetadata"]
        public = kms.get_public_key(KeyId=key)["PublicKey"]
        signed = kms.sign(
            KeyId=key,
            Message=digest,
            MessageType="DIGEST",
            SigningAlgorithm=_ALGORITHMS[described["KeySpec"]],
        )
    except kms.exceptions.ClientError as error:
        raise AicrError(Code.UNAUTHORIZED, f"KMS refused key {key}: {error}") from error
    hint = base64.b64encode(hashlib.sha256(public).digest()).decode()
    return bytes(signed["Signature"]), hint
