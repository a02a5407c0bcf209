"""What a cold start of each function imports, in milliseconds."""

import compileall
import os
import statistics
import subprocess
import sys
from pathlib import Path

from infra.functions import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
LAYER = ROOT / "layers" / "aicr_pipeline" / "python"
PLAIN_MS, KUBERNETES_MS = 400, 900
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
