"""How Sigstore names a KMS key, as far as AICR can sign with one here."""

import re

_ALIAS = re.compile(r"awskms:///alias/([A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*)")
_ARN = re.compile(
    r"awskms:///arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/"
    r"(mrk-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)
_OURS = re.compile(r"aicr-pipeline-.+-evidence")


def key_of_ours(uri: str) -> str:
    """Check ``awskms:///alias/<name>`` or ``awskms:///<ARN of a key>`` and return it.

    Raises
    ------
    ValueError
        When it is neither; when it is a key that AWS manages, which signs nothing, or a pipeline's own.
    """
    if _ARN.fullmatch(uri):
        return uri
    alias = _ALIAS.fullmatch(uri)
    if alias is None or len(alias[1]) > 249:
        raise ValueError(
            "expected awskms:///alias/<name> or awskms:///<ARN of a key>, as awskms:///alias/aicr-evidence"
        )
    if alias[1].startswith("aws/"):
        raise ValueError("a key that AWS manages signs nothing; make one of your own")
    if _OURS.fullmatch(alias[1]):
        raise ValueError("this is a pipeline's own key, which nobody else may sign with; make another")
    return uri
