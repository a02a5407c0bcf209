"""Submit a runtime as who you are in AWS: it is checked at once, and the rollout says who wished it.

Exit status: 0 submitted; 1 refused, and nothing was changed: a person must act; 2 the command line is not
understood; 3 it may pass by itself: try again.
"""

import argparse
import json
import sys
from pathlib import Path

from aicr_pipeline import command
from aicr_pipeline.adapters.runtimes import MOST_BYTES
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import RUNTIME_FILE
from aicr_pipeline.operators import DONE, REFUSED, TRY_AGAIN, add_api_options, open_api, require_api, shown


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    parser = argparse.ArgumentParser(
        prog="python -m aicr_pipeline.submit", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("file", type=Path, metavar="RUNTIME", help="a ClusterRuntime, as YAML")
    add_api_options(parser)
    options = parser.parse_args(arguments)
    require_api(parser, options)
    return command.guarded(lambda: _submit(options), (REFUSED, TRY_AGAIN), options.json)


def _submit(options: argparse.Namespace) -> int:
    text = _read(options.file)
    try:
        found = open_api(options).ask("POST", "/operators/runtime", text, "application/yaml")
    except PipelineError as error:
        # The other side does not know what the file is called here.
        error.message = error.message.replace(RUNTIME_FILE, str(options.file), 1)
        raise
    lines = [
        f"submitted: version {found['runtimeVersion']}",
        f"  by    {found['submitter']}",
        f"  run   {found['run']}",
    ]
    print(json.dumps(found, indent=2) if options.json else "\n".join(map(shown, lines)), flush=True)
    return DONE


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no name of a file"
        raise PipelineError(Reason.InvalidRuntime, f"{file} cannot be read ({why}).") from None
    if len(text) > MOST_BYTES:
        raise PipelineError(Reason.ContentTooLarge, f"{file} is larger than {MOST_BYTES >> 10} KiB.")
    return text


if __name__ == "__main__":
    sys.exit(main())
