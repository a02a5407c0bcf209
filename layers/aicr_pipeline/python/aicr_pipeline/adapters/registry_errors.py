"""What a registry's refusals mean. A refusal is never read as absence.

Each class is one row of the rule that a missing repository, an immutable tag, an expired token, an
unsupported manifest and a digest mismatch need different advice. What may pass by itself is a
``ThrottledError`` or an ``UnreachableError``, which the state machines retry by their names.
"""

import json
from collections.abc import Iterable

from aicr_pipeline.adapters.http import ThrottledError, UnreachableError
from aicr_pipeline.adapters.registry_auth import EXPIRED
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: An upload or a blob that the registry lost: the next run pushes it again.
_LOST = {"BLOB_UPLOAD_UNKNOWN", "BLOB_UPLOAD_INVALID", "MANIFEST_BLOB_UNKNOWN"}
#: ECR names its exceptions in the message.
_TAKEN = ("immutable", "imagetagalreadyexists", "imagealreadyexists")


class RepositoryMissingError(PipelineError):
    """The repository itself is unknown, which is not the same as a tag that is not there yet."""


class TagImmutableError(PipelineError):
    """The tag exists and the registry does not let it move."""


class TokenExpiredError(PipelineError):
    """The credentials were right once."""


class DeniedError(PipelineError):
    """We are known and refused, or not known at all."""


class UnsupportedError(PipelineError):
    """The registry or the content does not do what a chart needs."""


class DigestMismatchError(PipelineError):
    """Bytes are not what their digest or size says."""


def refusal(doing: str, method: str, status: int, text: str) -> PipelineError:
    """The error for an answer that is neither success nor plain absence.

    Parameters
    ----------
    doing:
        "Pushing the manifest of x": begins the message.
    method, status, text:
        Of the exchange; ``text`` is the body's start (OCI distribution specification, "Error Codes").
    """
    errors = list(_errors(text))
    codes = {code for code, _ in errors}
    said = "; ".join(message for _, message in errors if message)[:300]
    answer = f"the registry answered {status}" + (f" ({said})" if said else "")
    low = text.lower()
    if EXPIRED in low:
        return TokenExpiredError(
            Reason.RegistryCredentialsStale,
            f"{doing}: the token has expired and no better one is to be had; refresh the credentials.",
        )
    if status == 429 or "TOOMANYREQUESTS" in codes:
        return ThrottledError(
            Reason.RegistryUnreachable, f"{doing}: the registry is throttling us; try again later."
        )
    if status >= 500 or codes & _LOST:
        return UnreachableError(Reason.RegistryUnreachable, f"{doing}: {answer}; try again later.")
    if status == 404 and ("NAME_UNKNOWN" in codes or method in ("POST", "PUT", "PATCH")):
        return _repository_missing(doing, method, answer)
    if status in (401, 403):
        return DeniedError(
            Reason.Unauthorized,
            f"{doing}: {answer}; check that the role or user may do this in that repository.",
        )
    # Only here: a denial or a missing repository may have the word in its name.
    if any(word in low for word in _TAKEN):
        return TagImmutableError(
            Reason.Conflict,
            f"{doing}: the tag exists with other content and is immutable; compare the two digests with the "
            "chart's publisher, nothing was overwritten.",
        )
    if codes & {"DIGEST_INVALID", "SIZE_INVALID"}:
        return DigestMismatchError(
            Reason.ChartInvalid, f"{doing}: {answer}: content and digest disagree; try again."
        )
    if status in (405, 406, 415) or codes & {"UNSUPPORTED", "MANIFEST_INVALID"}:
        return UnsupportedError(
            Reason.ChartSourceUnsupported,
            f"{doing}: {answer}; this registry does not take or serve such content.",
        )
    return PipelineError(
        Reason.ChartSourceUnsupported, f"{doing}: {answer}; check the address and its settings."
    )


def is_absent(status: int, text: str) -> bool:
    """Whether a look-up's answer says that a tag or blob is not there. HEAD has no body to say more."""
    return status == 404 and "NAME_UNKNOWN" not in {code for code, _ in _errors(text)}


def _repository_missing(doing: str, method: str, answer: str) -> PipelineError:
    if method in ("GET", "HEAD"):
        return RepositoryMissingError(
            Reason.ChartSourceUnsupported,
            f"{doing}: {answer}: there is no such repository; check the address.",
        )
    # We write under our own prefix only, where the registry is to create repositories on push.
    return RepositoryMissingError(
        Reason.InvalidConfiguration,
        f"{doing}: {answer}: the repository does not exist and was not created on push; check the prefix and "
        "its repository creation template.",
    )


def _errors(text: str) -> Iterable[tuple[str, str]]:
    try:
        errors = json.loads(text)["errors"] if text else []
    except (ValueError, LookupError, TypeError):
        return
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            yield str(error.get("code", "")), str(error.get("message", ""))
