"""Provenance made by a real helm and gpg: our verdict beside helm's own."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aicr_pipeline.decide.chart_archive import Chart, read_chart
from aicr_pipeline.decide.chart_package import digest_of
from aicr_pipeline.decide.provenance import require_signed
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from local.helm import helm_binary
from local.upstream.standins import standin_chart
from tests.openpgp import Gnupg, gnupg

PLACE = "https://charts.example.com/stable"


@dataclass
class Publisher:
    """Charts packed and signed by helm, with keys that gpg made."""

    gpg: Gnupg
    folder: Path
    public: Path
    secret: Path

    def signed(self, chart: str, version: str, key: str = "publisher") -> Path:
        """The archive of a chart; its provenance lies beside it."""
        place = self.folder / f"{chart}-{version}-{key}"
        if not place.exists():
            place.mkdir()
            (place / "source.tgz").write_bytes(standin_chart(chart, version))
            shutil.unpack_archive(place / "source.tgz", place, "gztar")
            helm(
                place, "package", "--sign", "--key", key, "--keyring", self.secret, "-d", place, place / chart
            )
        return place / f"{chart}-{version}.tgz"


def helm(home: Path, *arguments: str | Path) -> None:
    done = attempt(home, *arguments)
    assert done.returncode == 0, done.stderr


def attempt(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [helm_binary(), *arguments],
        capture_output=True, text=True, timeout=60, env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    with gnupg() as gpg:
        gpg.key("publisher", kind="rsa2048", at="20250101T000000")
        gpg.key("stranger")
        yield Publisher(gpg, tmp_path_factory.mktemp("publisher"), *gpg.keyrings())


def verdicts(publisher: Publisher, archive: Path, *keys: str) -> tuple[str | None, str | None]:
    """Why helm refuses an archive, and why we do; None for a yes."""
    ring = archive.parent / "ring.gpg"
    ring.write_bytes(publisher.gpg.run("--export", *map(publisher.gpg.fingerprint, keys)))
    done = attempt(archive.parent, "verify", archive, "--keyring", ring)
    with archive.open("rb") as file:
        chart = read_chart(file, archive.name)
    return (done.stderr if done.returncode else None), ours(publisher, archive, chart, *keys)


def ours(publisher: Publisher, archive: Path, chart: Chart, *keys: str) -> str | None:
    try:
        signer = require_signed(
            archive.with_name(archive.name + ".prov").read_bytes(),
            publisher.gpg.public(*keys),
            chart,
            digest_of(archive.read_bytes()),
            f"{PLACE}/{archive.name}.prov",
            datetime.now(UTC),
        )
    except PipelineError as error:
        assert error.reason == Reason.ChartInvalid
        return error.message
    assert signer.fingerprint in map(publisher.gpg.fingerprint, keys)
    return None


@pytest.mark.parametrize("key", ["publisher", "stranger"])
@pytest.mark.parametrize("version", ["1.2.3", "v1.2.3", "1.2.3+build.4"])
def test_what_helm_signs_both_take(publisher: Publisher, version: str, key: str) -> None:
    archive = publisher.signed("app", version, key)
    assert verdicts(publisher, archive, key) == (None, None)
    assert verdicts(publisher, archive, "publisher", "stranger") == (None, None)


def copied(archive: Path, to: Path) -> Path:
    """A folder with the archive and its provenance, to be changed."""
    for file in (archive, archive.with_name(archive.name + ".prov")):
        shutil.copy(file, to)
    return to / archive.name


def test_another_archive_both_refuse(publisher: Publisher, tmp_path: Path) -> None:
    archive = copied(publisher.signed("app", "1.2.3"), tmp_path)
    signed = digest_of(archive.read_bytes())
    archive.write_bytes(standin_chart("app", "1.2.3"))  # the same chart, packed by another
    helms, our = verdicts(publisher, archive, "publisher")
    assert helms is not None and "sha256 sum does not match" in helms
    assert our is not None and f"lists {signed}, but the archive has {digest_of(archive.read_bytes())}" in our


def test_another_key_both_refuse(publisher: Publisher) -> None:
    helms, our = verdicts(publisher, publisher.signed("app", "1.2.3"), "stranger")
    assert helms is not None and "signature made by unknown entity" in helms
    assert our is not None
    assert (
        f"is signed by key {publisher.gpg.fingerprint('publisher')}, which registry.provenance does not"
        in our
    )


def test_the_provenance_of_another_chart_both_refuse(publisher: Publisher, tmp_path: Path) -> None:
    archive = copied(publisher.signed("app", "1.2.3"), tmp_path)
    other = publisher.signed("other", "1.2.3")
    shutil.copy(other.with_name(other.name + ".prov"), archive.with_name(archive.name + ".prov"))
    helms, our = verdicts(publisher, archive, "publisher")
    assert helms is not None and "provenance does not contain a SHA for a file named" in helms
    assert our is not None and "is that of other 1.2.3" in our


def test_a_text_changed_after_it_was_signed_both_refuse(publisher: Publisher, tmp_path: Path) -> None:
    archive = copied(publisher.signed("app", "1.2.3"), tmp_path)
    provenance = archive.with_name(archive.name + ".prov")
    provenance.write_text(provenance.read_text().replace("name: app", "name: apq", 1))
    helms, our = verdicts(publisher, archive, "publisher")
    assert helms is not None and "invalid signature" in helms
    assert our is not None and "does not match its text" in our


def test_keys_that_are_not_good_today_both_refuse(publisher: Publisher, tmp_path: Path) -> None:
    gpg = publisher.gpg
    gpg.key("expired", expires="20260101T000000", at="20250101T000000")
    gpg.key("revoked", at="20250101T000000")
    archive = copied(publisher.signed("app", "1.2.3"), tmp_path)
    provenance = archive.with_name(archive.name + ".prov")
    text = provenance.read_text().partition("\n\n")[2].partition("\n-----BEGIN PGP SIGNATURE")[0] + "\n"
    for key, helm_says, we_say in (
        ("expired", "key expired", "which expired on 2026-01-01"),
        ("revoked", "signature made by revoked key", "which is revoked"),
    ):
        provenance.write_bytes(gpg.sign(text, key, at="20250601T000000"))
        if key == "revoked":
            assert verdicts(publisher, archive, key) == (None, None)
            gpg.revoke(key, 3)
        helms, our = verdicts(publisher, archive, key)
        assert helms is not None and helm_says in helms
        assert our is not None and we_say in our


def test_means_that_helm_still_takes_we_refuse(publisher: Publisher, tmp_path: Path) -> None:
    archive = copied(publisher.signed("app", "1.2.3"), tmp_path)
    provenance = archive.with_name(archive.name + ".prov")
    text = provenance.read_text().partition("\n\n")[2].partition("\n-----BEGIN PGP SIGNATURE")[0] + "\n"
    weak = ("--digest-algo", "SHA1", "--allow-weak-digest-algos")
    provenance.write_bytes(publisher.gpg.sign(text, "publisher", *weak, at="20250601T000000"))
    helms, our = verdicts(publisher, archive, "publisher")
    assert helms is None
    assert our is not None and "has a signature over SHA-1, which is not safe any more" in our
