"""Whatever breaks on the way, the registry ends as if nothing had: the same tags, manifests and blobs.

One chart of a Helm repository and one of a registry, both with provenance, and one wrapper go over through
proxies that break one request by its number. A run that ends in a ``TransientError`` is run again, as the
state machines do.
"""

import base64
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.adapters.ecr import EcrCredentials
from aicr_pipeline.adapters.mirror import Destination, MirrorResult
from aicr_pipeline.decide.chart_package import PROVENANCE_TYPE, digest_of
from aicr_pipeline.errors import TransientError

from local.registry import LocalRegistry, MemoryStore, TokenIssuer
from local.upstream.standins import standin_chart
from tests.functional.registry.charts import in_registry, indexed, upstream
from tests.functional.registry.conftest import Patient, docker_registry, patient
from tests.functional.registry.fake import Reply, Seen
from tests.functional.registry.fault_proxy import Fault, Faults, before
from tests.functional.registry.mirror_process import Job, Killable, killable
from tests.functional.registry.states import State, in_docker_registry, in_memory

CHARTS = (indexed("from-index"), in_registry("from-registry"))
#: 11 for the chart of the index, 12 for the one of a registry, 6 for the wrapper.
REQUESTS = 29
WRAPPER = {"Chart.yaml": "apiVersion: v2\nname: own\nversion: 0.1.0\n", "templates/a.yaml": "a: 1\n"}


@dataclass
class World:
    """Publishers and a registry, each behind a proxy of one numbering."""

    faults: Faults
    job: Job
    hosts: tuple[str, str]
    look: Callable[[str], State]
    issuer: TokenIssuer | None = None
    clock: list[float] = field(default_factory=lambda: [1000.0])
    calm: State = field(default_factory=State)
    #: The requests of an undisturbed run.
    lines: list[str] = field(default_factory=list)

    def fresh(self) -> Job:
        """The same job for a place of its own in the registry."""
        return replace(self.job, prefix=f"aicr/{uuid.uuid4().hex[:8]}")

    def run(self, job: Job, runs: int = 3) -> tuple[list[MirrorResult], Patient, int]:
        """Run until it does not break: the results, the waits, the runs it took."""
        via = patient(*self.hosts)
        for run in range(1, runs + 1):
            try:
                return job.run(via.transport), via, run
            except TransientError as error:
                problem = error
        raise problem

    def settled(self, job: Job) -> None:
        """The final state is the calm one, and one more run changes and pushes nothing."""
        assert self.look(job.prefix) == self.calm
        self.faults.start_over()
        results, _, _ = self.run(job, 1)
        assert [result.pushed for result in results] == [False] * 3
        assert len(self.faults.seen) == 5
        assert self.look(job.prefix) == self.calm

    def measure(self) -> None:
        """The undisturbed run."""
        job = self.fresh()
        self.faults.start_over()
        results, _, _ = self.run(job, 1)
        assert [result.pushed for result in results] == [True] * 3
        self.lines = [line.replace(job.prefix, "PREFIX") for line in self.faults.lines()]
        self.calm = self.look(job.prefix)
        assert (len(self.calm.tags), len(self.calm.manifests), len(self.calm.blobs)) == (3, 3, 8)
        assert len(self.lines) == REQUESTS
        self.settled(job)


def signed(chart: str, archive: str) -> bytes:
    """A provenance file that speaks of the archive; nobody's keys are configured here."""
    return (
        f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nname: {chart}\nversion: 1.2.3\n\n...\n"
        f"files:\n  {chart}-1.2.3.tgz: {archive}\n-----BEGIN PGP SIGNATURE-----\n\nwsF=\n"
        "-----END PGP SIGNATURE-----\n"
    ).encode()


