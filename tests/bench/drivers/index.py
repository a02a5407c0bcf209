"""What finding one version in a large index costs, above what the process held before.

``index.py FILE URL``: prints seconds and megabytes, for the file's bytes and through the adapter.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

from aicr_pipeline.adapters.chart_sources import ChartSources
from aicr_pipeline.adapters.http import CHUNK, Transport
from aicr_pipeline.decide.helm_index import find_version


def peak() -> float:
    """This process's largest resident size so far, in megabytes."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def cost(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and megabytes above the largest size until now."""
    before, began = peak(), time.perf_counter()
    action()
    return time.perf_counter() - began, peak() - before


def main(way: str, address: str) -> None:
    """One way for each process: a second would find the memory of the first."""
    if way == "file":
        with Path(address).open("rb") as file:
            chunks = iter(lambda: file.read(CHUNK), b"")
            found = cost(lambda: find_version(chunks, "zz-last", "1.0.0", "the index"))
    else:
        sources = ChartSources(Transport(frozenset({urlsplit(address).netloc})))
        source = cast(Any, SimpleNamespace(chart="zz-last", repo=address, version="1.0.0"))
        found = cost(lambda: sources.find_indexed(source))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
