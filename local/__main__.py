"""``python -m local``: the main job on this machine. ``make demo`` sets everything up and calls it."""

import argparse
import ctypes
import os
import re
import signal
import sys
from pathlib import Path

from rich.console import Console

from local import demo
from local.argocd.scenario import names

_ROOT = Path(__file__).resolve().parents[1]
_PR_SET_PDEATHSIG = 1
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    parser.add_argument(
        "--cluster", default="demo", help="name of clusters/<name>.yaml, or a path to such a file"
    )
    parser.add_argument("--runtime", type=Path, default=_ROOT / "local" / "samples" / "clusterruntime.yaml")
    parser.add_argument("--bundle", type=Path, help="a folder that AICR rendered (-d helm)")
    parser.add_argument("--charts", type=Path, help="a folder of real chart archives (*.tgz)")
    parser.add_argument("--approve", metavar="NAME", help="answer the link's form as this person")
    parser.add_argument("--bypass", action="store_true", help="ask nobody; for development: true only")
    parser.add_argument(
        "--scenario", metavar="NAME", help=f"what goes wrong, of local/scenarios: {', '.join(names())}"
    )
    parser.add_argument("--out", type=Path, default=_ROOT / "out")
    options = parser.parse_args(arguments)
    cluster = Path(options.cluster)
    if cluster.suffix != ".yaml":
        cluster = _ROOT / "clusters" / f"{options.cluster}.yaml"
    problem = _problem(cluster, options)
    if problem is not None:
        parser.error(problem)
    _end_with_parent()
    # A terminated demo must end its children like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A shell that starts it in the background has it ignore interruptions.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    job = demo.Job(
        demo.options(
            cluster,
            bundle=options.bundle,
            charts=options.charts,
            approver=options.approve,
            work=_ROOT / "build" / "local",
            runtime=options.runtime,
            bypass=options.bypass,
            scenario=options.scenario,
        ),
        options.runtime,
        options.out,
    )
    try:
        return demo.run(job, Console())
    except KeyboardInterrupt:
        return 130


def _end_with_parent() -> None:
    """When make is killed, which cannot pass it on, the kernel terminates this process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _no_folder(out: Path) -> str | None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"--out: {out} cannot be a folder for the results ({error.strerror})"
    return None if os.access(out, os.W_OK) else f"--out: {out} cannot be written to"


def _problem(cluster: Path, options: argparse.Namespace) -> str | None:
    if not cluster.is_file():
        known = ", ".join(sorted(file.stem for file in (_ROOT / "clusters").glob("*.yaml")))
        return f"there is no {cluster}; known clusters: {known}"
    if not options.runtime.is_file():
        return f"there is no runtime {options.runtime}"
    for name, folder in (("bundle", options.bundle), ("charts", options.charts)):
        if folder is not None and not folder.is_dir():
            return f"{name}: there is no folder {folder}"
    if options.scenario is not None and options.scenario not in names():
        return f"scenario: there is no {options.scenario}; there are {', '.join(names())}"
    if options.bypass and options.approve is not None:
        return "bypass: nobody is asked, so nobody can approve; leave one of the two out"
    if options.approve is not None and not _NAME.match(options.approve):
        return "approve: a name of at most 40 lower-case letters, digits and dashes"
    return _no_folder(options.out)


if __name__ == "__main__":
    sys.exit(main())