def world(stack: ExitStack, host: str, user: str, password: str, look: Callable[[str], State]) -> World:
    up = stack.enter_context(upstream(*CHARTS))
    archive = digest_of(standin_chart("from-index", "1.2.3"))
    up._files["charts.example.com/stable/from-index-1.2.3.tgz.prov"] = signed("from-index", archive)
    place = "ghcr.example/org/from-registry"
    held = up._store.manifest(place, "1.2.3")
    assert held is not None
    document = json.loads(held[0])
    digest = up._store.put_blob(place, b"-----BEGIN PGP SIGNED MESSAGE-----")
    document["layers"].append({"mediaType": PROVENANCE_TYPE, "digest": digest, "size": 34})
    up._store.put_manifest(place, "1.2.3", json.dumps(document).encode(), held[1])
    faults = Faults()
    theirs = next(iter(up.upstreams.values())).partition("://")[2].partition("/")[0]
    sources, target = (stack.enter_context(before(one, faults)) for one in (theirs, host))
    upstreams = {name: address.replace(theirs, sources) for name, address in up.upstreams.items()}
    charts = tuple((one.chart, one.repo, one.version) for one in CHARTS)
    job = Job(target, "aicr/none", user, password, upstreams, charts, "own", WRAPPER)
    found = World(faults, job, (target, sources), look)
    found.measure()
    return found


@pytest.fixture(scope="module")
def memory() -> Iterator[World]:
    clock = [1000.0]
    issuer, store = TokenIssuer(clock=lambda: clock[0]), MemoryStore()
    with ExitStack() as stack:
        local = stack.enter_context(LocalRegistry(issuer, store))
        user, password, _ = issuer.issue(lifetime=timedelta(days=300))
        found = world(stack, local.host, user, password, lambda prefix: in_memory(store, prefix))
        found.issuer, found.clock = issuer, clock
        yield found


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("docker-registry")
    with ExitStack() as stack:
        host = stack.enter_context(docker_registry(folder))
        look = lambda prefix: in_docker_registry(folder / "data", prefix)  # noqa: E731
        yield world(stack, host, "AWS", "right-password", look)


