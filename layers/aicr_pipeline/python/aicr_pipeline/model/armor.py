"""ASCII armor of OpenPGP keys (RFC 9580, chapter 6), as far as a configuration can be judged by its form."""

import base64
import binascii
import re

_BLOCK = re.compile(
    r"(-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\r?\n)(.*?)(-----END PGP PUBLIC KEY BLOCK-----)", re.DOTALL
)
#: Packet types (RFC 9580, 5): what a block of public keys starts with, and what it must not.
_PUBLIC_KEY, _SECRET_KEY = 6, 5


def armored_public_keys(text: str) -> str:
    """The text itself, when it is one or more armored public keys. Whether they are sound shows in use.

    Raises
    ------
    ValueError
        For private keys, for text outside of the armor, and for armor that holds no key. Never with a
        part of the text.
    """
    if "PRIVATE KEY" in text:
        raise ValueError("holds a private key; give public ones (gpg --armor --export) and replace that key")
    blocks = [match[2] for match in _BLOCK.finditer(text)]
    if not blocks or _BLOCK.sub("", text).strip():
        raise ValueError("expected ASCII-armored public keys and nothing else (gpg --armor --export)")
    for number, block in enumerate(blocks, 1):
        kind = _first_packet(block)
        if kind == _SECRET_KEY:
            raise ValueError(
                "holds a private key; give public ones (gpg --armor --export) and replace that key"
            )
        if kind != _PUBLIC_KEY:
            raise ValueError(f"block {number} is not the armor of a public key; export it again")
    return text


def blocks_of(text: str) -> list[str]:
    """The armored blocks one by one, marks included; readers take only the first of a text for granted."""
    return [match[0] for match in _BLOCK.finditer(text)]


def _first_packet(block: str) -> int | None:
    """The type of the first packet, None where the armor does not decode."""
    lines = [line.strip() for line in block.splitlines()]
    if "" in lines:  # headers end with an empty line
        lines = lines[lines.index("") + 1 :]
    try:
        data = base64.b64decode("".join(line for line in lines if not line.startswith("=")), validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data or not data[0] & 0x80:
        return None
    # The new format has the type in six bits, the old one in four.
    return data[0] & 0x3F if data[0] & 0x40 else (data[0] >> 2) & 0x0F
