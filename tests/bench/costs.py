"""What one process costs beyond what it is: an index looked through, in a process of its own each time."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.bench.imports import LAYER

_DRIVER = Path(__file__).resolve().parent / "drivers" / "index.py"


def index_costs(file: str, url: str) -> dict[str, tuple[float, float]]:
    """Seconds and megabytes, for the bytes of a file and for an address through the adapter."""
    environment = {**os.environ, "PYTHONPATH": str(LAYER)}
    found = {}
    for way, argument in (("file", file), ("address", url)):
        command = [sys.executable, str(_DRIVER), way, argument]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seconds, megabytes = json.loads(done.stdout)
        found[way] = (seconds, megabytes)
    return found