@pytest.fixture(params=["memory", "docker"])
def each(request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def process() -> Iterator[Killable]:
    with killable() as found:
        yield found


def only(number: int, fault: Fault, times: int = 1) -> Callable[[int, Seen], Fault | None]:
    return lambda at, seen: fault if number <= at < number + times else None


class Ecr:
    """GetAuthorizationToken of the registry of one machine."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer
        self.asked = 0

    def get_authorization_token(self) -> dict[str, Any]:
        self.asked += 1
        user, password, _ = self.issuer.issue()
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        until = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(hours=12)
        return {
            "authorizationData": [
                {"authorizationToken": token, "expiresAt": until, "proxyEndpoint": "https://h"}
            ]
        }


def ours(lines: list[str]) -> list[int]:
    """The requests that go to the cluster's registry."""
    return [number for number, line in enumerate(lines) if "/PREFIX/" in line]


def test_a_token_that_ends_before_any_request_is_renewed(memory: World) -> None:
    assert memory.issuer is not None
    assert len(ours(memory.lines)) == 22
    for number in ours(memory.lines):

        def thirteen_hours_pass() -> None:
            memory.clock[0] += 13 * 3600

        job, ecr = memory.fresh(), Ecr(memory.issuer)
        memory.faults.start_over(only(number, Fault(before=thirteen_hours_pass)))
        # The function's own clock has noticed nothing, as when a token is revoked or the clocks differ.
        credentials = EcrCredentials(ecr, lambda: datetime(2030, 1, 1, tzinfo=UTC))
        transport = patient(*memory.hosts).transport
        results = job.into(Destination(job.host, job.prefix, transport, credentials, job.upstreams))
        assert [result.pushed for result in results] == [True] * 3
        # Of two requests under way both may be refused, and one asks for the new token.
        assert ecr.asked == 2 or number < 2, memory.lines[number]  # the first may be asked after it ended
        assert len(memory.faults.seen) - REQUESTS in (ecr.asked - 1, 2), memory.lines[number]
        assert memory.look(job.prefix) == memory.calm
    memory.settled(job)


TOO_MANY = b'{"errors":[{"code":"TOOMANYREQUESTS","message":"Rate exceeded"}]}'


@pytest.mark.parametrize(
    ("reply", "waits", "step"),
    [
        (Reply(429, TOO_MANY), [0.6, 1.2], 1),
        (Reply(429, TOO_MANY, {"Retry-After": "7"}), [7.6, 8.2], 2),
        (Reply(503, b"<html>"), [0.6, 1.2], 4),
    ],
    ids=["429", "429 with Retry-After", "503"],
)
def test_a_registry_that_refuses_for_a_while_is_waited_for(
    memory: World, reply: Reply, waits: list[float], step: int
) -> None:
    verbs = set()
    for number in range(0, REQUESTS, step):
        job = memory.fresh()
        memory.faults.start_over(only(number, Fault(reply=reply), 2))
        _, via, runs = memory.run(job, 1)
        # One request waits twice, or each of two under way once.
        assert (runs, len(memory.faults.seen)) == (1, REQUESTS + 2)
        assert via.slept in (waits, [waits[0]] * 2)
        verbs.add(memory.lines[number].split()[0])
        assert memory.look(job.prefix) == memory.calm
    assert verbs >= {"GET", "POST", "PUT"}


def test_a_registry_that_refuses_for_longer_is_left_for_later(memory: World) -> None:
    for number in range(0, REQUESTS, 9):
        job = memory.fresh()
        # Nine, so that one of two requests under way is refused the five times it bears.
        memory.faults.start_over(only(number, Fault(reply=Reply(429, TOO_MANY)), 9))
        assert memory.run(job)[2] == 2
        memory.settled(job)


def test_a_throttle_that_is_called_a_bad_request_is_left_for_later(memory: World) -> None:
    for number in ours(memory.lines)[::4]:
        job = memory.fresh()
        refused: list[Seen] = []

        def throttle(at: int, seen: Seen, first: int = number, done: list[Seen] = refused) -> Fault | None:
            # The answer to HEAD has no body that could say so.
            if at < first or done or seen.method == "HEAD" or not seen.path.startswith("/v2/aicr/"):
                return None
            done.append(seen)
            return Fault(reply=Reply(400, TOO_MANY))

        memory.faults.start_over(throttle)
        assert memory.run(job)[2] == 2
        memory.settled(job)


@pytest.mark.parametrize("cut", ["answer", "body", "lost"])
def test_a_connection_that_is_cut_changes_nothing(each: World, cut: str) -> None:
    fault = {
        "answer": Fault(half_answer=True),  # of a blob, a manifest or an index
        "body": Fault(half_body=True),  # of an upload
        "lost": Fault(lost=True),  # after the registry stored it: a tag that cannot move is there already
    }[cut]
    verbs = {"answer": ("GET",), "body": ("PUT",), "lost": ("GET", "HEAD", "POST", "PUT")}[cut]
    numbers = [number for number, line in enumerate(each.lines) if line.split()[0] in verbs]
    assert len(numbers) == {"answer": 8, "body": 11, "lost": REQUESTS}[cut]
    # docker-registry takes its time to write; there a part of the moments must do.
    for number in numbers[:: 1 if each.issuer else 6]:
        job = each.fresh()
        each.faults.start_over(only(number, fault))
        results, _, runs = each.run(job)
        assert runs <= 2
        assert {result.tag for result in results} == {tag for _, tag in each.calm.tags}
        assert each.look(job.prefix) == each.calm
    each.settled(job)


def kills(lines: list[str], process: Killable) -> Iterator[tuple[int, Fault]]:
    """Every moment: before each request, which is after the one before it, in two uploads, and at the end."""
    for number in range(len(lines)):
        yield number, Fault(before=process.kill, reply=Reply(503))
    for number in [number for number, line in enumerate(lines) if line.startswith("PUT")][1::5]:
        yield number, Fault(before=process.kill, half_body=True)
    yield len(lines) - 1, Fault(after=process.kill, lost=True)


def test_a_process_that_is_killed_at_any_point_is_followed_by_one_that_finishes(
    memory: World, process: Killable
) -> None:
    moments = 0
    for number, fault in kills(memory.lines, process):
        job = memory.fresh()
        memory.faults.start_over(only(number, fault))
        assert process.run(job) == -9, memory.lines[number]
        assert len(memory.faults.seen) - number in (1, 2)
        memory.faults.start_over()
        memory.run(job, 1)
        assert memory.look(job.prefix) == memory.calm
        moments += 1
    assert moments == REQUESTS + 2 + 1
    job = memory.fresh()
    memory.faults.start_over()
    assert process.run(job) == 0
    memory.settled(job)


def test_a_process_killed_at_a_real_registry_is_followed_by_one_that_finishes(
    docker: World, process: Killable
) -> None:
    for number, fault in list(kills(docker.lines, process))[::11]:
        job = docker.fresh()
        docker.faults.start_over(only(number, fault))
        assert process.run(job) == -9
        docker.faults.start_over()
        docker.run(job, 1)
        assert docker.look(job.prefix) == docker.calm
