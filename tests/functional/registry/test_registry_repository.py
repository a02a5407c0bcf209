"""One repository: exact bytes, checked digests, refusals that are never read as absence."""

import hashlib
import http.client
import io
import json
import subprocess
import tracemalloc
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
import urllib3
from aicr_pipeline.adapters.registry import Reference, Repository, parse_reference
from aicr_pipeline.adapters.registry_auth import FixedCredentials, basic
from aicr_pipeline.adapters.registry_errors import (
    DeniedError,
    DigestMismatchError,
    RepositoryMissingError,
    TagImmutableError,
    TokenExpiredError,
)
from aicr_pipeline.decide.chart_package import CONFIG_TYPE, CONTENT_TYPE, digest_of
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from local.registry import FileStore, LocalRegistry, Scope, TokenIssuer
from tests.functional.registry.conftest import Registry, patient

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def name() -> str:
    return f"aicr/demo/charts/a-{uuid.uuid4().hex[:8]}"


def push(repository: Repository, tag: str = "1.0.0") -> tuple[bytes, str]:
    """A manifest written as no serialiser would write it, without mediaType, as helm pushes them."""
    config, content = b'{"name":"a"}', b"content"
    repository.push_blob(digest_of(config), len(config), config)
    repository.push_blob(digest_of(content), len(content), io.BytesIO(content))
    manifest = (
        f'{{ "schemaVersion":2,\n"config":{{"mediaType":"{CONFIG_TYPE}",'
        f'"digest":"{digest_of(config)}","size":12}},'
        f'"layers":[{{"size":7,"digest":"{digest_of(content)}","mediaType":"{CONTENT_TYPE}"}}] }}'
    ).encode()
    return manifest, repository.push_manifest(manifest, MANIFEST, tag)


def test_a_manifest_comes_back_byte_for_byte(registry: Registry) -> None:
    repository = registry.repository(name())
    manifest, digest = push(repository)
    assert digest == digest_of(manifest)
    for reference in ("1.0.0", digest):
        found = repository.get_manifest(reference)
        assert found is not None
        assert (found.content, found.media_type, found.digest) == (manifest, MANIFEST, digest)
        assert repository.head_manifest(reference) == digest


def test_a_blob_comes_back_and_is_known(registry: Registry) -> None:
    repository = registry.repository(name())
    content = b"x" * 3_000_000
    repository.push_blob(digest_of(content), len(content), io.BytesIO(content))
    assert repository.blob_exists(digest_of(content))
    sink = io.BytesIO(b"left over")
    repository.get_blob(digest_of(content), len(content), sink)
    assert sink.getvalue() == content


def test_what_is_not_there_is_none(registry: Registry) -> None:
    repository = registry.repository(name())
    push(repository)
    absent = digest_of(b"absent")
    assert repository.head_manifest("2.0.0") is None
    assert repository.get_manifest("2.0.0") is None
    assert repository.get_manifest(absent) is None
    assert not repository.blob_exists(absent)


def test_a_repository_that_is_not_there_is_told_from_a_tag_that_is_not(registry: Registry) -> None:
    repository = registry.repository(name())
    assert repository.head_manifest("1.0.0") is None  # HEAD has no body to tell them apart
    if registry.kind == "docker-registry":  # says MANIFEST_UNKNOWN either way
        assert repository.get_manifest("1.0.0") is None
        return
    with pytest.raises(RepositoryMissingError, match="no such repository"):
        repository.get_manifest("1.0.0")


@pytest.mark.parametrize("operation", ["head", "get", "blob", "push blob", "push manifest"])
def test_a_wrong_password_is_never_absence(registry: Registry, operation: str) -> None:
    reference = Reference(registry.host, name())
    repository = Repository(patient(registry.host).transport, reference, FixedCredentials("AWS", "wrong"))
    calls = {
        "head": lambda: repository.head_manifest("1"),
        "get": lambda: repository.get_manifest("1"),
        "blob": lambda: repository.blob_exists(digest_of(b"")),
        "push blob": lambda: repository.push_blob(digest_of(b""), 0, b""),
        "push manifest": lambda: repository.push_manifest(b"{}", MANIFEST, "1"),
    }
    with pytest.raises(DeniedError) as caught:
        calls[operation]()
    assert caught.value.reason == Reason.Unauthorized
    assert "wrong" not in caught.value.message


def test_bytes_that_are_not_their_digest_are_not_taken(registry: Registry) -> None:
    repository = registry.repository(name())
    with pytest.raises(DigestMismatchError):
        repository.push_blob(digest_of(b"promised"), 9, b"delivered")


def test_a_blob_of_another_size_is_not_kept(registry: Registry) -> None:
    repository = registry.repository(name())
    repository.push_blob(digest_of(b"content"), 7, b"content")
    for size in (6, 8):
        sink = io.BytesIO()
        with pytest.raises(DigestMismatchError):
            repository.get_blob(digest_of(b"content"), size, sink)
        assert sink.getvalue() == b""


def test_requests_are_counted_exactly_and_credentials_go_with_the_first(registry: Registry) -> None:
    repository = registry.repository(name())
    push(repository)
    assert repository.counters.requests == 5  # two blobs of two requests, one manifest
    assert repository.counters.retries == 0


