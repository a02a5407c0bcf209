"""Provenance files: what is read of them, whose signatures count, and what hostile ones do."""

import base64
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from aicr_pipeline.decide.chart_package import Chart
from aicr_pipeline.decide.provenance import (
    MAX_PROVENANCE,
    Signer,
    judge,
    keys_for,
    looks_signed,
    require_listed,
    require_signed,
)
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ProvenanceSource
from aicr_pipeline.model.reasons import Reason
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.openpgp import Gnupg, gnupg
from tests.unit.samples import config, refused

CHART = Chart("demo", "1.2.3", {})
DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
SOURCE = "https://charts.example.com/demo-1.2.3.tgz.prov"
NOW = datetime.now(UTC)
BODY = f"name: demo\nversion: 1.2.3\n\n...\nfiles:\n  demo-1.2.3.tgz: {DIGEST}\n"
AT = "20250601T000000"


def framed(body: str = BODY, head: str = "Hash: SHA512\n") -> bytes:
    """A clear-signed message whose signature is none."""
    return (
        f"-----BEGIN PGP SIGNED MESSAGE-----\n{head}\n{body}"
        "-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n"
    ).encode()


def held(provenance: bytes) -> str:
    """Why it is refused without a keyring."""
    with pytest.raises(PipelineError) as caught:
        require_listed(provenance, CHART, DIGEST, SOURCE)
    assert caught.value.reason == Reason.ChartInvalid
    assert f"The provenance file of chart demo 1.2.3 at {SOURCE} " in caught.value.message
    assert "; the chart is held, " in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    "provenance",
    [
        framed(),
        framed().replace(b"\n", b"\r\n"),
        b"\n\n" + framed() + b"\n \n",
        framed(head=""),
        framed(BODY.replace("1.2.3\n\n", "1.2.3\ndependencies:\n- - name: other\n\n")),
        framed(BODY.replace("name: demo", "description: für alle, »schnell«\nname: demo")),
        framed(BODY + "  other-1.tgz: " + OTHER + "\n"),
        framed(BODY.replace("demo-1.2.3.tgz", "renamed.tgz")),
    ],
)  # fmt: skip
def test_a_file_that_lists_the_archive_is_taken_without_keys(provenance: bytes) -> None:
    require_listed(provenance, CHART, DIGEST, SOURCE)
    assert judge(provenance, None, CHART, DIGEST, SOURCE, NOW) is None


@pytest.mark.parametrize(
    ("provenance", "said"),
    [
        (b"", "is no provenance file: it is empty"),
        (b" \n", "is no provenance file: it is empty"),
        (b"<!DOCTYPE html><html></html>", "is no provenance file but an HTML page"),
        (b'{"message": "not found"}', "is no provenance file but a text without a signature"),
        (b"\x1f\x8b\x08\x00\xff", "something that is not text"),
        (BODY.encode(), "a text without a signature"),
        (b"x" * (MAX_PROVENANCE + 1), f"has {MAX_PROVENANCE + 1:,} bytes; the limit is 327,680"),
        (framed()[:-30], "not exactly one signed message"),
        (framed() + framed(), "not exactly one signed message"),
        (b"name: evil\n" + framed(), "a text without a signature"),
        (framed() + b"name: evil\n", "not exactly one signed message"),
        (framed("-----BEGIN PGP SIGNED MESSAGE-----\n" + BODY), "not exactly one signed message"),
        (framed(head="Comment: x\n"), "its headers are not those of a signed message"),
        (framed("-x\n" + BODY), "a dash that is not escaped"),
        (framed("name: demo\nversion: 1.2.3\n"), "does not hold a Chart.yaml, a line '...' and a list of"),
        (framed(BODY + "\n...\nfiles: {}\n"), "does not hold a Chart.yaml, a line '...' and a list of"),
        (framed(BODY.replace("name: demo", "name: [")), "list of files that cannot be read"),
        (framed(BODY.replace("name: demo\n", "")), "list of files that cannot be read"),
        (framed(BODY.replace("files:", "files: &a")).replace(b"&a", b"&a {x: *a}"), "cannot be read"),
        (framed(BODY.partition("files:")[0] + "files: {}\n"), "lists no files"),
        (framed(BODY.partition("files:")[0] + "- a\n".replace("- ", "- - ")), "lists no files"),
        (framed(BODY.replace("sha256:", "md5:")), "lists a file without a SHA-256"),
        (framed(BODY.replace(DIGEST, "7")), "lists a file without a SHA-256"),
        (framed(BODY.replace("name: demo", "name: other")), "is that of other 1.2.3"),
        (framed(BODY.replace("version: 1.2.3", "version: 1.2.4")), "is that of demo 1.2.4"),
        (framed(BODY.replace(DIGEST, OTHER)), f"lists {OTHER}, but the archive has {DIGEST}"),
        # Under the archive's own name only that digest counts.
        (framed(BODY.replace(DIGEST, OTHER) + f"  other.tgz: {DIGEST}\n"), f"lists {OTHER}, but the archive"),
        (framed(BODY.replace("demo-1", "x").replace(DIGEST, OTHER)), f"lists {OTHER}, but the archive"),
    ],
)  # fmt: skip
def test_refused_without_keys(provenance: bytes, said: str) -> None:
    assert said in held(provenance)


