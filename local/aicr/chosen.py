"""``python -m local.aicr.chosen``: the command that ``AICR_BIN`` names where it is wanted, else the stand-in.

``AICR_BIN_COMMANDS`` says where: ``recipe,bundle`` unless it is set. ``snapshot`` of the real command reads
the machine that it runs on, and ``validate`` wants its validators' images, so here both are the stand-in's.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

BINARY, COMMANDS, DEFAULT_COMMANDS = "AICR_BIN", "AICR_BIN_COMMANDS", "recipe,bundle"


def command_line(text: str) -> tuple[str, ...]:
    """``AICR_BIN``, a path or a command line, as words; a path is made absolute."""
    words = shlex.split(text)
    if words and "/" in words[0]:
        words[0] = str(Path(words[0]).absolute())
    return tuple(words)


def main(argv: list[str]) -> int:
    """Become the real command, or run the stand-in and return its exit code; 127 when there is none."""
    real = command_line(os.environ.get(BINARY, ""))
    wanted = os.environ.get(COMMANDS, DEFAULT_COMMANDS).split(",")
    if real and argv and argv[0] in wanted:
        try:
            os.execvp(real[0], [*real, *argv])
        except OSError as error:
            print(f"{BINARY}: {real[0]}: {error}", file=sys.stderr)
            return 127
    from local.aicr.__main__ import main as standin

    return standin(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
