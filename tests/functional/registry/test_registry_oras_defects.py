"""Why the adapter goes around ``oras.provider.Registry``: each defect beside its cure, on the same answers.

When one of these starts to fail in its first half, the library has been mended and the adapter can lean on
it there.
"""

import base64
import io
import json
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import oras.provider  # type: ignore[import-untyped]
import pytest
from aicr_pipeline.adapters.ecr import fetch_token
from aicr_pipeline.adapters.http import Patience, Transport, UnreachableError
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.adapters.registry_errors import DeniedError, DigestMismatchError, TokenExpiredError
from aicr_pipeline.decide.chart_package import digest_of
from aicr_pipeline.decide.ecr_host import parse_ecr_host
from oras.auth.ecr import EcrAuth  # type: ignore[import-untyped]

from tests.functional.registry.conftest import Registry, patient
from tests.functional.registry.fake import Fake, Reply, Seen
from tests.functional.registry.test_registry_answers import EXPIRED, MANIFEST
from tests.functional.registry.test_registry_tokens import tokens

BASIC = "Basic " + base64.b64encode(b"AWS:secret-word").decode()


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The library waits with time.sleep; here it only says how long."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def plain(auth: str = "token") -> oras.provider.Registry:
    found = oras.provider.Registry(insecure=True, auth_backend=auth)
    if auth == "basic":
        found.auth.set_basic_auth("AWS", "secret-word")
    return found


def ours(fake: Fake, repository: str = "a", *more: str) -> Repository:
    reference = Reference(fake.host, repository)
    return Repository(patient(fake.host, *more).transport, reference, FixedCredentials("AWS", "secret-word"))


def test_digests_are_not_checked(fake: Fake, tmp_path: Path) -> None:
    fake.on(".", Reply(200, b"wrong bytes"))
    out = plain().download_blob(f"{fake.host}/a:1", digest_of(b"right bytes"), str(tmp_path / "out"))
    assert Path(out).read_bytes() == b"wrong bytes"  # reported as success
    with pytest.raises(DigestMismatchError):
        ours(fake).get_blob(digest_of(b"right bytes"), 11, io.BytesIO())


def test_throttling_is_not_retried(fake: Fake, slept: list[float]) -> None:
    fake.on(".", Reply(429, headers={"Retry-After": "1"}), Reply(200, b"{}"))
    with pytest.raises(ValueError, match="Too Many"):
        plain().get_manifest(f"{fake.host}/a:1")
    assert (len(fake.seen), slept) == (1, [])


def test_throttling_is_retried_here(fake: Fake) -> None:
    fake.on(".", Reply(429, headers={"Retry-After": "1"}), Reply(200, b"{}"))
    assert ours(fake).get_manifest("1") is not None


def test_bodies_travel_twice_with_basic(fake: Fake, tmp_path: Path) -> None:
    def guarded(seen: Seen) -> Reply:
        if seen.headers.get("Authorization") != BASIC:
            return Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        return Reply(404 if seen.method == "HEAD" else 202, headers={"Location": "/upload"})

    fake.on(".", guarded)
    (tmp_path / "blob").write_bytes(b"content")
    layer = {"digest": digest_of(b"content"), "size": 7}
    plain("basic").upload_blob(str(tmp_path / "blob"), f"{fake.host}/a:1", layer)
    assert [one.body for one in fake.seen if one.method == "PUT"] == [b"content", b"content"]
    fake.seen.clear()
    ours(fake).push_blob(digest_of(b"content"), 7, b"content")
    assert [one.body for one in fake.seen if one.method == "PUT"] == [b"content"]


def test_one_token_is_kept_for_all_repositories(fake: Fake) -> None:
    scopes: list[str] = []
    tokens(fake, fake.host, scopes)
    library = plain()
    library.get_manifest(f"{fake.host}/one/a:1")
    with pytest.raises(ValueError, match="Unauthorized"):
        library.get_manifest(f"{fake.host}/two/b:1")
    via = patient(fake.host)
    for name in ("one/a", "two/b"):
        assert Repository(via.transport, Reference(fake.host, name)).get_manifest("1") is not None