def test_a_source_without_provenance() -> None:
    assert judge(None, None, CHART, DIGEST, SOURCE, NOW) is None
    with pytest.raises(
        PipelineError, match=r"demo 1\.2\.3 at .* is not there, but registry\.provenance names"
    ):
        judge(None, "keys", CHART, DIGEST, SOURCE, NOW)


def test_what_looks_signed() -> None:
    assert looks_signed(framed()) and looks_signed(b"\r\n" + framed())
    assert not looks_signed(b"<html>") and not looks_signed(b"") and not looks_signed(b"x" + framed())


@pytest.fixture(scope="module")
def gpg() -> Iterator[Gnupg]:
    with gnupg() as found:
        found.key("good", at="20250101T000000")
        yield found


def verdict(provenance: bytes, keys: str, now: datetime = NOW) -> str | Signer:
    """Who signed, or why it is refused."""
    try:
        return require_signed(provenance, keys, CHART, DIGEST, SOURCE, now)
    except PipelineError as error:
        assert error.reason == Reason.ChartInvalid
        assert f"The provenance file of chart demo 1.2.3 at {SOURCE} " in error.message
        assert "Stack" not in error.message
        return error.message


def test_signed_by_a_key_that_is_named(gpg: Gnupg) -> None:
    signed = gpg.sign(BODY, "good")
    assert verdict(signed, gpg.public("good")) == Signer(gpg.fingerprint("good"), "good <good@example.com>")
    assert judge(signed, gpg.public("good"), CHART, DIGEST, SOURCE, NOW) is not None
    dashes = gpg.sign(BODY.replace("1.2.3\n\n", "1.2.3\nkeywords:\n- -----BEGIN\n\n"), "good")
    assert isinstance(verdict(dashes, gpg.public("good")), Signer)
    assert isinstance(verdict(signed.replace(b"\n", b"\r\n"), gpg.public("good")), Signer)


def test_signed_by_a_key_that_is_not_named(gpg: Gnupg) -> None:
    stranger = gpg.key("stranger")
    signed = gpg.sign(BODY, "stranger")
    assert f"is signed by key {stranger}, which registry.provenance does not name" in verdict(
        signed, gpg.public("good")
    )
    # Several keys: in one block, in several, in any order.
    both = Signer(stranger, "stranger <stranger@example.com>")
    assert verdict(signed, gpg.public("good", "stranger")) == both
    assert verdict(signed, gpg.public("good") + "\n" + gpg.public("stranger")) == both
    # Two signatures, one of them by a key that is named.
    assert verdict(gpg.sign(BODY, "stranger", "-u", "good@example.com"), gpg.public("stranger")) == both


@pytest.mark.parametrize(
    ("before", "after"), [("1.2.3", "1.2.4"), ("ab", "ac"), ("\n...\n", "\n...\n#\n"), ("demo-", "demo_")]
)
def test_changed_after_it_was_signed(gpg: Gnupg, before: str, after: str) -> None:
    changed = gpg.sign(BODY, "good").replace(before.encode(), after.encode(), 1)
    said = f"has a signature of key {gpg.fingerprint('good')} that does not match its text"
    assert said in verdict(changed, gpg.public("good"))


