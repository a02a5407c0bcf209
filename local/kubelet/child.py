"""Become another program that dies with its parent: ``python child.py <parent pid> <program> <argument>...``.

Run as a file with ``-I -S``, so it costs a few milliseconds. Asking for the signal here and not in the
parent's ``preexec_fn`` keeps Python code out of the moment between fork and exec of a threaded process.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Ask for SIGKILL at the parent's end, then exec; 127 when the program cannot be run."""
    parent, program = int(argv[0]), argv[1]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)
    try:
        os.execvp(program, argv[1:])
    except OSError as error:
        print(f"exec {program}: {error}", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
