"""Runs one command and prints what it cost: seconds, seconds of CPU, peak memory, exit status.

Started for each measurement with ``python -S -I``, because a child's peak counts what its parent held when it
forked: this one holds next to nothing (9 MB, which is the least that can be measured).
"""

import json
import os
import sys
import time


def main(log: str, command: list[str]) -> None:
    """Output of the command goes to the log."""
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    outputs = [(os.POSIX_SPAWN_DUP2, sink, 1), (os.POSIX_SPAWN_DUP2, sink, 2)]
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=outputs)
    _, status, usage = os.wait4(pid, 0)  # of the process, and of all it waited for itself
    seconds = time.perf_counter() - began
    code = os.waitstatus_to_exitcode(status)
    busy = usage.ru_utime + usage.ru_stime
    print(json.dumps({"seconds": seconds, "busy": busy, "peak": usage.ru_maxrss / 1024, "code": code}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