def test_signed_for_another_chart_or_archive(gpg: Gnupg) -> None:
    keys = gpg.public("good")
    assert "is that of other 1.2.3" in verdict(gpg.sign(BODY.replace(": demo", ": other"), "good"), keys)
    assert f"lists {OTHER}, but" in verdict(gpg.sign(BODY.replace(DIGEST, OTHER), "good"), keys)
    assert "is no provenance file" in verdict(b"<html>", keys)
    assert "is no signed message that can be read" in verdict(framed(), keys)


def test_a_key_that_has_expired_signs_no_more(gpg: Gnupg) -> None:
    # The signature is older than the end of the key, but whoever holds the key can write any date.
    fingerprint = gpg.key("expired", expires="20260101T000000", at="20250101T000000")
    said = verdict(gpg.sign(BODY, "expired", at=AT), gpg.public("expired"))
    assert f"is signed by key {fingerprint}, which expired on 2026-01-01" in said
    later = gpg.key("later", expires="1y")
    signed = gpg.sign(BODY, "later")
    assert isinstance(verdict(signed, gpg.public("later")), Signer)
    assert f"key {later}, which expired on" in verdict(signed, gpg.public("later"), NOW + timedelta(days=400))


@pytest.mark.parametrize("reason", [0, 1, 2, 3])
def test_a_revoked_key_signs_no_more_whatever_the_reason(gpg: Gnupg, reason: int) -> None:
    name = f"revoked{reason}"
    fingerprint = gpg.key(name, at="20250101T000000")
    signed, before = gpg.sign(BODY, name, at=AT), gpg.public(name)
    assert isinstance(verdict(signed, before), Signer)
    gpg.revoke(name, reason)
    said = f"is signed by key {fingerprint}, which is revoked"
    assert said in verdict(signed, gpg.public(name))
    # Named twice, the second time with its revocation: one key.
    assert said in verdict(signed, before + gpg.public(name))


def test_subkeys(gpg: Gnupg) -> None:
    primary = gpg.key("sub", use="cert", at="20250101T000000")
    gpg.subkey(primary, at="20250101T000000")
    signed = gpg.sign(BODY, "sub", at=AT)
    assert verdict(signed, gpg.public("sub")) == Signer(primary, "sub <sub@example.com>")
    primary = gpg.key("oldsub", use="cert", at="20250101T000000")
    gpg.subkey(primary, expires="20260101T000000", at="20250101T000000")
    assert "which expired on 2026-01-01" in verdict(gpg.sign(BODY, "oldsub", at=AT), gpg.public("oldsub"))
    signed, before = gpg.sign(BODY, "sub", at=AT), gpg.public("sub")
    gpg.run("--command-fd", "0", "--edit-key", gpg.fingerprint("sub"), batch=(),
            given=b"key 1\nrevkey\ny\n3\n\ny\nsave\n")  # fmt: skip
    assert gpg.public("sub") != before
    assert "which is revoked" in verdict(signed, gpg.public("sub"))


def test_signatures_by_means_or_at_times_that_do_not_count(gpg: Gnupg) -> None:
    keys = gpg.public("good")
    gpg.key("rsa", kind="rsa2048")
    weak = gpg.sign(BODY, "rsa", "--digest-algo", "SHA1", "--allow-weak-digest-algos")
    assert "has a signature over SHA-1, which is not safe any more" in verdict(weak, gpg.public("rsa"))
    future = gpg.sign(BODY, "good", at="20990601T000000")
    assert "has a signature dated 2099-06-01, which is in the future" in verdict(future, keys)
    over = gpg.sign(BODY, "good", "--default-sig-expire", "1m", "--no-ask-sig-expire", at=AT)
    assert "has a signature that expired on 2025-07-01" in verdict(over, keys)
    short = gpg.key("short", kind="rsa1024", at="20250101T000000")
    said = verdict(gpg.sign(BODY, "short", at=AT), gpg.public("short"))
    assert f"is signed by key {short}, which is not accepted (" in said and "RSA1024" in said


def test_keys_that_cannot_be_read_are_a_matter_of_the_configuration(gpg: Gnupg) -> None:
    good = gpg.public("good")
    for keys in ("", "x", armor(b"\xc6\x01\x07"), armor(b"\x00"), good.replace("\n", "\nA", 3)):
        with pytest.raises(PipelineError, match=r"the keys that registry\.provenance names") as caught:
            require_signed(gpg.sign(BODY, "good"), keys, CHART, DIGEST, SOURCE, NOW)
        assert caught.value.reason == Reason.InvalidConfiguration


