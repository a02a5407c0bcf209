"""Builds the dependency layer: exactly what ``requirements.lock`` pins for the program, for Lambda's Python.

``python -m infra.build_layer`` writes ``build/layers/dependencies``. Wheels only, hashes checked, no Docker.
"""

import compileall
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from infra.sources import LOCK, ROOT

TARGET = ROOT / "build" / "layers" / "dependencies"
PYTHON = "3.13"
#: Lambda refuses more than 250 MB unzipped, all layers and the function together; the rest are kilobytes.
LIMIT = 240 * 1024 * 1024
#: AWS services that the program calls. botocore describes four hundred more, which are not shipped.
SERVICES = frozenset(
    {
        "cloudformation",
        "dynamodb",
        "ecr",
        "eks",
        "events",
        "kms",
        "lambda",
        "s3",
        "secretsmanager",
        "sns",
        "stepfunctions",
        "sts",
    }
)
_ROOT_MARK = "aicr-pipeline (pyproject.toml)"
_ENTRY = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^\]]*\])?==")


def runtime_requirements(lock: str) -> list[str]:
    """The entries of the lock that the program needs at run time, hashes included.

    The lock's own comments say what each entry is there for (``# via``): an entry counts when
    the project itself asks for it, or another entry that counts.

    Raises
    ------
    ValueError
        When the lock marks nothing as the project's.
    """
    entries: dict[str, str] = {}
    wanted_by: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=[a-z0-9])", lock):
        match = _ENTRY.match(block)
        if match is None:
            continue
        lines = block.splitlines()
        entries[match[1]] = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
        comments = [line.strip().lstrip("# ").removeprefix("via").strip() for line in lines if "#" in line]
        wanted_by[match[1]] = {comment for comment in comments if comment}
    chosen = {name for name, reasons in wanted_by.items() if _ROOT_MARK in reasons}
    if not chosen:
        raise ValueError(f"no entry of the lock is there for {_ROOT_MARK}")
    while more := {name for name, reasons in wanted_by.items() if reasons & chosen} - chosen:
        chosen |= more
    return [entries[name] for name in sorted(chosen)]


def build(target: Path = TARGET) -> int:
    """Build the layer and return its size in bytes.

    Raises
    ------
    RuntimeError
        When it would be too large for Lambda.
    """
    shutil.rmtree(target, ignore_errors=True)
    python = target / "python"
    python.mkdir(parents=True)
    requirements = target.parent / "runtime.txt"
    requirements.write_text("\n".join(runtime_requirements(LOCK.read_text())) + "\n")
    subprocess.run(_installer(requirements, python), check=True)  # noqa: S603 - our own command line
    for superfluous in _superfluous(python):
        shutil.rmtree(superfluous) if superfluous.is_dir() else superfluous.unlink()
    _compile(python)
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    if size > LIMIT:
        raise RuntimeError(f"The layer has {size >> 20} MB; Lambda takes {LIMIT >> 20}.")
    return size


def _installer(requirements: Path, target: Path) -> list[str]:
    common = ["--target", str(target), "--only-binary", ":all:", "--require-hashes", "--no-deps"]
    common += ["--python-version", PYTHON, "-r", str(requirements)]
    # Beside the interpreter when it is installed with the project, else wherever it is.
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is not None:
        # Hashes are checked when a wheel is fetched. What is cached shares its files with environments, where
        # anybody may have changed them since: a company's CA in certifi would go to Lambda.
        fresh = ["--no-cache", "--python-platform", "x86_64-manylinux2014"]
        return [uv, "pip", "install", "--quiet", *fresh, *common]
    platform = ["--platform", "manylinux2014_x86_64", "--implementation", "cp", "--no-compile"]
    return [sys.executable, "-m", "pip", "install", "--quiet", *platform, *common]


def _superfluous(python: Path) -> Iterable[Path]:
    """What nothing imports: the Kubernetes client's asynchronous twin, descriptions of other services.

    And what the installer notes about itself: the layer's digest says what runs, whoever installed it.
    """
    for notes in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"):
        yield from python.glob(f"*.dist-info/{notes}")
    yield from python.glob(".lock")
    yield from (folder for folder in [python / "kubernetes" / "aio", python / "bin"] if folder.is_dir())
    for entry in (python / "botocore" / "data").iterdir():
        if entry.is_dir() and entry.name not in SERVICES:
            yield entry
    yield from (folder for folder in python.rglob("__pycache__") if folder.is_dir())
    yield from python.rglob("*.pyi")


def _compile(python: Path) -> None:
    """Ship compiled files that are never checked against their sources: a third of the import time."""
    if sys.version_info[:2] != tuple(int(part) for part in PYTHON.split(".")):
        print(
            f"Not compiled: that takes Python {PYTHON}, this is {sys.version.split()[0]}. "
            "Cold starts are slower."
        )
        return
    compileall.compile_dir(
        str(python),
        quiet=1,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        # The paths in tracebacks are Lambda's, not this machine's.
        stripdir=str(python),
        prependdir="/opt/python",
    )


if __name__ == "__main__":
    print(f"{TARGET}: {build() >> 20} MB")