def test_an_expired_ecr_token_costs_minutes(fake: Fake, slept: list[float]) -> None:
    fake.on(".", Reply(403, EXPIRED))
    with pytest.raises(ValueError, match="Cannot respond"):
        plain().get_manifest(f"{fake.host}/a:1")
    assert sum(slept) > 120
    fake.seen.clear()
    with pytest.raises(TokenExpiredError):
        ours(fake).get_manifest("1")
    assert len(fake.seen) == 1


def test_a_basic_challenge_costs_minutes(fake: Fake, slept: list[float]) -> None:
    """ECR's challenge names a realm that is no token service; the library asks it for a token anyway."""
    challenge = {"WWW-Authenticate": f'Basic realm="http://{fake.host}/",service="ecr.amazonaws.com"'}

    def guarded(seen: Seen) -> Reply:
        allowed = seen.headers.get("Authorization") == BASIC
        return Reply(200, b"{}") if allowed else Reply(401, headers=challenge)

    fake.on(".", guarded)
    library = plain()
    library.auth.set_basic_auth("AWS", "secret-word")
    with pytest.raises(ValueError, match="Cannot respond"):
        library.get_manifest(f"{fake.host}/a:1")
    assert sum(slept) > 120
    assert any(one.path.startswith("/?") or one.path == "/" for one in fake.seen)
    fake.seen.clear()
    assert ours(fake).get_manifest("1") is not None
    assert len(fake.seen) == 1


