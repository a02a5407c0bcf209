"""``make bench``: what a cold start imports, and what the whole demo takes; says what is over budget.

Times depend on the machine, so no test holds them; budgets are for an idle machine of two cores.
"""

import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from infra.functions import FUNCTIONS

ROOT = Path(__file__).resolve().parents[1]
LAYER = ROOT / "layers" / "aicr_pipeline" / "python"
PLAIN_MS, KUBERNETES_MS = 400, 900
DEMO_SECONDS, DEMO_MB = 60, 1500
ROUNDS = 5

_IMPORT = (
    "import sys, time; sys.path[:0] = [{folder!r}, {layer!r}]; t = time.perf_counter(); import handler; "
    "k = 'kubernetes' not in sys.modules and {kubernetes}\n"
    "if k: import kubernetes.client\n"
    "print(time.perf_counter() - t)"
)


def import_ms(folder: Path, kubernetes: bool) -> float:
    """Median milliseconds to import a handler, with what it imports at its first call counted in."""
    code = _IMPORT.format(folder=str(folder), layer=str(LAYER), kubernetes=kubernetes)
    environment = {**os.environ, "POWERTOOLS_SERVICE_NAME": "bench", "POWERTOOLS_METRICS_NAMESPACE": "Bench"}
    times = [
        float(
            subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, check=True
            ).stdout
        )
        for _ in range(ROUNDS)
    ]
    return statistics.median(times) * 1000


def imports() -> bool:
    """All handlers; whether all are within their budget."""
    compileall.compile_dir(LAYER, quiet=1)
    fits = True
    print(f"{'function':22} {'import':>8} {'budget':>8}")
    for function in FUNCTIONS:
        folder = ROOT / "functions" / function.name
        compileall.compile_dir(folder, quiet=1)
        taken = import_ms(folder, function.faces_kubernetes)
        budget = KUBERNETES_MS if function.faces_kubernetes else PLAIN_MS
        fits &= taken <= budget
        print(f"{function.name:22} {taken:5.0f} ms {budget:5} ms{'' if taken <= budget else '  over'}")
    return fits


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


if __name__ == "__main__":
    within = [imports(), demo()]
    print("\nwithin the budgets" if all(within) else "\nover a budget")
    sys.exit(0 if all(within) else 1)
