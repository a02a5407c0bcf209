"""``python -m aicr_pipeline.verify EVIDENCE --key PUBLIC_KEY [--plan PLAN]``: offline, fail-closed.

Exit status: 0 valid; 1 valid, but the rollout failed, or ``--require-qualifying`` was given and it does
not qualify; 2 invalid; 3 incomplete (a file is missing, or no plan was given).
"""

import argparse
import sys
from pathlib import Path

from aicr_pipeline.decide.verify import INCOMPLETE, INVALID, NOT_ENOUGH, VALID, Verdict, as_json, verify

_WORDS = {VALID: "VALID", NOT_ENOUGH: "VALID, BUT NOT ENOUGH", INVALID: "INVALID", INCOMPLETE: "INCOMPLETE"}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m aicr_pipeline.verify", description=__doc__)
    parser.add_argument("evidence", type=Path, metavar="EVIDENCE", help="the DSSE envelope")
    parser.add_argument("--key", type=Path, required=True, help="the pipeline's public key, PEM or DER")
    parser.add_argument("--plan", type=Path, help="the plan it is about")
    parser.add_argument("--require-qualifying", action="store_true", help="fail evidence that never counts")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    options = parser.parse_args(arguments)
    try:
        return _judge(options)
    except BrokenPipeError:
        sys.stderr.close()
        return INCOMPLETE
    except Exception as error:  # noqa: BLE001 - Python's own exit status would be 1, which says "valid"
        print(f"INVALID: cannot be judged ({type(error).__name__})", file=sys.stderr)
        return INVALID


def _judge(options: argparse.Namespace) -> int:
    files = [options.evidence, options.key, *([options.plan] if options.plan else [])]
    missing = [str(file)[:200] for file in files if not _is_file(file)]
    if missing:
        print(f"INCOMPLETE: no such file: {', '.join(missing)}", file=sys.stderr)
        return INCOMPLETE
    verdict = verify(
        options.evidence.read_bytes(),
        options.key.read_bytes(),
        options.plan.read_bytes() if options.plan else None,
        require_qualifying=options.require_qualifying,
    )
    print(as_json(verdict) if options.json else _text(verdict), flush=True)
    return verdict.code


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long to be one
        return False


def _text(verdict: Verdict) -> str:
    marks = {True: "ok  ", False: "FAIL", None: "?   "}
    lines = [f"{marks[check.ok]} {check.name}: {check.detail}" for check in verdict.checks]
    if verdict.binding is not None and not verdict.binding.qualifying:
        lines.append(f"note never qualifies a profile: {'; '.join(verdict.binding.not_qualifying_because)}")
    return "\n".join([*lines, _WORDS[verdict.code]])


if __name__ == "__main__":
    sys.exit(main())
