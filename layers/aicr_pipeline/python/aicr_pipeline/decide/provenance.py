"""Judges provenance files (``.prov``): who signed a chart, and whether it is this one.

Called by the mirror. A provenance file is a clear-signed text (RFC 9580, chapter 7) that holds the
``Chart.yaml``, a line ``...`` and the digests of archives, as ``helm package --sign`` writes it. It comes
from the same strangers as the archive, so it is bounded and its frame is read strictly before all else.

Signatures are Sequoia's to check. It takes what was sound when it was made; Helm also wants the key to be
good today, and so do we: whoever holds an expired or revoked key can date a signature back. Sequoia refuses
SHA-1 and keys that are too short, which Helm still takes.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from aicr_pipeline.decide.chart_package import Chart
from aicr_pipeline.decide.chart_yaml import MAX_CHART_YAML, parse_chart_yaml
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:
    from aicr_pipeline.model.config import ProvenanceSource

#: A ``Chart.yaml``, one line for each archive, and signatures of a few kilobytes.
MAX_PROVENANCE = MAX_CHART_YAML + 64 * 1024

_BEGIN = "-----BEGIN PGP SIGNED MESSAGE-----"
_SIGNATURE = "-----BEGIN PGP SIGNATURE-----"
_END = "-----END PGP SIGNATURE-----"
#: Helm splits the signed text there.
_BETWEEN = "\n...\n"
#: One registry under three names.
_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Provenance:
    """What a provenance file says. Nothing of it is verified.

    Parameters
    ----------
    name, version:
        Of the ``Chart.yaml`` inside.
    files:
        File name to ``sha256:…``.
    """

    name: str
    version: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class Signer:
    """Who signed: the fingerprint of the key (the primary one, upper case) and its user id."""

    fingerprint: str
    user_id: str


def keys_for(address: str, configured: Iterable["ProvenanceSource"]) -> str | None:
    """The keys that charts of a source must be signed with.

    Parameters
    ----------
    address:
        The source as the bundle names it, before ``registry.upstreams``: the repository's ``https://…``, or
        the whole ``oci://…`` address of the chart.
    configured:
        ``registry.provenance``. The longest prefix wins; it matches whole path segments.

    Returns
    -------
    str or None
        Armored public keys; None where nothing is asked of the source. Other spellings of an address (case of
        the host, its default port, ``%73``, ``..``) find the same keys.
    """
    place = _canonical(address)
    for entry in sorted(configured, key=lambda entry: len(_canonical(entry.source)), reverse=True):
        stem = _canonical(entry.source)
        if place == stem or place.startswith(f"{stem}/"):
            return entry.keys
    return None


def judge(
    provenance: bytes | None, keys: str | None, chart: Chart, digest: str, source: str, now: datetime
) -> Signer | None:
    """Hold a chart's provenance against what the configuration asks of its source.

    Parameters
    ----------
    provenance:
        The file's bytes; None where the source has none.
    keys:
        What ``keys_for`` found.
    chart, digest:
        What the archive says it is, and its ``sha256:…``.
    source:
        Where the provenance file came from, or would have, for messages.

    Returns
    -------
    Signer or None
        Who signed; None where no keys are named, which leaves the signature unverified.

    Raises
    ------
    PipelineError
        ``ChartInvalid`` as ``require_listed`` and ``require_signed`` say, and where keys are named but the
        source has no provenance.
    """
    if keys is None:
        if provenance is not None:
            require_listed(provenance, chart, digest, source)
        return None
    if provenance is None:
        raise _refused(
            chart,
            source,
            "is not there, but registry.provenance names keys for this source",
            "ask the publisher to sign the chart, or take the source out of registry.provenance",
        )
    return require_signed(provenance, keys, chart, digest, source, now)


def looks_signed(answer: bytes) -> bool:
    """Whether an answer is a clear-signed message at all: servers send pages with status 200."""
    return answer.lstrip(b" \t\r\n").startswith(_BEGIN.encode())


def require_listed(provenance: bytes, chart: Chart, digest: str, source: str) -> None:
    """Without a keyring: refuse what is no provenance file, or one of another archive.

    Raises
    ------
    PipelineError
        ``ChartInvalid`` naming chart, source, what was found and what to do.
    """
    _require_same(_read(_signed_text(provenance, chart, source), chart, source), chart, digest, source)


def require_signed(
    provenance: bytes, keys: str, chart: Chart, digest: str, source: str, now: datetime
) -> Signer:
    """With a keyring: the text must be signed by one of the keys, and be about this archive.

    Parameters
    ----------
    keys:
        ASCII-armored public keys, one block or several.
    now:
        The key must not be expired at this time. That the signature itself is neither expired nor of the
        future is held against the machine's clock.

    Raises
    ------
    PipelineError
        ``ChartInvalid``: no provenance file, unknown key, key expired or revoked (for whatever reason, at
        whatever time), signature that does not match, expired, or made with means that are not safe any more,
        another chart, another archive. ``InvalidConfiguration`` for keys that cannot be read.
    """
    # Here: its library costs time that runs without a keyring need not spend.
    from aicr_pipeline.decide.openpgp import KeyringError, SignatureError, verify

    _signed_text(provenance, chart, source)
    try:
        verified = verify(provenance, provenance[provenance.index(_SIGNATURE.encode()) :], keys, now)
    except SignatureError as error:
        raise _refused(chart, source, str(error), "compare the keys with those the publisher names") from None
    except KeyringError as error:
        raise PipelineError(
            Reason.InvalidConfiguration,
            f"Verifying chart {chart.name} {chart.version} by {source}: the keys that registry.provenance "
            f"names for it cannot be used: {error}; export them again with gpg --armor --export.",
        ) from None
    # Only the bytes that the signature covers count from here on.
    try:
        text = verified.text.decode()
    except UnicodeDecodeError:
        raise _refused(chart, source, "holds something that is not text", "ask its publisher") from None
    _require_same(_read(text, chart, source), chart, digest, source)
    return Signer(verified.fingerprint, verified.user_id)


def _canonical(address: str) -> str:
    """One spelling for all that lead to the same place."""
    try:
        url = urlsplit(address)
        port = "" if url.port in (None, 443) else f":{url.port}"
    except ValueError:  # no port, no host: nothing can be fetched from there
        return address
    host = (url.hostname or "").rstrip(".")
    if url.scheme == "oci" and host in _HUB:
        host = _HUB[0]
    path = posixpath.normpath("/" + unquote(url.path).lstrip("/"))
    return f"{url.scheme}://{host}{port}{path}".rstrip("/")


def _signed_text(provenance: bytes, chart: Chart, source: str) -> str:
    """The text between the marks, dashes unescaped. Nothing may stand before or after the signed message."""
    wrong, ask = "is no provenance file", "check what the source serves there"
    if len(provenance) > MAX_PROVENANCE:
        raise _refused(chart, source, f"has {len(provenance):,} bytes; the limit is {MAX_PROVENANCE:,}", ask)
    try:
        # Not splitlines(): it also splits where no other reader of this format does.
        lines = provenance.decode().replace("\r\n", "\n").strip(" \t\n").split("\n")
    except UnicodeDecodeError:
        raise _refused(chart, source, f"{wrong} but something that is not text", ask) from None
    if lines == [""]:
        raise _refused(chart, source, f"{wrong}: it is empty", ask)
    if lines[0].rstrip() != _BEGIN:
        what = "an HTML page" if lines[0].startswith("<") else "a text without a signature"
        raise _refused(chart, source, f"{wrong} but {what}", ask)
    marks = [number for number, line in enumerate(lines) if line.startswith("-----")]
    if [lines[number].rstrip() for number in marks] != [_BEGIN, _SIGNATURE, _END] or marks[2] != len(
        lines
    ) - 1:
        raise _refused(chart, source, f"{wrong}: it is not exactly one signed message", ask)
    body = lines[1 : marks[1]]
    head = next((number for number, line in enumerate(body) if not line.strip()), len(body))
    if not all(line.startswith("Hash:") for line in body[:head]):
        raise _refused(chart, source, f"{wrong}: its headers are not those of a signed message", ask)
    text = body[head + 1 :]
    if any(line.startswith("-") and not line.startswith("- ") for line in text):
        raise _refused(chart, source, f"{wrong}: it has a line with a dash that is not escaped", ask)
    return "".join(line.removeprefix("- ") + "\n" for line in text)


def _read(text: str, chart: Chart, source: str) -> Provenance:
    parts = text.replace("\r\n", "\n").split(_BETWEEN)
    ask = "ask its publisher"
    if len(parts) != 2:
        raise _refused(chart, source, "does not hold a Chart.yaml, a line '...' and a list of files", ask)
    try:
        inside = parse_chart_yaml(parts[0].encode(), source)
        sums = yaml.load(parts[1], Reason.ChartInvalid, "its list of files", MAX_PROVENANCE)
    except PipelineError as error:
        raise _refused(
            chart, source, "holds a Chart.yaml or a list of files that cannot be read", ask
        ) from error
    files = sums.get("files") if isinstance(sums, dict) else None
    if not isinstance(files, dict) or not files:
        raise _refused(chart, source, "lists no files", ask)
    if not all(isinstance(value, str) and _DIGEST.fullmatch(value) for value in files.values()):
        raise _refused(chart, source, "lists a file without a SHA-256", ask)
    return Provenance(inside.name, inside.version, files)


def _require_same(found: Provenance, chart: Chart, digest: str, source: str) -> None:
    ask = "ask its publisher which archive was signed"
    if (found.name, found.version) != (chart.name, chart.version):
        raise _refused(chart, source, f"is that of {found.name[:128]} {found.version[:128]}", ask)
    # Helm's name of the archive, or any where the publisher uses another.
    name = f"{chart.name}-{chart.version}.tgz"
    listed = {found.files[name]} if name in found.files else set(found.files.values())
    if digest not in listed:
        raise _refused(
            chart, source, f"lists {', '.join(sorted(listed)[:3])}, but the archive has {digest}", ask
        )


def _refused(chart: Chart, source: str, what: str, advice: str) -> PipelineError:
    return PipelineError(
        Reason.ChartInvalid,
        f"The provenance file of chart {chart.name} {chart.version} at {source} {what}; the chart is held, "
        f"{advice}.",
    )
