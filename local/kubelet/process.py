"""One container's child process: started, read, waited for, killed with all it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

_WRAPPER = Path(__file__).with_name("child.py")


class ContainerProcess:
    """A running container.

    Parameters
    ----------
    command
        Program and arguments.
    environment
        The whole environment of the child.
    folder
        Its working directory.
    log
        Called with each piece of output, from a thread of its own.
    ended
        Called once when the container has ended and its output is read.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        folder: Path,
        *,
        log: Callable[[str], None],
        ended: Callable[[], None],
    ) -> None:
        self.tail: str = ""
        self._log = log
        self._ended = ended
        self._code: int | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WRAPPER), str(os.getpid()), *command],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        name = f"container-{self._process.pid}"
        self._reader = threading.Thread(target=self._read, name=f"{name}-log", daemon=True)
        self._waiter = threading.Thread(target=self._wait, name=name, daemon=True)
        self._reader.start()
        self._waiter.start()

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        with stream:
            for line in iter(stream.readline, b""):
                text = line.decode(errors="replace")
                self.tail = (self.tail + text)[-2048:]
                self._log(text)

    def _wait(self) -> None:
        code = self._process.wait()
        self.kill()  # what the program left behind ends with its container, and lets go of the pipe
        self._reader.join()
        self._code = code
        self._ended()

    @property
    def exit_code(self) -> int | None:
        """The exit code once the container has ended, negative for a signal; None before."""
        return self._code

    def join(self) -> None:
        """Wait until the container has ended and its output is read."""
        self._waiter.join()

    def kill(self) -> None:
        """Kill the container's process group; no error when it is gone."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
