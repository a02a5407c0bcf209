"""17 charts into an empty registry and once more, by us and by others, near and 30 ms away.

Source and destination are servers of Debian's, the same for all; a contender is a whole process, from its
start to its end; rounds are interleaved, and what is printed are medians. ``docs/benchmarks.md`` explains.
"""

import compileall
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import urllib3
from aicr_pipeline.decide.chart_package import MANIFEST_TYPE, digest_of

from tests.bench import contenders
from tests.bench.charts import BenchChart, bench_charts, large_chart, large_index
from tests.bench.contenders import PREFIX, Job, Wanted, run
from tests.bench.costs import index_costs
from tests.bench.imports import LAYER
from tests.bench.servers import PASSWORD, USER, Requests, chart_repository, delayed, program, registry

ROUNDS = 5
ROUND_TRIP_MS = 30
LINKS = {"loopback": 0.0, f"{ROUND_TRIP_MS} ms": ROUND_TRIP_MS / 2}
COLD, UNCHANGED = "nothing there", "all there"
NEW_REQUESTS, SAME_REQUESTS, PEAK_MB = 11, 2, 64
LARGE_MB, INDEX_MB = 50, 15
INDEX_SECONDS, INDEX_PEAK_MB = 1.0, 30

Command = Callable[[Job], list[str]]
BY_SOURCE: dict[str, dict[str, Command]] = {
    "registry": {
        "ours": contenders.ours,
        "ours+boto3": contenders.ours_with_boto3,
        "urllib3": contenders.urllib3_pool,
        "skopeo": contenders.skopeo,
        "helm": contenders.helm,
        "oras-py": contenders.plain_oras,
    },
    "https": {"ours": contenders.ours, "urllib3": contenders.urllib3_pool, "helm": contenders.helm},
}
CONTENDERS = tuple(BY_SOURCE["registry"])
#: (source, link, state) to what ours may take of whom.
_AGAINST = {("registry", "loopback", COLD): 0.45, ("registry", "30 ms", COLD): 0.1}
YARDSTICK = 1.15


@dataclass
class Figures:
    """All measurements of one contender in one situation."""

    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    peak: list[float] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


Situation = tuple[str, str, str]
Table = dict[Situation, dict[str, Figures]]


@dataclass(frozen=True)
class Publishers:
    """Both kinds of source, filled: addresses on loopback, and the requests they saw."""

    registry: str
    repository: str
    requests: tuple[Requests, Requests]

    def wanted(self, charts: list[BenchChart], source: str, address: str) -> tuple[Wanted, ...]:
        """The charts as bundles name them, at an address that may be far away."""
        if source == "registry":
            return tuple(Wanted(c.name, f"oci://{address}/src/{c.name}", "", c.version) for c in charts)
        return tuple(Wanted(c.name, c.name, f"http://{address}/{c.name}", c.version) for c in charts)


def mirror(rounds: int, names: Collection[str]) -> bool:
    """Measure and print; whether all is within the budgets.

    Parameters
    ----------
    rounds:
        Measured ones; one more goes before them.
    names:
        The contenders wanted, ours aside; empty for all.
    """
    missing = [name for name in ("docker-registry", "nginx", "skopeo") if program(name) is None]
    if missing:
        print(
            f"\nmirror: skipped, {', '.join(missing)} not installed (apt-get install, or make test as root)"
        )
        return True
    for folder in (LAYER, Path(__file__).parent):
        compileall.compile_dir(folder, quiet=1)
    charts, large = bench_charts(), large_chart(LARGE_MB)
    size = sum(len(chart.archive) for chart in charts)
    print(f"\nmirror: {len(charts)} charts, {size / 1e6:.1f} MB; median of {rounds} interleaved rounds")
    # In memory where the system has a folder there: it is not the disk that is measured.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as text:
        folder = Path(text)
        folder.chmod(0o755)  # nginx's worker is somebody else
        with _publishers(folder, [*charts, large]) as publishers:
            table = _rounds(charts, publishers, folder, rounds, {"ours", *(names or CONTENDERS)})
            fits = [_print_table(table, len(charts))]
            fits.append(_large(large, publishers, folder))
            fits.append(_index(publishers, folder))
    return all(fits)


@contextmanager
def _publishers(folder: Path, charts: list[BenchChart]) -> Iterator[Publishers]:
    files = {}
    for chart in charts:
        archive = f"{chart.name}-{chart.version}.tgz"
        files[f"{chart.name}/{archive}"] = chart.archive
        files[f"{chart.name}/index.yaml"] = _index_of(chart, archive)
    files["large-index/index.yaml"] = large_index(INDEX_MB)
    with (
        registry(folder / "source", guarded=False) as (host, there),
        chart_repository(folder / "repository", files) as (repository, asked),
    ):
        for chart in charts:
            _seed(host, chart)
        yield Publishers(host, repository, (there, asked))


def _rounds(
    charts: list[BenchChart], publishers: Publishers, folder: Path, rounds: int, names: set[str]
) -> Table:
    table: Table = defaultdict(lambda: defaultdict(Figures))
    warm: Table = defaultdict(lambda: defaultdict(Figures))
    for at in range(rounds + 1):
        # The warm-up is there for files and caches, which are the same on every link.
        for link in LINKS if at else ["loopback"]:
            with delayed(LINKS[link], publishers.registry, publishers.repository) as (near, index):
                for source, address in (("registry", near), ("https", index)):
                    wanted = publishers.wanted(charts, source, address)
                    for name, command in BY_SOURCE[source].items():
                        if name not in names:
                            continue
                        states = (COLD,) if name == "helm" else (COLD, UNCHANGED)
                        with _destination(folder, link) as (host, plain, asked):
                            job = Job(host, wanted, plain)
                            for state in states:
                                figures = (table if at else warm)[source, link, state][name]
                                _measure(command, job, figures, (*publishers.requests, asked))
                            if not at and not _arrived(host, charts):
                                raise RuntimeError(f"{name} from {source}: not all charts arrived")
    return table


