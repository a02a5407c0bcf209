"""The command that mirrors one chart: its exit status and its JSON are what scripts read."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from aicr_pipeline.adapters.chart_sources import ChartSources
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.decide.chart_package import digest_of, pack, tag_of
from aicr_pipeline.model.plan import UpstreamSource

from local.helm import helm_binary
from local.registry import LocalRegistry, MemoryStore, Scope, TokenIssuer
from local.upstream import UpstreamCharts
from local.upstream.standins import standin_chart
from tests.functional.registry.charts import chart_name, in_registry, indexed, upstream
from tests.functional.registry.conftest import patient
from tests.functional.registry.fake import Fake, Reply, Seen
from tests.functional.registry.mirror_command import LAYER, USER, Place


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[str, TokenIssuer]]:
    issuer = TokenIssuer()
    with LocalRegistry(issuer, MemoryStore()) as registry:
        yield registry.host, issuer


@pytest.fixture
def place(running: tuple[str, TokenIssuer], tmp_path: Path) -> Place:
    found = Place(*running, tmp_path)
    found.log_in()
    return found


def addresses(up: UpstreamCharts) -> list[str]:
    return list(up.upstreams.values())


def test_new_then_unchanged_from_an_index(place: Place) -> None:
    source = indexed(chart_name())
    with upstream(source) as up:
        (repo,) = addresses(up)
        first = place.mirror(repo, "--chart", source.chart)
        assert (first.returncode, first.stderr) == (0, "")
        at = f"oci://{place.host}/aicr/demo/charts/{source.chart}"
        assert first.stdout.startswith(f"mirrored: {source.chart} 1.2.3\n  at        {at}:1.2.3\n")
        assert f"  content   {digest_of(standin_chart(source.chart, '1.2.3'))}\n" in first.stdout
        assert "  pushed    2 blobs and manifest\n  skipped   nothing\n" in first.stdout
        second = place.mirror(repo, "--chart", source.chart, "--verbose")
        assert second.returncode == 0
        unchanged = (
            "  pushed    nothing\n  skipped   blobs and manifest: there already\nrequests 2, retries 0, "
        )
        assert unchanged in second.stdout
        assert sorted(second.stdout.splitlines()[-2:]) == sorted(
            [
                f"  200 GET  {repo}/index.yaml",
                f"  200 GET  http://{place.host}/v2/aicr/demo/charts/{source.chart}/manifests/1.2.3",
            ]
        )


def test_json_of_a_chart_from_a_registry(place: Place) -> None:
    source = in_registry(chart_name(), "1.2.3+b.4")
    with upstream(source) as up:
        (address,) = addresses(up)
        folder, _, name = address.rpartition("/")
        printed = [
            json.loads(place.quick(given, *chart, "--json", version="1.2.3+b.4").stdout)
            for given, chart in ((address, ()), (folder, ("--chart", name)))
        ]
    first, second = printed
    assert (first["status"], second["status"]) == ("mirrored", "unchanged")
    assert (first["pushed"], first["skipped"]) == (["2 blobs", "manifest"], [])
    assert (second["pushed"], second["skipped"]) == ([], ["blobs", "manifest"])
    assert (first["chart"], first["version"], first["tag"]) == (name, "1.2.3+b.4", tag_of("1.2.3+b.4"))
    same = ("repository", "tag", "manifestDigest", "contentDigest", "mediaType", "chart", "version")
    assert [first[key] for key in same] == [second[key] for key in same]
    assert [len(first["requests"]), len(second["requests"])] == [9, 2]
    assert all(set(one) == {"method", "address", "status"} for one in first["requests"])
    assert not [one for one in first["requests"] if "?" in one["address"]]
    assert first["sent"] > len(standin_chart(name, "1.2.3+b.4"))
    assert first["retries"] == 0


def test_a_folder_of_archives(place: Place, tmp_path: Path) -> None:
    chart = chart_name()
    (tmp_path / "any-name.tgz").write_bytes(standin_chart(chart, "1.2.3"))
    found = json.loads(place.quick(str(tmp_path), "--chart", chart, "--json").stdout)
    assert found["status"] == "mirrored"
    assert found["contentDigest"] == digest_of(standin_chart(chart, "1.2.3"))
    absent = place.quick(".", "--chart", chart, version="1.2.4")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert absent.stderr.startswith("refused: ChartSourceUnsupported\n")


def test_progress_is_for_terminals(place: Place) -> None:
    source = indexed(chart_name())
    main, terminal = pty.openpty()
    with upstream(source) as up:
        (repo,) = addresses(up)
        arguments = ["--from", repo, "--chart", source.chart, "--version", "1.2.3", "--plain-http"]
        done = subprocess.run(
            [sys.executable, "-m", "aicr_pipeline.mirror", *arguments, "--to", f"oci://{place.host}/aicr/demo"],
            stdout=subprocess.PIPE, stderr=terminal, text=True, timeout=60,
            env={"PYTHONPATH": str(LAYER), "DOCKER_CONFIG": str(place.folder)},
        )  # fmt: skip
    shown = os.read(main, 65536).decode().splitlines()
    os.close(main)
    os.close(terminal)
    assert done.returncode == 0
    assert any(line.startswith(f"Reading the chart index {repo}/index.yaml (") for line in shown[:2])
    assert any(line.startswith("Pushing the manifest oci://") for line in shown)
    place.require_clean("\n".join(shown))


def refused(done: subprocess.CompletedProcess[str], code: int) -> tuple[str, str | None, str]:
    """Reason, kind and message of a refusal as ``--json`` prints it."""
    assert (done.returncode, done.stderr) == (code, "")
    found = json.loads(done.stdout)
    assert found["status"] == {1: "refused", 3: "transient"}[code]
    assert found["see"] == f"docs/registry.md#{found['reason'].lower()}"
    return found["reason"], found["kind"], found["message"]


def errors(code: str, message: str = "") -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()


def test_refusals_of_a_real_registry(place: Place) -> None:
    source = in_registry(chart_name())
    issuer = place.issuer
    with upstream(source) as up:
        (address,) = addresses(up)

        place.log_in(password="not-the-right-password")
        assert refused(place.quick(address, "--json"), 1)[:2] == ("Unauthorized", "Denied")

        place.log_in(password=issuer.issue(lifetime=timedelta(seconds=-1))[1])
        assert refused(place.quick(address, "--json"), 1)[0] in ("RegistryCredentialsStale", "Unauthorized")

        place.log_in(password=issuer.issue([Scope("aicr/demo", frozenset({"pull"}))])[1])
        reason, kind, message = refused(place.quick(address, "--json"), 1)
        assert (reason, kind) == ("Unauthorized", "Denied")
        assert "not authorized to perform: push" in message

        place.write({})
        assert refused(place.mirror(address, "--json"), 1)[:2] == ("Unauthorized", "Denied")

        place.log_in()
        assert refused(place.quick(address, "--json", version="9.9.9"), 1)[0] == "ChartSourceUnsupported"
        assert place.quick(address).returncode == 0


def test_a_tag_that_holds_something_else(place: Place, tmp_path: Path) -> None:
    source = indexed(chart_name())
    with upstream(source) as up:
        (repo,) = addresses(up)
        assert place.quick(repo, "--chart", source.chart).returncode == 0
    archive = tmp_path / "charts" / "c.tgz"
    archive.parent.mkdir()
    chart_yaml = f"name: {source.chart}\nversion: 1.2.3\n".encode()
    archive.write_bytes(pack(source.chart, {"Chart.yaml": chart_yaml}))
    with upstream(source, charts_dir=archive.parent) as up:
        (repo,) = addresses(up)
        reason, _, message = refused(place.quick(repo, "--chart", source.chart, "--json"), 1)
        assert reason == "Conflict"
        assert digest_of(archive.read_bytes()) in message
        done = place.mirror(repo, "--chart", source.chart)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("refused: Conflict\n  oci://")
        assert "\n  see docs/registry.md#conflict\nrequests 2, retries 0, " in done.stderr


@pytest.mark.parametrize(
    ("pattern", "reply", "code", "reason", "kind"),
    [
        ("^POST ", Reply(404, errors("NAME_UNKNOWN")), 1, "InvalidConfiguration", "RepositoryMissing"),
        ("^PUT .*/manifests/", Reply(400, errors("X", "immutable")), 1, "Conflict", "TagImmutable"),
        ("^PUT .*/manifests/", Reply(415, errors("UNSUPPORTED")), 1, "ChartSourceUnsupported", "Unsupported"),
        ("^PUT .*/uploads/", Reply(400, errors("DIGEST_INVALID")), 1, "ChartInvalid", "DigestMismatch"),
        ("^POST ", Reply(403, errors("DENIED", "no")), 1, "Unauthorized", "Denied"),
        (
            "^POST ", Reply(403, errors("DENIED", "Your authorization token has expired.")),
            1, "RegistryCredentialsStale", "TokenExpired",
        ),
        ("^POST ", Reply(503, b"", {"Retry-After": "100"}), 3, "RegistryUnreachable", "Unreachable"),
        ("^POST ", Reply(429, b"", {"Retry-After": "100"}), 3, "RegistryUnreachable", "Throttled"),
    ],
)  # fmt: skip
def test_refusals_no_registry_here_gives(
    fake: Fake, place: Place, pattern: str, reply: Reply, code: int, reason: str, kind: str
) -> None:
    source = indexed(chart_name())
    fake.on(pattern, reply)
    fake.on(
        "^POST ", Reply(202, b"", {"Location": f"http://{fake.host}/v2/x/blobs/uploads/1?state=secret-state"})
    )
    fake.on("^PUT .*/uploads/", Reply(201))
    place.log_in(fake.host)
    place.host = fake.host
    place.passwords.append("secret-state")
    with upstream(source) as up:
        (repo,) = addresses(up)
        done = place.quick(repo, "--chart", source.chart, "--json")
    assert refused(done, code)[:2] == (reason, kind)
    assert len(json.loads(done.stdout)["requests"]) >= 4
    assert [one.headers.get("Authorization") for one in fake.seen].count(None) == 0


def test_what_may_pass_by_itself(place: Place, fake: Fake) -> None:
    fake.on("GET /index.yaml", Reply(500, b"", {"Retry-After": "100"}))
    done = place.mirror(f"http://{fake.host}", "--chart", "x", "--verbose")
    assert (done.returncode, done.stdout) == (3, "")
    first, *rest = done.stderr.splitlines()
    assert first == "try again: RegistryUnreachable (Unreachable)"
    assert rest[1] == "  see docs/registry.md#registryunreachable"
    assert rest[2].startswith("requests 2, retries 0, bytes sent 0, ")
    asked = [f"http://{fake.host}/index.yaml", f"http://{place.host}/v2/aicr/demo/charts/x/manifests/1.2.3"]
    assert sorted(rest[3:]) == [f"  404 GET  {asked[1]}", f"  500 GET  {asked[0]}"]


def test_a_source_that_wants_a_password(place: Place) -> None:
    """Both sides are looked up by their hosts: here the publisher is a registry with Basic auth."""
    source = in_registry(chart_name())
    with upstream(source) as up:
        (address,) = addresses(up)
        assert place.quick(address).returncode == 0
    # What was just mirrored is the source now.
    theirs = f"oci://{place.host}/aicr/demo/charts/{source.chart.rpartition('/')[2]}"
    to = ("--to", f"oci://{place.host}/copy", "--version", "1.2.3", "--plain-http", "--json")
    assert json.loads(place.call("--from", theirs, *to).stdout)["status"] == "mirrored"
    place.write({})
    assert refused(place.call("--from", theirs, *to), 1)[0] == "Unauthorized"


def index(chart: str, url: str) -> bytes:
    return f"entries:\n  {chart}:\n  - version: 1.2.3\n    urls: ['{url}']\n".encode()


def test_a_helm_repository_that_wants_a_password(place: Place, fake: Fake) -> None:
    chart = chart_name()
    fake.on("GET /index.yaml", Reply(200, index(chart, "c.tgz")))
    fake.on("GET /c.tgz$", Reply(200, standin_chart(chart, "1.2.3")))
    place.log_in(place.host, fake.host)
    done = place.quick(f"http://{fake.host}", "--chart", chart, "--json")
    assert done.returncode == 0, done.stdout
    assert sorted((one.path, "Authorization" in one.headers) for one in fake.seen) == [
        ("/c.tgz", True), ("/c.tgz.prov", True), ("/index.yaml", True)
    ]  # fmt: skip


def test_an_index_cannot_have_our_password_sent_elsewhere(fake: Fake, other: Fake) -> None:
    """Not even to a host that we have a password for: a publisher is not to choose what we fetch with it."""
    chart = chart_name()
    fake.on("GET /index.yaml", Reply(200, index(chart, f"http://{other.host}/c.tgz")))
    other.on("GET /c.tgz$", Reply(200, standin_chart(chart, "1.2.3")))
    transport = patient(fake.host, other.host).transport
    sources = ChartSources(transport, credentials=lambda host: FixedCredentials("me", "secret-word"))
    source = UpstreamSource(chart=chart, repo=f"http://{fake.host}", version="1.2.3")
    sources.fetch_indexed(sources.find_indexed(source))
    assert ["Authorization" in one.headers for one in (*fake.seen, *other.seen)] == [True, False]


@pytest.mark.parametrize(
    "config",
    [
        {"credHelpers": {"HOST": "ecr-login"}},
        {"credsStore": "desktop", "auths": {"HOST": {}}},
        {"auths": {"HOST": {"identitytoken": "secret-word"}}},
        {"auths": {"HOST": {"auth": "secret-word"}}},
        {"auths": []},
        ["secret-word"],
    ],
)
def test_a_configuration_that_cannot_be_used(place: Place, config: object, tmp_path: Path) -> None:
    place.write(json.loads(json.dumps(config).replace("HOST", place.host)))
    place.passwords.append("secret-word")
    (tmp_path / "c.tgz").write_bytes(b"")
    reason, _, message = refused(place.quick("oci://127.0.0.1:1/x/y", "--json"), 1)
    assert reason == "RegistryCredentialsUnavailable"
    assert message.startswith(f"Reading registry credentials from {tmp_path / 'config.json'}: ")


def test_what_a_server_says_does_not_reach_the_terminal_as_it_is(fake: Fake, place: Place) -> None:
    source = indexed(chart_name())
    fake.on("^POST ", Reply(403, errors("DENIED", "no \x1b[2J\x07\u009b\u202e\ud800 way")))
    place.log_in(fake.host)
    place.host = fake.host
    with upstream(source) as up:
        (repo,) = addresses(up)
        done = place.quick(repo, "--chart", source.chart, "--verbose")
    assert done.returncode == 1
    assert "the registry answered 403 (no \\x1b[2J\\x07\\x9b\\u202e\\ud800 way); check" in done.stderr


def test_an_interruption_is_a_sentence(place: Place, fake: Fake) -> None:
    asked, ended = threading.Event(), threading.Event()

    def wait(seen: Seen) -> Reply:
        asked.set()
        ended.wait(30)
        return Reply(500)

    fake.on("GET /index.yaml", wait)
    arguments = place.arguments(f"http://{fake.host}", "--chart", "x")
    running = subprocess.Popen(
        [sys.executable, "-m", "aicr_pipeline.mirror", *arguments], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={"PYTHONPATH": str(LAYER), "DOCKER_CONFIG": str(place.folder)},
    )  # fmt: skip
    try:
        assert asked.wait(30)
        running.send_signal(signal.SIGINT)
        printed = running.communicate(timeout=30)
    finally:
        ended.set()
        running.kill()
    assert (running.returncode, printed[0]) == (130, "")
    assert printed[1].startswith("interrupted: ")
    place.require_clean(printed[1])


def test_a_reader_that_hangs_up_changes_no_exit_status(place: Place) -> None:
    source = indexed(chart_name())
    reader, writer = os.pipe()
    os.close(reader)
    with upstream(source) as up:
        (repo,) = addresses(up)
        done = subprocess.run(
            [sys.executable, "-m", "aicr_pipeline.mirror", *place.arguments(repo, "--chart", source.chart)],
            stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60,
            env={"PYTHONPATH": str(LAYER), "DOCKER_CONFIG": str(place.folder)},
        )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_that_skopeo_and_helm_write(place: Place, docker_host: str, tmp_path: Path) -> None:
    """Against Debian's docker-registry; its answers without a password are refusals."""
    skopeo = shutil.which("skopeo")
    if skopeo is None:
        pytest.skip("skopeo is not installed (apt-get install skopeo): its file was not tried")
    place.host = docker_host
    place.passwords.append("right-password")
    source, again = in_registry(chart_name()), indexed(chart_name())
    helms = tmp_path / "helm.json"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    log_in = ["--username", USER, "--password-stdin", docker_host]
    with upstream(source, again) as up:
        address, repo = up.upstreams[source.chart], up.upstreams[again.repo]
        place.write({})
        assert refused(place.quick(address, "--json"), 1)[:2] == ("Unauthorized", "Denied")
        for command_line, file in (
            (
                [skopeo, "login", "--tls-verify=false", "--authfile", f"{tmp_path}/config.json"],
                "DOCKER_CONFIG",
            ),
            ([helm_binary(), "registry", "login", "--plain-http", "--registry-config", helms], "helm"),
        ):
            done = subprocess.run(
                [*command_line, *log_in], input="right-password", capture_output=True, text=True, timeout=60,
                env=environment,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            if file == "DOCKER_CONFIG":
                assert json.loads(place.quick(address, "--json").stdout)["status"] == "mirrored"
                place.write({})
        arguments = place.arguments(repo, "--chart", again.chart, "--json")
        printed = subprocess.run(
            [sys.executable, "-m", "aicr_pipeline.mirror", *arguments],
            capture_output=True, text=True, timeout=60,
            env=environment | {"PYTHONPATH": str(LAYER), "HELM_REGISTRY_CONFIG": str(helms)},
        )  # fmt: skip
    place.require_clean(printed.stdout + printed.stderr)
    assert json.loads(printed.stdout)["status"] == "mirrored"
