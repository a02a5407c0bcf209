"""The pipeline's KMS key: ECC_NIST_P256, ECDSA_SHA_256, always over a digest.

It is named by its alias, which is how it is rotated: whoever signs gets the key that the alias names now.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.decide.dsse import is_signed, read_key
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.reasons import Reason

#: The alias may be pointed at another key between two requests; not more often than people do such things.
_MOST_TURNS = 3
#: KMS, "API error codes": these pass, and boto3 has tried several times already.
_PASSING = frozenset(
    {
        "ThrottlingException",
        "Throttling",
        "TooManyRequestsException",
        "LimitExceededException",
        "RequestLimitExceeded",
        "KMSInternalException",
        "InternalFailure",
        "InternalError",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "DependencyTimeoutException",
        "KeyUnavailableException",
        "RequestTimeout",
        "RequestTimeoutException",
        "RequestExpired",
    }
)
_WHAT_IT_IS = {
    "DisabledException": "the key is disabled; enable it",
    "KMSInvalidStateException": "the key is disabled or waits for its deletion; enable it, or cancel that",
    "NotFoundException": "there is no such key or alias; point the alias at a key",
    "AccessDeniedException": "KMS refuses; see the key's policy, and that it carries the alias",
    "InvalidKeyUsageException": "the key is not one that signs; point the alias at an ECC_NIST_P256 key",
    "ValidationException": "the key does not sign with ECDSA_SHA_256; it must be of ECC_NIST_P256",
}


class SigningKeyError(TransientError):
    """Somebody has to look after the key. The state machine does not retry it: a redrive goes on here."""

    def __init__(self, doing: str, problem: str) -> None:
        super().__init__(Reason.SigningKeyUnavailable, f"{doing}: {problem}. Then redrive the execution.")


@dataclass(frozen=True)
class Signed:
    """A signature, and the key that it was seen to be of."""

    signature: bytes
    #: DER SubjectPublicKeyInfo.
    public_key: bytes


class Signer:
    """Signs digests. Only ``bind_evidence`` may."""

    def __init__(self, kms: Any, key_id: str) -> None:
        self._kms = kms
        self._key_id = key_id

    def sign(self, digest: bytes) -> Signed:
        """Sign, and check what came back: the signature is of the key that is handed out with it.

        Raises
        ------
        TransientError
            ``SigningKeyUnavailable`` for what passes: throttling, an alias that is being moved.
        SigningKeyError
            The same reason, for a key that is disabled, gone, refused or of another kind.
        """
        doing = f"Signing evidence with {self._key_id}"
        for _ in range(_MOST_TURNS):
            der = _asked(doing, self.public_key)
            try:
                key = read_key(der)
            except ValueError as error:
                raise SigningKeyError(
                    doing, f"{error}; point the alias at an ECC_NIST_P256 key that signs"
                ) from None
            signature = _asked(doing, lambda: self.sign_digest(digest))
            if is_signed(key, signature, digest):
                return Signed(signature, der)
        raise TransientError(
            Reason.SigningKeyUnavailable, f"{doing}: its alias is being moved; try again in a minute."
        )

    def sign_digest(self, digest: bytes) -> bytes:
        """DER ECDSA signature of a SHA-256 digest (32 bytes)."""
        answer = self._kms.sign(
            KeyId=self._key_id, Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256"
        )
        signature: bytes = answer["Signature"]
        return signature

    def public_key(self) -> bytes:
        """DER SubjectPublicKeyInfo."""
        key: bytes = self._kms.get_public_key(KeyId=self._key_id)["PublicKey"]
        return key


def _asked(doing: str, ask: Callable[[], bytes]) -> bytes:
    try:
        return ask()
    except ClientError as error:
        code = error_code(error)
        if (
            code in _PASSING
            or int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) >= 500
        ):
            raise TransientError(
                Reason.SigningKeyUnavailable, f"{doing}: KMS answers {code}; it is tried again."
            ) from None
        raise SigningKeyError(doing, _WHAT_IT_IS.get(code, f"KMS answers {code}")) from None
    except BotoCoreError as error:
        raise TransientError(
            Reason.SigningKeyUnavailable, f"{doing}: KMS cannot be reached ({type(error).__name__})."
        ) from None


def public_key_of(kms: Any, key_uri: str) -> bytes:
    """DER SubjectPublicKeyInfo of a key that is named as Sigstore names one: ``awskms:///<alias or ARN>``.

    What KMS refuses is not the domain's to judge: the state fails there, and can be redriven.

    Raises
    ------
    TransientError
        As ``Signer.sign``.
    """

    def ask() -> bytes:
        key: bytes = kms.get_public_key(KeyId=key_uri.removeprefix("awskms:///"))["PublicKey"]
        return key

    return _asked(f"Reading the public key of validation.signingKey {key_uri}", ask)


def region_of(key_uri: str) -> str | None:
    """The region in which a key lives when its URI says so; an alias is looked for in the cluster's own."""
    found = key_uri.removeprefix("awskms:///")
    return found.split(":")[3] if found.startswith("arn:") else None
