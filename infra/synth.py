"""Synthesizes one cluster's stack, once per content. Tests, ``make synth`` and the local engine use it.

``python -m infra.synth clusters/demo.yaml`` prints the folder of the cloud assembly.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.sources import ROOT, tree_hash

DEFAULT_OUT = ROOT / "build" / "cdk.out"
#: More than any run of the tests uses at once.
_KEEP = 24
_INPUTS = ("app.py", "cdk.json", "infra", "functions", "layers", "requirements.lock")


def synthesize(cluster_file: Path, out: Path = DEFAULT_OUT) -> Path:
    """The cloud assembly of ``cluster_file``, without the dependency layer's content.

    It is kept in ``out`` under a hash of everything it is made of (15 s of CPU saved), and holds the stack
    ``aicr-pipeline-<name>``. Deployment synthesizes by the CDK CLI instead, with the built layer.

    Raises
    ------
    RuntimeError
        When the app fails; its own words are in the message.
    """
    inputs = [path for name in _INPUTS if (path := ROOT / name).exists()]
    assembly = out / tree_hash(*inputs, cluster_file)[:16]
    if (assembly / "manifest.json").is_file():
        return assembly
    out.mkdir(parents=True, exist_ok=True)
    # Who wants the same meanwhile waits for it: two that synthesize at once take twice as long for nothing.
    with (out / f"{assembly.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (assembly / "manifest.json").is_file():
            _make(assembly, cluster_file)
    _prune(out)
    return assembly


def _make(assembly: Path, cluster_file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="synth-", dir=assembly.parent) as work:
        folder = Path(work)
        (folder / "clusters").mkdir()
        shutil.copy(cluster_file, folder / "clusters")
        _run(folder, cluster_file.stem)
        (folder / "cdk.out").rename(assembly)  # whole or not at all


def _prune(out: Path) -> None:
    """Keep the newest assemblies: each change of the project makes one of some megabytes."""
    made = sorted((path for path in out.iterdir() if (path / "manifest.json").is_file()), key=_age)
    for old in made[:-_KEEP]:
        shutil.rmtree(old, ignore_errors=True)
        (out / f"{old.name}.lock").unlink(missing_ok=True)


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _run(folder: Path, cluster: str) -> None:
    environment = {
        **os.environ,
        "CDK_OUTDIR": str(folder / "cdk.out"),
        "CLUSTERS_DIR": str(folder / "clusters"),
        "CLUSTER": cluster,
        # Its own: without a built layer in it, nothing of 150 MB is copied.
        "BUILD_DIR": str(folder / "build"),
    }
    done = subprocess.run(  # noqa: S603 - our own app
        [sys.executable, str(ROOT / "app.py")], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"Synthesis of {cluster} failed:\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    print(synthesize(Path(sys.argv[1])))