def test_a_push_streams(docker_host: str, tmp_path: Path) -> None:
    # Only there: the registry of one machine shares this process and its memory.
    registry = Registry("docker-registry", docker_host, "AWS", "right-password")
    path, chunk = tmp_path / "large", b"y" * 1_000_000
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(40):
            file.write(chunk)
            digest.update(chunk)
    repository = registry.repository(name())
    tracemalloc.start()
    with path.open("rb") as file:
        repository.push_blob(f"sha256:{digest.hexdigest()}", 40_000_000, file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000, peak


def test_helm_reads_what_this_client_pushed(registry: Registry, tmp_path: Path) -> None:
    from aicr_pipeline.decide.chart_package import helm_config, helm_manifest

    from local.helm import helm_binary
    from local.upstream.standins import standin_chart

    chart = f"chart-{uuid.uuid4().hex[:8]}"
    repository = registry.repository(f"aicr/demo/charts/{chart}")
    archive = standin_chart(chart, "1.2.3+build.4")
    config = helm_config({"name": chart, "version": "1.2.3+build.4", "apiVersion": "v2"})
    for blob in (config, archive):
        repository.push_blob(digest_of(blob), len(blob), blob)
    manifest = helm_manifest((digest_of(config), len(config)), (digest_of(archive), len(archive)))
    repository.push_manifest(manifest, MANIFEST, "1.2.3_build.4")
    access = ["--plain-http", "--username", registry.user, "--password", registry.password]
    address = f"oci://{registry.host}/aicr/demo/charts/{chart}"
    pulled = subprocess.run(
        [helm_binary(), "pull", address, "--version", "1.2.3+build.4", *access, "-d", tmp_path],
        capture_output=True, text=True, timeout=60, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert pulled.returncode == 0, pulled.stderr
    assert (tmp_path / f"{chart}-1.2.3+build.4.tgz").read_bytes() == archive


# ECR's own habits, which docker-registry does not have.


def test_tags_of_charts_do_not_move_even_for_the_same_manifest() -> None:
    issuer = TokenIssuer()
    with LocalRegistry(issuer) as local:
        user, password, _ = issuer.issue()
        registry = Registry("memory", local.host, user, password)
        repository = registry.repository("aicr/demo/charts/a")
        push(repository)
        with pytest.raises(TagImmutableError) as caught:
            push(repository)
        assert caught.value.reason == Reason.Conflict
        bundles = registry.repository("aicr/demo/bundles/demo")
        push(bundles)
        push(bundles)


def test_a_password_ends_by_the_clock_and_is_called_stale() -> None:
    now = [1000.0]
    issuer = TokenIssuer(clock=lambda: now[0])
    with LocalRegistry(issuer) as local:
        user, password, until = issuer.issue(lifetime=timedelta(minutes=5))
        assert until.timestamp() == 1300
        repository = Registry("memory", local.host, user, password).repository("aicr/demo/charts/a")
        push(repository)
        now[0] = 1300
        with pytest.raises(TokenExpiredError) as caught:
            repository.get_manifest("1.0.0")
        assert caught.value.reason == Reason.RegistryCredentialsStale


@pytest.mark.parametrize(
    ("scopes", "repository", "pulls", "pushes"),
    [
        ([Scope("aicr/demo", frozenset({"pull", "push"}))], "aicr/demo/charts/a", True, True),
        ([Scope("aicr/demo/charts/*", frozenset({"pull"}))], "aicr/demo/charts/a", True, False),
        ([Scope("aicr/demo/charts", frozenset({"pull"}))], "aicr/demo/charts-other/a", False, False),
        ([Scope("aicr/demo", frozenset({"pull"}))], "aicr/demo2/charts/a", False, False),
        ([Scope("aicr/evidence/*-1", frozenset({"pull", "push"}))], "aicr/evidence/r-1-1", True, True),
        ([Scope("aicr/evidence/*-1", frozenset({"push"}))], "aicr/evidence/r-1-binding", False, False),
        ([], "aicr/demo/charts/a", False, False),
    ],
)
def test_a_password_reaches_as_far_as_it_says(
    scopes: list[Scope], repository: str, pulls: bool, pushes: bool
) -> None:
    issuer = TokenIssuer()
    with LocalRegistry(issuer) as local:
        everything = Registry("memory", local.host, *issuer.issue()[:2])
        push(everything.repository(repository), "0.1.0")
        limited = Registry("memory", local.host, *issuer.issue(scopes)[:2]).repository(repository)
        for allowed, call in (
            (pulls, lambda: limited.get_manifest("0.1.0")),
            (pushes, lambda: limited.push_blob(digest_of(b"n"), 1, b"n")),
        ):
            if allowed:
                call()
            else:
                with pytest.raises(DeniedError):
                    call()


@pytest.mark.parametrize("path", ["blobs/../../x", "manifests/../x", "blobs/sha256:zz", "manifests/a/b"])
def test_paths_do_not_leave_the_store(files_registry: Registry, path: str) -> None:
    # http.client sends the path as it is; others tidy it first.
    connection = http.client.HTTPConnection(files_registry.host, timeout=5)
    headers = {"Authorization": basic(files_registry.user, files_registry.password)}
    connection.request("GET", f"/v2/aicr/demo/charts/a/{path}", headers=headers)
    assert connection.getresponse().status in (400, 404)
    connection.close()


def test_passwords_cannot_be_made_up() -> None:
    user, password, _ = TokenIssuer().issue()
    assert TokenIssuer().read(user, password) is None
    issuer = TokenIssuer(secret=b"one")
    body, _, signature = issuer.issue()[1].partition(".")
    assert issuer.read("AWS", f"{body}.{signature}") is not None
    assert issuer.read("AWS", f"{body[:-4]}AAAA.{signature}") is None
    assert issuer.read("admin", f"{body}.{signature}") is None


@pytest.mark.parametrize(
    "text", ["oci://chart", "chart", "oci://h.example/a:1", "oci://h.example/a@sha256:00", ""]
)
def test_addresses_need_a_host_and_no_tag(text: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_reference(text)
    assert caught.value.reason == Reason.ChartSourceUnsupported


def test_docker_hub_answers_under_another_name() -> None:
    assert parse_reference("oci://docker.io/library/a") == Reference("registry-1.docker.io", "library/a")


def test_public_ecr_is_no_destination() -> None:
    repository = Repository(patient().transport, Reference("public.ecr.aws", "x/y"))
    for call in (
        lambda: repository.push_blob(digest_of(b""), 0, b""),
        lambda: repository.push_manifest(b"{}", MANIFEST, "1"),
    ):
        with pytest.raises(PipelineError) as caught:
            call()
        assert caught.value.reason == Reason.InvalidConfiguration


# What clients other than ours do: the same requests against every registry.


class Http:
    """Requests as they are, with the right password."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.pool = urllib3.PoolManager(retries=False)

    def __call__(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> urllib3.BaseHTTPResponse:
        url = path if path.startswith("http") else f"http://{self.registry.host}{path}"
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Authorization"] = basic(self.registry.user, self.registry.password)
        return self.pool.request(method, url, body=body, headers=sent, timeout=10)


def test_uploads_may_come_in_pieces(registry: Registry) -> None:
    http, repository = Http(registry), name()
    answer = http("POST", f"/v2/{repository}/blobs/uploads/", Content_Length="0")
    for at, piece in ((0, b"first "), (6, b"second")):
        where = answer.headers["Location"]
        answer = http(
            "PATCH", where, piece, Content_Range=f"{at}-{at + 5}", Content_Type="application/octet-stream"
        )
        assert (answer.status, answer.headers["Range"]) == (202, f"0-{at + 5}")
    where = answer.headers["Location"]
    digest = digest_of(b"first second")
    done = http("PUT", f"{where}{'&' if '?' in where else '?'}digest={digest}")
    assert (done.status, done.headers["Docker-Content-Digest"]) == (201, digest)
    part = http("GET", f"/v2/{repository}/blobs/{digest}", Range="bytes=6-")
    assert (part.status, part.data) == (206, b"second")


def test_a_mount_from_elsewhere_becomes_an_upload(registry: Registry) -> None:
    query = f"mount={digest_of(b'absent')}&from=aicr/other"
    answer = Http(registry)("POST", f"/v2/{name()}/blobs/uploads/?{query}", Content_Length="0")
    assert answer.status == 202


def test_tags_are_listed(registry: Registry) -> None:
    repository = name()
    push(registry.repository(repository), "1.0.0")
    push(registry.repository(repository), "0.9.0")
    listed = json.loads(Http(registry)("GET", f"/v2/{repository}/tags/list").data)
    assert (listed["name"], sorted(listed["tags"])) == (repository, ["0.9.0", "1.0.0"])


def test_without_a_password_the_way_in_is_named(registry: Registry) -> None:
    answer = urllib3.request(
        "GET", f"http://{registry.host}/v2/{name()}/manifests/1", retries=False, timeout=10
    )
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")


def test_a_manifest_without_its_blobs_is_not_taken(registry: Registry) -> None:
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(b"never pushed"), "size": 12},
        "layers": [],
    }
    answer = Http(registry)(
        "PUT", f"/v2/{name()}/manifests/1", json.dumps(document).encode(), Content_Type=MANIFEST
    )
    assert answer.status in (400, 404)
    assert b"BLOB_UNKNOWN" in answer.data


def test_a_folder_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    issuer = TokenIssuer()
    user, password, _ = issuer.issue()
    repository = name()
    with LocalRegistry(issuer, FileStore(tmp_path)) as local:
        manifest, digest = push(Registry("files", local.host, user, password).repository(repository))
    with LocalRegistry(issuer, FileStore(tmp_path)) as local:
        again = Registry("files", local.host, user, password).repository(repository)
        found = again.get_manifest("1.0.0")
        assert found is not None
        assert (found.content, found.digest, found.media_type) == (manifest, digest, MANIFEST)
        assert again.blob_exists(digest_of(b"content"))
    assert not list(tmp_path.rglob(".*"))
