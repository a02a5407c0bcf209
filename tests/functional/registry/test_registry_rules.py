"""The rules of mirroring and every refusal, each with its exact reason and kind of error.

======================================================================  ===================================
Rule                                                                     Shown in ``test_registry_…``
======================================================================  ===================================
exact manifest bytes, Content-Type, all layers, read back                repository, answers, captured
look first, tag last, never overwrite, immutable tags                    mirror, ends, here
identity from inside the archive; only ``+`` is rewritten                mirror, sources, captured, here
https indexes: addresses, digests, duplicates, pages, encodings          https, sources; unit helm_index
hostile archives                                                         hostile; unit chart_archive
redirects: five, https only, without credentials                         https, answers
403 is not 404; different errors for different causes                    here, answers, token_service
wrappers: same input, same digest                                        mirror, captured; unit chart_archive
referrers are never needed                                               here
partitions and forms of ECR's hosts                                      oras_defects; unit ecr_host
expired tokens, throttling, cut connections, killed processes            ends, tokens
======================================================================  ===================================
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import yaml
from aicr_pipeline.adapters.http import ThrottledError, UnreachableError
from aicr_pipeline.adapters.mirror import Destination, mirror_chart
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.adapters.registry_errors import (
    DeniedError,
    DigestMismatchError,
    RepositoryMissingError,
    TagImmutableError,
    TokenExpiredError,
    UnsupportedError,
)
from aicr_pipeline.decide.chart_package import CONFIG_TYPE, CONTENT_TYPE, digest_of
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.model.reasons import Reason

from local.upstream.standins import standin_chart
from tests.functional.registry.charts import chart_name, destination, in_registry, indexed, upstream
from tests.functional.registry.conftest import Registry, patient
from tests.functional.registry.fake import Fake, Reply, Seen
from tests.functional.registry.test_registry_answers import MANIFEST, client, error

LOOK_UPS, WRITES = ("head", "get", "blob head", "blob get"), ("post", "blob put", "put")


def call(repository: Repository, verb: str) -> object:
    """One operation, whose decisive request is of that kind."""
    digest = digest_of(b"x")
    calls: dict[str, Callable[[], object]] = {
        "head": lambda: repository.head_manifest("1.0.0"),
        "get": lambda: repository.get_manifest("1.0.0"),
        "blob head": lambda: repository.blob_exists(digest),
        "blob get": lambda: repository.get_blob(digest, 1, io.BytesIO()),
        "post": lambda: repository.push_blob(digest, 1, b"x"),
        "blob put": lambda: repository.push_blob(digest, 1, b"x"),
        "put": lambda: repository.push_manifest(b"{}", MANIFEST, "1.0.0"),
    }
    return calls[verb]()


@dataclass(frozen=True)
class Refusal:
    """What ECR answers, and what that must become for a look-up (with a body) and for a write."""

    status: int
    body: bytes
    look_up: tuple[type[PipelineError], Reason] | None
    write: tuple[type[PipelineError], Reason]
    #: In the message.
    says: str = ""


DENIED, STALE = (DeniedError, Reason.Unauthorized), (TokenExpiredError, Reason.RegistryCredentialsStale)
THROTTLED, DOWN = (
    (ThrottledError, Reason.RegistryUnreachable),
    (UnreachableError, Reason.RegistryUnreachable),
)
UNSUPPORTED = (UnsupportedError, Reason.ChartSourceUnsupported)
TAKEN = (TagImmutableError, Reason.Conflict)
ECR = {
    "no credentials": Refusal(401, b"no basic auth credentials", DENIED, DENIED),
    "not authorized": Refusal(401, b"Not Authorized\n", DENIED, DENIED),
    "expired": Refusal(
        403, error("DENIED", "Your authorization token has expired. Reauthenticate and try again."), STALE,
        STALE, "refresh the credentials",
    ),
    "expired, as docker quotes it": Refusal(
        403, b"denied: Your authorization token has expired. Reauthenticate and try again.", STALE, STALE,
    ),
    "denied": Refusal(
        403, error("DENIED", "User: arn:aws:sts::1:role/x is not authorized to perform: ecr:PutImage on "
                   "resource: arn:aws:ecr:eu-central-1:1:repository/immutable/a"),
        DENIED, DENIED, "ecr:PutImage",
    ),
    "no repository": Refusal(
        404, error("NAME_UNKNOWN", "The repository with name 'immutable/a' does not exist in the registry"),
        (RepositoryMissingError, Reason.ChartSourceUnsupported),
        (RepositoryMissingError, Reason.InvalidConfiguration), "The repository with name",
    ),
    "no repository, without a word": Refusal(
        404, b"", None, (RepositoryMissingError, Reason.InvalidConfiguration),
    ),
    "rate": Refusal(429, error("TOOMANYREQUESTS", "Rate exceeded"), THROTTLED, THROTTLED, "throttling"),
    "rate, called a bad request": Refusal(
        400, error("TOOMANYREQUESTS", "Rate exceeded"), THROTTLED, THROTTLED, "throttling"
    ),
    "server": Refusal(500, error("ServerException"), DOWN, DOWN),
    "unsupported": Refusal(405, error("UNSUPPORTED", "Invalid parameter"), UNSUPPORTED, UNSUPPORTED),
    "teapot": Refusal(
        418, b"<html>", (PipelineError, Reason.ChartSourceUnsupported),
        (PipelineError, Reason.ChartSourceUnsupported),
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", [*LOOK_UPS, *WRITES])
@pytest.mark.parametrize("name", ECR)
def test_each_refusal_on_each_verb(fake: Fake, name: str, verb: str) -> None:
    refusal = ECR[name]
    if verb == "blob put":
        fake.on("^POST", Reply(202, headers={"Location": "/v2/aicr/a/blobs/uploads/1"}))
    fake.on(".", Reply(refusal.status, refusal.body))
    # HEAD has no body, so that only its status can speak.
    silent = verb in ("head", "blob head")
    wanted = refusal.write if verb in WRITES else refusal.look_up
    if silent:
        plain = {401: DENIED, 403: DENIED, 404: None, 429: THROTTLED, 500: DOWN, 405: UNSUPPORTED}
        wanted = plain.get(refusal.status, (PipelineError, Reason.ChartSourceUnsupported))
    elif verb == "blob get" and wanted is None:
        wanted = (PipelineError, Reason.ChartSourceUnsupported)  # a manifest named it
    via = patient(fake.host, attempts=2)
    if wanted is None:
        assert not call(client(fake, via=via), verb)
        return
    with pytest.raises(PipelineError) as caught:
        call(client(fake, via=via), verb)
    assert (type(caught.value), caught.value.reason) == wanted
    assert "oci://" in caught.value.message and "secret-word" not in caught.value.message
    if not silent:
        assert refusal.says in caught.value.message


@pytest.mark.parametrize(
    ("status", "body", "wanted"),
    [
        (400, error("TAG_INVALID", "The image tag '1.0.0' already exists in the 'a' repository and cannot be "
                    "overwritten because the repository is immutable."), TAKEN),
        (400, error("ImageTagAlreadyExistsException", "x"), TAKEN),
        (400, error("INVALID", "ImageAlreadyExistsException: Image with digest and tag exists"), TAKEN),
        (409, error("DENIED", "tag is immutable"), TAKEN),
        (400, error("MANIFEST_INVALID", "Invalid JSON"), UNSUPPORTED),
        (415, b"", UNSUPPORTED),
        (400, error("MANIFEST_BLOB_UNKNOWN", "Image layers not found"), DOWN),
        (404, error("MANIFEST_BLOB_UNKNOWN", "Image layers not found"), DOWN),
        (400, error("DIGEST_INVALID"), (DigestMismatchError, Reason.ChartInvalid)),
        (400, error("SIZE_INVALID"), (DigestMismatchError, Reason.ChartInvalid)),
        (403, error("DENIED", "the lifecycle of immutable-things does not allow it"), DENIED),
    ],
)  # fmt: skip
def test_a_manifest_that_is_refused(
    fake: Fake, status: int, body: bytes, wanted: tuple[type[PipelineError], Reason]
) -> None:
    fake.on(".", Reply(status, body))
    with pytest.raises(PipelineError) as caught:
        call(client(fake), "put")
    assert (type(caught.value), caught.value.reason) == wanted
    assert len(fake.seen) == 1


def test_a_layer_that_is_there_already_is_no_problem(fake: Fake) -> None:
    fake.on("^POST", Reply(202, headers={"Location": "/v2/aicr/a/blobs/uploads/1"}))
    fake.on("^HEAD", Reply(200))
    fake.on("^PUT", Reply(400, error("INVALID", "LayerAlreadyExistsException: already exists")))
    call(client(fake), "blob put")
    assert [line.split()[0] for line in fake.lines()] == ["POST", "PUT", "HEAD"]


def test_an_upload_that_is_lost_again_and_again_is_left_for_later(fake: Fake) -> None:
    fake.on("^POST", Reply(202, headers={"Location": "/v2/aicr/a/blobs/uploads/1"}))
    fake.on("^HEAD", Reply(404))
    fake.on("^PUT", Reply(404, error("BLOB_UPLOAD_UNKNOWN")))
    with pytest.raises(UnreachableError, match="lost the upload twice"):
        call(client(fake), "blob put")
    assert len(fake.seen) == 6


# Never overwrite.


class Racing:
    """A registry in which somebody puts a manifest while we push ours."""

    def __init__(self, fake: Fake, theirs: bytes | None) -> None:
        self.put: list[bytes] = []

        def tag(seen: Seen) -> Reply:
            if seen.method == "PUT":
                self.put.append(seen.body)
                return Reply(400, error("TAG_INVALID", "ImageTagAlreadyExistsException"))
            if not self.put:
                return Reply(404, error("NAME_UNKNOWN"))
            return Reply(200, headers={"Docker-Content-Digest": digest_of(theirs or self.put[0])})

        fake.on("/uploads/$", Reply(202, headers={"Location": "/upload"}))
        fake.on("^PUT /upload", Reply(201))
        fake.on("/manifests/", tag)


@pytest.mark.parametrize("theirs", [None, b'{"of": "others"}'])
def test_a_tag_that_was_taken_meanwhile(fake: Fake, theirs: bytes | None) -> None:
    racing = Racing(fake, theirs)
    with upstream(indexed("app")) as up:
        registry = Registry("fake", fake.host, "AWS", "secret-word")
        target = destination(registry, up)
        if theirs is None:  # the same: ours, whose first answer was lost, or another's of the same chart
            assert not mirror_chart(indexed("app"), target).pushed
            return
        with pytest.raises(PipelineError, match="nothing was overwritten") as caught:
            mirror_chart(indexed("app"), target)
    assert (type(caught.value), caught.value.reason) == (PipelineError, Reason.Conflict)
    assert digest_of(theirs) in caught.value.message and digest_of(racing.put[0]) in caught.value.message
    assert len(racing.put) == 1


# Identity and names.


def publisher(fake: Fake, registry: Registry, archive: bytes) -> Destination:
    """A registry that serves one archive under every name and tag."""
    config = b"{}"
    document = {
        "schemaVersion": 2,
        "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(config), "size": len(config)},
        "layers": [{"mediaType": CONTENT_TYPE, "digest": digest_of(archive), "size": len(archive)}],
    }
    fake.on("/manifests/", Reply(200, json.dumps(document).encode(), {"Content-Type": MANIFEST}))
    fake.on(f"/blobs/{digest_of(config)}", Reply(200, config))
    fake.on("/blobs/", Reply(200, archive))
    transport = patient(fake.host, registry.host).transport
    names = {"oci://ghcr.example": f"oci://{fake.host}"}
    return Destination(registry.host, f"aicr/{chart_name()}", transport, registry.credentials, names)


@pytest.mark.parametrize(
    ("inside", "asked", "tag"),
    [
        ("1.0.0+x.1", "1.0.0+x.1", "1.0.0_x.1"),
        ("1.0.0+x.1", "v1.0.0+x.1", "1.0.0_x.1"),
        ("v1.2", "v1.2", "v1.2"),
        ("1.2", "1.2", "1.2"),
        ("01.02.003", "01.02.003", "01.02.003"),
        ("1.0.0-RC.1", "1.0.0-RC.1", "1.0.0-RC.1"),
    ],
)
@pytest.mark.parametrize("make", [indexed, in_registry])
def test_versions_stay_as_the_archive_writes_them(
    fake: Fake,
    memory_registry: Registry,
    make: Callable[[str, str], UpstreamSource],
    inside: str,
    asked: str,
    tag: str,
) -> None:
    archive = standin_chart("app", inside)
    target = publisher(fake, memory_registry, archive)
    entry = {"version": inside, "urls": ["app.tgz"]}
    fake.on("index.yaml", Reply(200, yaml.safe_dump({"entries": {"app": [entry]}}).encode()))
    fake.on("^GET /stable/app.tgz$", Reply(200, archive))
    upstreams = {**target.upstreams, "https://charts.example.com": f"http://{fake.host}"}
    target = Destination(target.host, target.prefix, target.transport, target.credentials, upstreams)
    result = mirror_chart(make("app", asked), target)
    assert (result.tag, result.chart_version, result.pushed) == (tag, inside, True)


@pytest.mark.parametrize(
    ("inside", "asked"),
    [("1.0.0_x", "1.0.0+x"), ("1.2.0", "1.2"), ("1.2.3", "01.2.3"),
     ("1.0.0", "1.0.0+x")],
)  # fmt: skip
def test_versions_that_are_only_alike_are_refused_naming_both(
    fake: Fake, memory_registry: Registry, inside: str, asked: str
) -> None:
    target = publisher(fake, memory_registry, standin_chart("app", inside))
    with pytest.raises(PipelineError) as caught:
        mirror_chart(in_registry("app", asked), target)
    assert (type(caught.value), caught.value.reason) == (PipelineError, Reason.ChartInvalid)
    assert f"chart app {asked}," in caught.value.message and f"holds app {inside};" in caught.value.message


@pytest.mark.parametrize("make", [indexed, in_registry])
@pytest.mark.parametrize("name", ["App", "my_chart__", "a--b/../c", "chart."])
def test_names_no_registry_takes_are_refused_before_anything_is_fetched(
    fake: Fake, memory_registry: Registry, make: Callable[[str], UpstreamSource], name: str
) -> None:
    target = publisher(fake, memory_registry, standin_chart("app", "1.2.3"))
    entries = {"entries": {name: [{"version": "1.2.3", "urls": ["app.tgz"]}]}}
    fake.on("index.yaml", Reply(200, json.dumps(entries).encode()))
    upstreams = {**target.upstreams, "https://charts.example.com": f"http://{fake.host}"}
    target = Destination(target.host, target.prefix, target.transport, target.credentials, upstreams)
    with pytest.raises(PipelineError) as caught:
        mirror_chart(make(name), target)
    assert (type(caught.value), caught.value.reason) == (PipelineError, Reason.ChartSourceUnsupported)
    assert not any("/blobs/" in line or line.endswith(".tgz") for line in fake.lines())


IMAGE = "application/vnd.oci.image.config.v1+json"


@pytest.mark.parametrize(
    "document",
    [
        {"config": {"mediaType": IMAGE, "digest": digest_of(b"{}"), "size": 2}, "layers": []},
        {"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []},
        {"schemaVersion": 1, "fsLayers": []},
        {"config": {"mediaType": CONFIG_TYPE, "digest": digest_of(b"{}"), "size": 2},
         "layers": [{"mediaType": CONTENT_TYPE, "digest": digest_of(b"%d" % n), "size": 1} for n in (1, 2)]},
    ],
    ids=["image", "index of images", "schema 1", "two charts"],
)  # fmt: skip
def test_a_chart_that_is_something_else_is_refused(fake: Fake, document: dict[str, object]) -> None:
    fake.on(".", Reply(200, json.dumps(document).encode(), {"Content-Type": MANIFEST}))
    names = {"oci://ghcr.example": f"oci://{fake.host}"}
    target = Destination(fake.host, "aicr/x", patient(fake.host).transport, None, names)
    with pytest.raises(PipelineError, match=r"not the manifest of one chart|not one Helm chart") as caught:
        mirror_chart(in_registry("app"), target)
    assert (type(caught.value), caught.value.reason) == (PipelineError, Reason.ChartSourceUnsupported)
    assert {one.method for one in fake.seen} <= {"GET", "HEAD"}


def test_a_publisher_without_the_repository_is_told_from_one_without_the_version(fake: Fake) -> None:
    names = {"oci://ghcr.example": f"oci://{fake.host}"}
    target = Destination(fake.host, "aicr/x", patient(fake.host).transport, None, names)
    fake.on("/gone/", Reply(404, error("NAME_UNKNOWN")))
    fake.on("/app/", Reply(404, error("MANIFEST_UNKNOWN")))
    with pytest.raises(RepositoryMissingError, match="there is no such repository"):
        mirror_chart(in_registry("gone"), target)
    with pytest.raises(PipelineError, match=r"has no version 1\.2\.3") as caught:
        mirror_chart(in_registry("app"), target)
    assert type(caught.value) is PipelineError


# Where to.


@pytest.mark.parametrize(
    "host", ["public.ecr.aws", "public.ecr.aws:443", "public.ecr.aws.", "Public.ECR.aws"]
)
@pytest.mark.parametrize("verb", WRITES)
def test_a_public_registry_is_no_destination(host: str, verb: str) -> None:
    repository = Repository(patient().transport, Reference(host, "x/y"), FixedCredentials("AWS", "p"))
    with pytest.raises(PipelineError, match="is public") as caught:
        call(repository, verb)
    assert (type(caught.value), caught.value.reason) == (PipelineError, Reason.InvalidConfiguration)
    assert repository.counters.requests == 0


def test_referrers_are_never_asked_for(fake: Fake) -> None:
    fake.on("referrers", Reply(405, error("UNSUPPORTED")))
    Racing(fake, None)
    with upstream(in_registry("app")) as up:
        mirror_chart(in_registry("app"), destination(Registry("fake", fake.host, "AWS", "p"), up))
    assert not [line for line in fake.lines() if "referrers" in line or line.endswith("/v2/")]