_made = iter(range(1_000_000))


@contextmanager
def _destination(folder: Path, link: str) -> Iterator[tuple[str, Path, Requests]]:
    """An empty registry of its own for each measurement: address, a folder for the contender, requests."""
    own = folder / f"destination-{next(_made)}"
    with (
        registry(own / "registry", guarded=True) as (host, asked),
        delayed(LINKS[link], host) as (address,),
    ):
        yield address, own, asked
    shutil.rmtree(own)


def _measure(command: Command, job: Job, figures: Figures, requests: tuple[Requests, ...]) -> None:
    for one in requests:
        one.restart()
    cost = run(command(job), job)
    figures.requests.append(sum(one.count() for one in requests))
    figures.seconds.append(cost.seconds)
    figures.busy.append(cost.busy)
    figures.peak.append(cost.peak)


def _print_table(table: Table, charts: int) -> bool:
    fits = True
    for situation, row in table.items():
        source, link, state = situation
        ours = row["ours"]
        print(f"\n  from {source}, {link}, {state}")
        print(f"    {'':12} {'seconds':>8} {'ours is':>9} {'of CPU':>8} {'peak MB':>8} {'requests':>9}")
        for name, figures in row.items():
            ratio = ours.median / figures.median
            budget = YARDSTICK if name == "urllib3" else 0.0
            budget = _AGAINST.get(situation, 0.0) if name == "skopeo" else budget
            over = bool(budget) and ratio > budget
            fits &= not over
            note = f"  (budget {budget} x{', over' if over else ''})" if budget else ""
            print(
                f"    {name:12} {figures.median:8.2f} {ratio:7.2f} x {statistics.median(figures.busy):8.2f} "
                f"{max(figures.peak):8.0f} {max(figures.requests):9}{note}"
            )
        most = charts * (NEW_REQUESTS if state == COLD else SAME_REQUESTS)
        over = max(ours.requests) > most
        fits &= not over
        print(f"    ours: {max(ours.requests) / charts:.1f} requests a chart (budget {most // charts})")
    return fits


def _large(large: BenchChart, publishers: Publishers, folder: Path) -> bool:
    fits = True
    print(f"\n  one chart of {len(large.archive) / 1e6:.0f} MB, adapter and boto3 imported")
    for source, address in (("registry", publishers.registry), ("https", publishers.repository)):
        with _destination(folder, "loopback") as (host, own, _):
            job = Job(host, publishers.wanted([large], source, address), own)
            cost = run(contenders.ours_with_boto3(job), job)
            over = cost.peak > PEAK_MB
            fits &= not over
            print(
                f"    from {source:10} {cost.seconds:5.2f} s, {cost.peak:4.0f} MB at its peak "
                f"(budget {PEAK_MB} MB{', over' if over else ''})"
            )
    return fits


def _index(publishers: Publishers, folder: Path) -> bool:
    fits = True
    print(f"\n  one version in an index of {INDEX_MB} MB, above the process that looks")
    file = folder / "repository" / "www" / "large-index" / "index.yaml"
    url = f"http://{publishers.repository}/large-index"
    for way, (seconds, megabytes) in index_costs(str(file), url).items():
        over = seconds > INDEX_SECONDS or megabytes > INDEX_PEAK_MB
        fits &= not over
        print(
            f"    {way:15} {seconds:5.2f} s, {megabytes:4.0f} MB (budget {INDEX_SECONDS:.0f} s, "
            f"{INDEX_PEAK_MB} MB{', over' if over else ''})"
        )
    return fits


def _index_of(chart: BenchChart, archive: str) -> bytes:
    digest = digest_of(chart.archive).removeprefix("sha256:")
    return (
        f"apiVersion: v1\nentries:\n  {chart.name}:\n  - apiVersion: v2\n    digest: {digest}\n"
        f"    name: {chart.name}\n    urls:\n    - {archive}\n    version: {chart.version}\n"
    ).encode()


def _seed(host: str, chart: BenchChart) -> None:
    """Publish a chart; with no help from what is measured."""
    pool, base = urllib3.PoolManager(retries=False), f"http://{host}/v2/src/{chart.name}"
    for blob in (chart.config, chart.archive):
        opened = pool.request("POST", f"{base}/blobs/uploads/")
        pool.request("PUT", f"{opened.headers['Location']}&digest={digest_of(blob)}", body=blob)
    kind = {"Content-Type": MANIFEST_TYPE}
    answer = pool.request("PUT", f"{base}/manifests/{chart.version}", body=chart.manifest, headers=kind)
    if answer.status != 201:
        raise RuntimeError(f"the source registry answered {answer.status}: {answer.data[:300]!r}")


def _arrived(host: str, charts: list[BenchChart]) -> bool:
    """Whether a destination holds every chart's own bytes."""
    headers = {"Accept": MANIFEST_TYPE, **urllib3.make_headers(basic_auth=f"{USER}:{PASSWORD}")}
    pool = urllib3.PoolManager(headers=headers)
    for chart in charts:
        base = f"http://{host}/v2/{PREFIX}/charts/{chart.name}"
        manifest = pool.request("GET", f"{base}/manifests/{chart.version}").json()
        digest = manifest["layers"][0]["digest"]
        if digest != digest_of(chart.archive) or pool.request("HEAD", f"{base}/blobs/{digest}").status != 200:
            return False
    return True
