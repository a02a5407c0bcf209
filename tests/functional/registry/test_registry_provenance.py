"""Provenance made by a real helm and gpg: our verdict beside helm's own."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aicr_pipeline.adapters.mirror import Destination, mirror_chart
from aicr_pipeline.adapters.registry_errors import RepositoryMissingError
from aicr_pipeline.decide.chart_archive import read_chart
from aicr_pipeline.decide.chart_package import PROVENANCE_TYPE, Chart, digest_of, tag_of
from aicr_pipeline.decide.provenance import require_signed
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ProvenanceSource
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.model.reasons import Reason

from local.helm import helm_binary
from local.upstream import UpstreamCharts
from local.upstream.standins import standin_chart
from tests.functional.registry.charts import (
    REPO,
    chart_name,
    destination,
    in_registry,
    indexed,
    pushed,
    upstream,
)
from tests.functional.registry.conftest import Registry
from tests.openpgp import Gnupg, gnupg


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
            f"{REPO}/{archive.name}.prov",
            datetime.now(UTC),
        )
    except PipelineError as error:
        assert error.reason == Reason.ChartInvalid
        return error.message
    assert signer.fingerprint in map(publisher.gpg.fingerprint, keys)
    return None


@pytest.mark.parametrize(
    ("version", "key"), [("1.2.3", "publisher"), ("v1.2.3", "publisher"), ("1.2.3+build.4", "stranger")]
)
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


def provenance_of(archive: Path) -> bytes:
    return archive.with_name(archive.name + ".prov").read_bytes()


def serve_provenance(up: UpstreamCharts, source: UpstreamSource, content: bytes) -> None:
    """Beside the archive, or as a layer of the publisher's manifest."""
    if not source.chart.startswith("oci://"):
        up._files[f"charts.example.com/stable/{source.chart}-{source.version}.tgz.prov"] = content
        return
    place = source.chart.removeprefix("oci://")
    manifest, media_type, _ = up._store.manifest(place, tag_of(source.version)) or (b"", "", "")
    document = json.loads(manifest)
    digest = up._store.put_blob(place, content)
    document["layers"].append({"mediaType": PROVENANCE_TYPE, "digest": digest, "size": len(content)})
    up._store.put_manifest(place, tag_of(source.version), json.dumps(document).encode(), media_type)


def demanding(registry: Registry, up: UpstreamCharts, keys: str) -> Destination:
    """Both publishers' charts must be signed with one of the keys."""
    demanded = [ProvenanceSource(source=source, keys=keys) for source in (REPO, "oci://ghcr.example/org")]
    return destination(registry, up)._replace(provenance=demanded)


def held(registry: Registry, source: UpstreamSource, target: Destination, content: str) -> str:
    """Why the chart is held; nothing of it may have been pushed."""
    with pytest.raises(PipelineError) as caught:
        mirror_chart(source, target)
    assert caught.value.reason == Reason.ChartInvalid
    name = source.chart.rpartition("/")[2]
    repository = registry.repository(f"aicr/demo/charts/{name}")
    assert not repository.blob_exists(content)
    with suppress(RepositoryMissingError):
        assert repository.head_manifest(tag_of(source.version)) is None
    address = source.chart if source.chart.startswith("oci://") else REPO
    assert f"The provenance file of chart {name} {source.version} at {address} " in caught.value.message
    return caught.value.message


Make = Callable[[str, str], UpstreamSource]


@pytest.mark.parametrize(
    ("make", "requests", "version"), [(indexed, 11, "1.2.3+build.4"), (in_registry, 12, "1.2.3")]
)
def test_a_signed_chart_goes_over_and_helm_verifies_it(
    publisher: Publisher, registry: Registry, tmp_path: Path, make: Make, requests: int, version: str
) -> None:
    name = chart_name()
    archive, source = publisher.signed(name, version), make(name, version)
    with upstream(source, charts_dir=served(archive, tmp_path)) as up:
        serve_provenance(up, source, provenance_of(archive))
        target = demanding(registry, up, publisher.gpg.public("publisher", "stranger"))
        result = mirror_chart(source, target)
        assert (result.pushed, result.requests) == (True, requests)
        document, content = pushed(registry, result)
        assert content == archive.read_bytes()
        kinds = {layer["mediaType"]: layer["digest"] for layer in document["layers"]}  # type: ignore[attr-defined]
        assert kinds[PROVENANCE_TYPE] == digest_of(provenance_of(archive))
        # Unchanged: judged again, by what the cluster's own registry has.
        again = mirror_chart(source, target)
        assert (again.pushed, again.requests, again.manifest_digest) == (False, 3, result.manifest_digest)
    helm(
        tmp_path, "pull", f"oci://{registry.host}/{result.repository}", "--version", version, "-d", tmp_path,
        "--plain-http", "--username", registry.user, "--password", registry.password,
        "--verify", "--keyring", publisher.public,
    )  # fmt: skip
    assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


