"""Words of other programs, before they go into records and mails: what looks like a secret is taken out."""

import re

#: Of a program's words this much is looked at; far more than any message carries to people.
_LOOKED_AT = 16 << 10
#: In quotes, which stand escaped in JSON that is quoted itself; or up to a space.
_VALUE = (
    r"""(?: " (?: \\. | [^"\\] )* (?: " | \Z ) | \\" .*? (?: \\" | \Z )"""
    r""" | ' [^']* (?: ' | \Z ) | [^\s"'\\]\S* )"""
)
#: After an option these are words of a sentence about it, and no value.
_WORDS = (
    r"(?! (?: flag | option | argument | is | was | are | must | may | can | cannot | not | or | and | for"
    r" | has | needs | requires | should | with | to | in ) \b )"
)
_SECRETS = re.compile(
    r"""(?ix)
    -----BEGIN [A-Z0-9 ]{3,40}----- .*? (?: -----END [A-Z0-9 ]{3,40}----- | \Z )
    | (?: (?<=bearer\s) | (?<=basic\s) ) (?! auth | realm= ) \S+
    # Up to the last @ before the path: a password may have one in it.
    | (?<=://) [^/\s:@"']* : [^/\s"']+ (?=@)
    # A named secret, as a field or in a URL. "pass" and "auth" alone are words, too.
    | (?: password | passwd | passphrase | passcode | secret (?: [_-]? access )? (?: [_-]? key )? | token
        | (?: api | private | access ) [_-]? key | authorization
        | (?<! [a-z] ) pwd | (?<= [a-z0-9][_.-] ) (?: pass | pw )
        | (?<= ["'] ) (?: auth | pass ) (?= \\? ["'] ) )
      (?: \\? ["'] )? \s* [=:] \s* VALUE
    | (?<! [a-z] ) (?: auth | sig | (?: x-amz- )? signature | pass (?! = \d+ \b ) ) = VALUE
    # The same on a command line.
    | -- (?: [a-z0-9]+ - )* (?: password | passwd | passphrase | pass | pwd | secret | token
        | (?: api | secret | access | private ) -? key ) (?: \s* = \s* | \s+ WORDS (?! -- ) ) VALUE
    | (?<! [\w-] ) (?: -u | --user ) (?: \s+ | = ) ["']? [^\s:"']+ : [^\s"']+
    | \b (?: AKIA | ASIA ) [0-9A-Z]{16} \b
    | \b eyJ [A-Za-z0-9_-]{8,} \. [A-Za-z0-9_-]{8,} (?: \. [A-Za-z0-9_-]* )?
    | \b (?: gh[pousr]_ | github_pat_ | glpat- | nvapi- | xox[abeprs]- | hf_ ) [A-Za-z0-9_-]{10,}
    | \b [A-Za-z0-9+/_-]{80,} ={0,2}
    """.replace("VALUE", _VALUE).replace("WORDS", _WORDS),
    re.DOTALL,
)
#: C0 and C1 controls, and what turns the direction of text around or is not seen at all.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")


def redact(text: str) -> str:
    """The text with ``[redacted]`` in place of credentials and of long encoded strings."""
    return _SECRETS.sub("[redacted]", text)


def plain_words(text: str, most: int) -> str:
    """A program's words for a sentence: on one line, without secrets and unseen characters, cut to ``most``.

    What is cut off before the secrets are taken out ends at a space, so that no half of a secret is left.
    """
    if len(text) > _LOOKED_AT:
        text = text[:_LOOKED_AT].rpartition(" ")[0]
    words = " ".join(_UNSEEN.sub(" ", redact(text)).split())
    return words if len(words) <= most else words[: most - 1] + "…"