def armor(data: bytes, kind: str = "PUBLIC KEY BLOCK") -> str:
    return f"-----BEGIN PGP {kind}-----\n\n{base64.b64encode(data).decode()}\n-----END PGP {kind}-----\n"


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=2000) | st.text(max_size=500).map(lambda text: framed(text)))
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PipelineError) as caught:
        require_listed(data, CHART, DIGEST, SOURCE)
    assert caught.value.reason == Reason.ChartInvalid


@pytest.fixture(scope="module")
def good(gpg: Gnupg) -> tuple[bytes, str]:
    return gpg.sign(BODY, "good"), gpg.public("good")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_signed_file_that_was_tampered_with(good: tuple[bytes, str], data: st.DataObject) -> None:
    signed, keys = good
    start = data.draw(st.integers(0, len(signed) - 1))
    end = data.draw(st.integers(start, min(len(signed), start + 80)))
    changed = signed[:start] + data.draw(st.binary(max_size=80)) + signed[end:]
    said = verdict(changed, keys)
    if isinstance(said, Signer):  # what the change left alone is what was signed
        text = changed.replace(b"\r\n", b"\n").split(b"\n-----BEGIN PGP SIGNATURE")[0].partition(b"\n\n")[2]
        assert [line.rstrip() for line in text.rstrip(b"\n").split(b"\n")] == BODY.rstrip(
            "\n"
        ).encode().split(b"\n")


@settings(max_examples=150, deadline=None)
@given(signature=st.binary(max_size=300), keys=st.binary(max_size=300))
def test_hostile_packets(good: tuple[bytes, str], signature: bytes, keys: bytes) -> None:
    frame = good[0].partition(b"-----BEGIN PGP SIGNATURE")[0] + armor(signature, "SIGNATURE").encode()
    assert isinstance(verdict(frame, good[1]), str)
    with pytest.raises(PipelineError):
        require_signed(good[0], armor(keys), CHART, DIGEST, SOURCE, NOW)


def packets(armored: str) -> bytes:
    block = armored.partition("\n\n")[2].splitlines()
    return base64.b64decode("".join(line for line in block if line[:1] not in ("=", "-")))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_packets_that_were_tampered_with(good: tuple[bytes, str], data: st.DataObject) -> None:
    text, mark, signature = good[0].decode().partition("-----BEGIN PGP SIGNATURE")
    parts = {"SIGNATURE": packets(mark + signature), "PUBLIC KEY BLOCK": packets(good[1])}
    kind = data.draw(st.sampled_from(sorted(parts)))
    at = data.draw(st.integers(0, len(parts[kind]) - 1))
    cut = data.draw(st.integers(0, 3))
    parts[kind] = parts[kind][:at] + data.draw(st.binary(min_size=1, max_size=3)) + parts[kind][at + cut :]
    keys = armor(parts["PUBLIC KEY BLOCK"])
    try:
        signer = require_signed(
            (text + armor(parts["SIGNATURE"], "SIGNATURE")).encode(), keys, CHART, DIGEST, SOURCE, NOW
        )
    except PipelineError as error:
        assert error.reason in (Reason.ChartInvalid, Reason.InvalidConfiguration)
        assert "Stack" not in error.message
    else:
        assert len(signer.fingerprint) == 40