def test_a_server_that_never_answers_is_waited_for_without_end() -> None:
    """The library names no timeout, so that its thread ends with the connection, and no sooner."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        thread = threading.Thread(target=lambda: suppressed(plain().get_manifest, f"{host}/a:1"), daemon=True)
        thread.start()
        connection, _ = silent.accept()
        transport = Transport(frozenset({host}), Patience(attempts=1, read=0.1))
        with pytest.raises(UnreachableError, match="no answer in time"):
            Repository(transport, Reference(host, "a")).get_manifest("1")
        thread.join(0.3)
        assert thread.is_alive()
        # Ended by its server; what it tries again is refused.
        silent.close()
        connection.close()
        thread.join(10)
        assert not thread.is_alive()


def suppressed(call: Callable[[str], object], argument: str) -> None:
    with suppress(Exception):
        call(argument)


def test_a_push_holds_the_whole_file(docker_host: str, tmp_path: Path) -> None:
    size = 30_000_000
    path = tmp_path / "large"
    path.write_bytes(bytes(size))
    digest = digest_of(bytes(size))
    library = oras.provider.Registry(insecure=True, auth_backend="basic")
    library.auth.set_basic_auth("AWS", "right-password")
    target = Registry("docker-registry", docker_host, "AWS", "right-password")

    def peak(call: Callable[[], object]) -> int:
        tracemalloc.start()
        call()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    layer = {"digest": digest, "size": size}
    assert peak(lambda: library.upload_blob(str(path), f"{docker_host}/aicr/l:1", layer)) > size
    with path.open("rb") as file:
        assert peak(lambda: target.repository("aicr/o").push_blob(digest, size, file)) < 4_000_000


@pytest.mark.parametrize(
    "host",
    [
        "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn",
        "123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
        "123456789012.dkr-ecr.eu-central-1.on.aws",
        "123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu",
    ],
)
def test_half_of_ecr_is_not_known_by_its_host(host: str) -> None:
    """The library knows one form; here the host is what ECR itself says, and is recognised in each."""

    class Ecr:
        def get_authorization_token(self) -> dict[str, Any]:
            token, until = base64.b64encode(b"AWS:p").decode(), datetime(2030, 1, 1, tzinfo=UTC)
            data = {"authorizationToken": token, "expiresAt": until, "proxyEndpoint": f"https://{host}"}
            return {"authorizationData": [data]}

    assert EcrAuth.AWS_ECR_PATTERN.fullmatch(host) is None
    assert EcrAuth.AWS_ECR_REALM_PATTERN.fullmatch(f"https://{host}/") is None
    found = fetch_token(Ecr())
    assert found.host == host
    assert parse_ecr_host(found.host) is not None


def test_a_manifest_is_written_anew(fake: Fake) -> None:
    manifest = (
        b'{ "schemaVersion": 2, "config": {"mediaType":"a/b","digest":"sha256:0","size":1}, '
        b'"layers": [], "mediaType": "application/vnd.oci.image.manifest.v1+json" }'
    )
    fake.on("^PUT", Reply(201))
    fake.on("^HEAD", Reply(200, headers={"Docker-Content-Digest": digest_of(manifest)}))
    library = plain()
    library.upload_manifest(json.loads(manifest), library.get_container(f"{fake.host}/a:1"))
    assert fake.seen[-1].body != manifest
    ours(fake).push_manifest(manifest, MANIFEST, "1")
    assert [one.body for one in fake.seen if one.method == "PUT"][-1] == manifest


def test_a_manifest_without_media_type_is_refused(fake: Fake, tmp_path: Path) -> None:
    """helm 4 writes none, so every chart that helm pushed is such a manifest."""
    from oras.layout.layout import Layout  # type: ignore[import-untyped]

    manifest = b'{"schemaVersion":2,"config":{"mediaType":"a/b","digest":"sha256:0","size":1},"layers":[]}'
    fake.on(
        "^GET", Reply(200, manifest, {"Content-Type": MANIFEST, "Docker-Content-Digest": digest_of(manifest)})
    )
    with pytest.raises(ValueError, match="Unsupported manifest mediaType"):
        Layout(str(tmp_path), validate=False).pull_from_registry(plain(), f"{fake.host}/a:1")
    found = ours(fake).get_manifest("1")
    assert found is not None
    assert (found.media_type, found.content) == (MANIFEST, manifest)


def test_an_upload_address_elsewhere_gets_the_password(fake: Fake, other: Fake, tmp_path: Path) -> None:
    fake.on("^HEAD", Reply(404))
    fake.on("^POST", Reply(202, headers={"Location": f"http://{other.host}/upload"}))
    other.on(".", Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'}))
    (tmp_path / "blob").write_bytes(b"content")
    plain("basic").upload_blob(
        str(tmp_path / "blob"), f"{fake.host}/a:1", {"digest": digest_of(b"content"), "size": 7}
    )
    assert BASIC in [one.headers.get("Authorization") for one in other.seen]
    other.seen.clear()
    with pytest.raises(DeniedError):
        ours(fake, "a", other.host).push_blob(digest_of(b"content"), 7, b"content")
    assert [one.headers.get("Authorization") for one in other.seen] == [None]


def test_redirects_drop_the_password_there_too(fake: Fake, other: Fake) -> None:
    """No defect: ``requests`` guards downloads. Kept, so that a change is noticed."""
    fake.on("^GET /v2", Reply(307, headers={"Location": f"http://{other.host}/storage"}))
    other.on(".", Reply(200, b"content"))
    library = plain()
    library.session.get(f"http://{fake.host}/v2/x", headers={"Authorization": BASIC}, timeout=5)
    assert [one.headers.get("Authorization") for one in other.seen] == [None]


def test_importing_the_library_s_client_is_what_the_adapter_saves() -> None:
    """Its module brings ``requests`` and ``jsonschema``; the adapter must bring neither, nor pydantic."""
    heavy = "{'requests', 'jsonschema', 'boto3', 'pydantic'}"
    code = f"import sys, aicr_pipeline.adapters.mirror; print({heavy} & set(sys.modules))"
    layer = Path(__file__).parents[3] / "layers" / "aicr_pipeline" / "python"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=layer, capture_output=True, text=True, timeout=60
    )
    assert answer.stdout.strip() == "set()", answer.stderr
