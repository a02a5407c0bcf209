"""Who mirrors in the bench: ours, the tools people use, and the yardstick; each as one command."""

import base64
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from local.helm import helm_binary
from tests.bench.imports import LAYER
from tests.bench.servers import PASSWORD, USER

_HERE = Path(__file__).resolve().parent
PREFIX = "bench"


@dataclass(frozen=True)
class Wanted:
    """One chart as a bundle's ``upstream.env`` names it, and its own name."""

    name: str
    chart: str
    repo: str
    version: str


@dataclass(frozen=True)
class Job:
    """What is to be where; ``host`` and those of the charts are as far away as the link says."""

    host: str
    charts: tuple[Wanted, ...]
    folder: Path


@dataclass(frozen=True)
class Cost:
    """Of one whole process and those it started."""

    seconds: float
    #: Seconds of the processor, the servers' left out.
    busy: float
    peak: float


def run(command: list[str], job: Job) -> Cost:
    """Run a contender to its end.

    Raises
    ------
    RuntimeError
        With the end of its output when it fails.
    """
    log = job.folder / "output"
    runner = [sys.executable, "-S", "-I", str(_HERE / "run.py"), str(log), *command]
    done = subprocess.run(runner, env=_environment(job), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if found["code"]:
        raise RuntimeError(f"{shlex.join(command)[:200]}: status {found['code']}: {log.read_text()[-1000:]}")
    return Cost(found["seconds"], found["busy"], found["peak"])


def ours(job: Job) -> list[str]:
    """The adapter alone, as the command line that copies one chart has it."""
    return _driver("ours", job)


def ours_with_boto3(job: Job) -> list[str]:
    """The adapter in a process that has boto3 too, as the functions have."""
    return [*_driver("ours", job), "boto3"]


def urllib3_pool(job: Job) -> list[str]:
    """The yardstick."""
    return _driver("urllib3_pool", job)


def plain_oras(job: Job) -> list[str]:
    """The oras library."""
    return _driver("plain_oras", job)


def skopeo(job: Job) -> list[str]:
    """One ``skopeo copy`` after the other."""
    options = "--src-tls-verify=false --dest-tls-verify=false"
    return _script(
        job,
        (
            f"skopeo --insecure-policy copy -q {options} docker://{wanted.chart.removeprefix('oci://')}:"
            f"{wanted.version} docker://{job.host}/{PREFIX}/charts/{wanted.name}:{wanted.version}"
            for wanted in job.charts
        ),
    )


def helm(job: Job) -> list[str]:
    """One ``helm pull`` and ``helm push`` after the other."""
    program, folder = helm_binary(), job.folder / "pulled"
    lines = [f"rm -rf {folder}", f"mkdir {folder}"]
    for wanted in job.charts:
        where = f"{wanted.chart} --repo {wanted.repo}" if wanted.repo else wanted.chart
        archive = folder / f"{wanted.name}-{wanted.version}.tgz"
        lines += [
            f"{program} pull {where} --version {wanted.version} --plain-http -d {folder}",
            f"{program} push {archive} oci://{job.host}/{PREFIX}/charts --plain-http",
        ]
    return _script(job, lines)


def _driver(name: str, job: Job) -> list[str]:
    sources = {
        wanted.chart.removeprefix("oci://").partition("/")[0] for wanted in job.charts if not wanted.repo
    }
    sources |= {wanted.repo.split("/")[2] for wanted in job.charts if wanted.repo}
    (job.folder / "job.json").write_text(
        json.dumps(
            {
                "host": job.host,
                "prefix": PREFIX,
                "user": USER,
                "password": PASSWORD,
                "plain": [job.host, *sources],
                "charts": [asdict(wanted) for wanted in job.charts],
            }
        )
    )
    return [sys.executable, str(_HERE / "drivers" / f"{name}.py"), str(job.folder / "job.json")]


def _script(job: Job, lines: Iterable[str]) -> list[str]:
    path = job.folder / "loop.sh"
    path.write_text("\n".join(["set -e", *lines, ""]))
    return ["sh", str(path)]


def _environment(job: Job) -> dict[str, str]:
    """A home of its own; the password is in a file, as tools expect it."""
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    path = job.folder / "auth.json"
    path.write_text(json.dumps({"auths": {job.host: {"auth": pair}}}))
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(job.folder),
        "PYTHONPATH": str(LAYER),
        "REGISTRY_AUTH_FILE": str(path),
        "HELM_REGISTRY_CONFIG": str(path),
        "HELM_CACHE_HOME": str(job.folder / "helm-cache"),
        "HELM_CONFIG_HOME": str(job.folder / "helm-config"),
        "HELM_DATA_HOME": str(job.folder / "helm-data"),
    }