def test_the_library_costs_nothing_where_no_keyring_is_named() -> None:
    code = (
        "import sys, aicr_pipeline.decide.provenance\n"
        "sys.exit(bool({'pysequoia', 'pydantic'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("address", "keys"),
    [
        ("https://charts.example.com", "a"),
        ("https://charts.example.com/", "a"),
        ("https://charts.example.com/stable", "b"),
        ("https://charts.example.com/stable/x", "b"),
        ("https://charts.example.com/stables", "a"),
        ("https://charts.example.com.evil", None),
        ("oci://ghcr.io/org", "c"),
        ("oci://ghcr.io/org/chart", "c"),
        ("oci://ghcr.io/organisation/chart", None),
        ("oci://charts.example.com/stable", None),
        # Another spelling is no way around the keys.
        ("https://CHARTS.example.com/stable/", "b"),
        ("HTTPS://charts.example.com.:443//stable", "b"),
        ("https://user@charts.example.com/%73table", "b"),
        ("https://charts.example.com/x/../stable?y", "b"),
        ("https://charts.example.com:444/stable", None),
        ("oci://docker.io/org/demo", "d"),
        ("oci://index.docker.io/org/demo", "d"),
        ("https://[", None),
        ("", None),
    ],
)
def test_the_longest_prefix_names_the_keys(address: str, keys: str | None) -> None:
    configured = [
        ProvenanceSource.model_construct(source="https://charts.example.com", keys="a"),
        ProvenanceSource.model_construct(source="https://Charts.Example.com/stable/", keys="b"),
        ProvenanceSource.model_construct(source="oci://ghcr.io/org", keys="c"),
        ProvenanceSource.model_construct(source="oci://registry-1.docker.io/org", keys="d"),
    ]
    assert keys_for(address, configured) == keys
    assert keys_for(address, ()) is None


def armor_of(tag: int) -> str:
    return armor(bytes([tag, 1, 4]))


#: Old and new format of the first packet: a public key, a secret key, a signature (revocation certificates).
KEY, NEW_KEY, HIDDEN, OLD_HIDDEN, OTHER_PACKET = map(armor_of, (0x98, 0xC6, 0xC5, 0x94, 0x89))
PRIVATE = KEY.replace("PUBLIC KEY", "PRIVATE KEY")


@pytest.mark.parametrize(
    ("source", "keys", "said"),
    [
        ("ftp://x", KEY, "[0].source: "),
        ("https://", KEY, "[0].source: "),
        ("https://x?y", KEY, "[0].source: "),
        ("oci://user:secret@x/y", KEY, "[0].source: "),
        ("https://x", "", "[0].keys: expected ASCII-armored public keys"),
        ("https://x", "mDMEZ3SFgBYJ", "[0].keys: expected ASCII-armored public keys"),
        ("https://x", f"text {KEY}", "[0].keys: expected ASCII-armored public keys"),
        ("https://x", KEY.replace("END", "BEGIN"), "[0].keys: expected ASCII-armored public keys"),
        ("https://x", PRIVATE, "[0].keys: holds a private key"),
        ("https://x", KEY + PRIVATE, "[0].keys: holds a private key"),
        ("https://x", KEY + HIDDEN, "[0].keys: holds a private key"),
        ("https://x", OLD_HIDDEN, "[0].keys: holds a private key"),
        ("https://x", KEY + armor(b""), "[0].keys: block 2 is not the armor of a public key"),
        ("https://x", armor(b"\x18\x01"), "[0].keys: block 1 is not the armor of a public key"),
        ("https://x", KEY.replace("mAE", "m!E"), "[0].keys: block 1 is not the armor of a public key"),
        ("https://x", OTHER_PACKET, "[0].keys: block 1 is not the armor of a public key"),
        ("https://x", KEY * 8000, "[0].keys: "),
    ],
)
def test_a_configuration_that_is_refused(source: str, keys: str, said: str) -> None:
    with refused(Reason.InvalidConfiguration) as caught:
        config(**{"registry.provenance": [{"source": source, "keys": keys}]})
    message = str(caught.info.value.message)
    assert f"registry.provenance{said}" in message
    assert "secret@" not in message and "AQQ" not in message


@pytest.mark.parametrize("other", ["https://x", "https://x/", "https://X"])
def test_a_source_stands_once(other: str) -> None:
    twice = [{"source": one, "keys": KEY} for one in ("https://x", other)]
    with refused(Reason.InvalidConfiguration, "registry.provenance: named twice: https://x"):
        config(**{"registry.provenance": twice})


def test_a_configuration_that_is_taken(gpg: Gnupg) -> None:
    assert config().registry.provenance == ()
    for keys in (KEY, NEW_KEY, KEY + "\n" + NEW_KEY, gpg.public("good"), gpg.public("good") * 2):
        made = config(**{"registry.provenance": [{"source": "oci://ghcr.io:443/org", "keys": keys}]})
        assert keys_for("oci://ghcr.io/org/demo", made.registry.provenance) == keys
    with refused(Reason.InvalidConfiguration, "holds a private key"):
        config(**{"registry.provenance": [{"source": "https://x", "keys": gpg.secret("good")}]})
