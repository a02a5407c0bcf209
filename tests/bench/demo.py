"""What the whole demo takes: seconds, memory, and the counts that need no clock."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.imports import LAYER, ROOT

DEMO_SECONDS, DEMO_MB = 60, 1500


def family(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def resident_mb(pid: int) -> float:
    """Proportional set size of a process and its descendants: shared pages count once."""
    total = 0
    for member in family(pid):
        try:
            rollup = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def demo() -> bool:
    """One straight demo: seconds, peak memory, and the counts that need no clock."""
    with tempfile.TemporaryDirectory() as out:
        environment = {**os.environ, "PYTHONPATH": str(LAYER)}
        command = [sys.executable, "-m", "local", "--approve", "bench", "--out", out]
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        peak, ended = [0.0], threading.Event()

        def watch() -> None:
            while not ended.wait(0.25):
                peak[0] = max(peak[0], resident_mb(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        process.wait(timeout=300)
        ended.set()
        watcher.join()
        seconds = time.monotonic() - began
        summary = json.loads((Path(out) / "summary.json").read_text())
    rollout, resolve = summary["execution"]["rollout"], summary["execution"]["resolve"]
    print(f"\ndemo: {summary['outcome']}, {len(summary['steps'])} releases")
    print(f"  {seconds:6.1f} s wall        (budget {DEMO_SECONDS})")
    print(f"  {peak[0]:6.0f} MB at its peak (budget {DEMO_MB}, all processes, shared pages once)")
    print(f"  rollout: {rollout['transitions']} transitions, {rollout['historyEvents']} events")
    print(f"  resolve: {resolve['transitions']} transitions, {resolve['historyEvents']} events")
    print(f"  mirror:  {summary['mirror']['requests']} requests, {summary['mirror']['bytes']} bytes")
    return bool(summary["outcome"] == "Succeeded" and seconds <= DEMO_SECONDS and peak[0] <= DEMO_MB)