def served(archive: Path, folder: Path) -> Path:
    """A folder of this archive alone."""
    place = folder / "served"
    place.mkdir()
    shutil.copy(archive, place)
    return place


@pytest.mark.parametrize("make", [indexed, in_registry])
def test_a_chart_that_is_not_signed_as_demanded_is_held(
    publisher: Publisher, memory_registry: Registry, tmp_path: Path, make: Make
) -> None:
    name = chart_name()
    archive, source = publisher.signed(name, "1.2.3"), make(name, "1.2.3")
    signed, fingerprint = digest_of(archive.read_bytes()), publisher.gpg.fingerprint("publisher")
    good, stranger = publisher.gpg.public("publisher"), publisher.gpg.public("stranger")
    with upstream(source, charts_dir=served(archive, tmp_path)) as up:
        said = held(memory_registry, source, demanding(memory_registry, up, good), signed)
        assert "is not there, but registry.provenance names keys for this source" in said
        serve_provenance(up, source, provenance_of(archive))
        said = held(memory_registry, source, demanding(memory_registry, up, stranger), signed)
        assert (
            f"is signed by key {fingerprint}, which registry.provenance does not name for this source" in said
        )
    standin = digest_of(standin_chart(name, "1.2.3"))
    with upstream(source) as up:  # the same chart and version, packed by another, with the signed file
        serve_provenance(up, source, provenance_of(archive))
        said = held(memory_registry, source, demanding(memory_registry, up, good), standin)
        assert f"lists {signed}, but the archive has {standin}" in said
    with upstream(source, charts_dir=tmp_path / "served") as up:
        changed = provenance_of(archive).replace(signed.encode(), standin.encode())
        serve_provenance(up, source, changed)
        said = held(memory_registry, source, demanding(memory_registry, up, good), signed)
        assert f"has a signature of key {fingerprint} that does not match its text" in said


@pytest.mark.parametrize("make", [indexed, in_registry])
def test_keys_that_are_named_later_hold_what_is_there_already(
    publisher: Publisher, memory_registry: Registry, tmp_path: Path, make: Make
) -> None:
    source = make(chart_name(), "1.2.3")
    with upstream(source) as up:
        result = mirror_chart(source, destination(memory_registry, up))
        assert result.pushed
        with pytest.raises(
            PipelineError, match=r"is not there, but registry\.provenance names keys"
        ) as caught:
            mirror_chart(source, demanding(memory_registry, up, publisher.gpg.public("publisher")))
        assert caught.value.reason == Reason.ChartInvalid


def test_without_keys_provenance_is_carried_along(
    publisher: Publisher, memory_registry: Registry, tmp_path: Path
) -> None:
    name = chart_name()
    archive, source = publisher.signed(name, "1.2.3", "stranger"), indexed(name)
    with upstream(source, charts_dir=served(archive, tmp_path)) as up:
        target = destination(memory_registry, up)._replace(
            provenance=[ProvenanceSource(source=f"{REPO}r", keys=publisher.gpg.public("publisher"))],
        )
        other = publisher.signed("other", "1.2.3")
        serve_provenance(up, source, provenance_of(other))
        assert "is that of other 1.2.3" in held(
            memory_registry, source, target, digest_of(archive.read_bytes())
        )
        serve_provenance(up, source, provenance_of(archive))
        document, _ = pushed(memory_registry, mirror_chart(source, target))
        assert digest_of(provenance_of(archive)) in json.dumps(document)


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><title>Sign in</title>", b"<html>" + b" " * 500_000, b""])
def test_a_page_in_place_of_provenance_is_none(memory_registry: Registry, page: bytes) -> None:
    source = indexed(chart_name())
    with upstream(source) as up:
        serve_provenance(up, source, page)
        document, _ = pushed(memory_registry, mirror_chart(source, destination(memory_registry, up)))
    assert PROVENANCE_TYPE not in json.dumps(document)
