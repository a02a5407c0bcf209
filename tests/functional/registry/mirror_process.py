"""Mirrors in processes that tests kill: one process with everything imported, which forks one for each job.

Run as a module. Each line of the input is a job as JSON; the answers are ``pid N`` as the job starts and
``ended STATUS`` as it ends (a negative status is the signal).
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.adapters.mirror import Destination, MirrorResult, mirror_chart, mirror_wrapper
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.model.plan import UpstreamSource

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Job:
    """What to mirror, and where to."""

    host: str
    prefix: str
    user: str
    password: str
    upstreams: dict[str, str]
    #: (chart, repo, version)
    charts: tuple[tuple[str, str, str], ...]
    release: str
    wrapper: dict[str, str]

    def run(self, transport: Transport | None = None) -> list[MirrorResult]:
        """All charts one after the other, so that requests come in one order."""
        plain = {self.host, *(url.partition("://")[2].partition("/")[0] for url in self.upstreams.values())}
        credentials = FixedCredentials(self.user, self.password)
        transport = transport or Transport(frozenset(plain))
        return self.into(Destination(self.host, self.prefix, transport, credentials, self.upstreams))

    def into(self, target: Destination) -> list[MirrorResult]:
        """The same with another destination's identity."""
        files = {path: text.encode() for path, text in self.wrapper.items()}
        charts = [
            UpstreamSource(chart=chart, repo=repo, version=version) for chart, repo, version in self.charts
        ]
        found = [mirror_chart(chart, target) for chart in charts]
        return [*found, mirror_wrapper(self.release, files, target)]


class Killable:
    """The test's end of the process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._pid = 0
        self._known = threading.Event()

    def run(self, job: Job, started: Callable[[], None] = lambda: None) -> int:
        """Run one job to its end, whoever ends it, and return its status."""
        assert self._process.stdin and self._process.stdout
        self._known.clear()
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        self._pid = int(self._process.stdout.readline().removeprefix("pid "))
        self._known.set()
        started()
        return int(self._process.stdout.readline().removeprefix("ended "))

    def kill(self, signal: int = 9) -> None:
        """End the running job, from any thread."""
        assert self._known.wait(10)
        os.kill(self._pid, signal)


@contextmanager
def killable() -> Iterator[Killable]:
    """Start the process that forks."""
    path = f"{ROOT}:{ROOT / 'layers' / 'aicr_pipeline' / 'python'}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.functional.registry.mirror_process"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path},
    )  # fmt: skip
    try:
        yield Killable(process)
    finally:
        assert process.stdin and process.stdout
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()


def main() -> None:
    """Fork for each line until the input ends."""
    for line in iter(sys.stdin.readline, ""):
        fields = json.loads(line)
        job = Job(**{**fields, "charts": tuple(tuple(chart) for chart in fields["charts"])})
        pid = os.fork()
        if pid == 0:
            try:
                job.run()
                os._exit(0)
            finally:
                os._exit(1)
        print(f"pid {pid}", flush=True)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(f"ended {status}", flush=True)


if __name__ == "__main__":
    main()
