"""Words of other programs, before they go into records and mails: what looks like a secret is taken out."""

import re

_SECRETS = re.compile(
    r"""(?ix)
    (?: (?<=bearer\s) | (?<=basic\s) ) \S+
    | (?<=://) [^/\s:@]+ : [^/\s@]+ (?=@)
    | (?: password | passwd | secret (?: [_-]? access )? (?: [_-]? key )? | token | api[_-]?key
        | authorization ) ["']? \s* [=:] \s* ["']? \S+
    | \b (?: AKIA | ASIA ) [0-9A-Z]{16} \b
    | \b [A-Za-z0-9+/_-]{80,} ={0,2}
    """
)


def redact(text: str) -> str:
    """The text with ``[redacted]`` in place of credentials and of long encoded strings."""
    return _SECRETS.sub("[redacted]", text)
