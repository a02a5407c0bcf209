"""The engine's side of the fork server: starts it, asks for children, hears of their end."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from local.aws.model import EngineError

_ZYGOTE = Path(__file__).with_name("zygote.py")
_SPAWN_SECONDS = 60.0  # includes the first import of the preloaded libraries on a busy machine


class ForkServer:
    """Starts children that already hold the preloaded libraries.

    Parameters: `preload` names modules; `workdir` gets the zygote's own stderr and the bytecode cache.
    """

    def __init__(self, preload: Sequence[str], workdir: Path) -> None:
        self._preload = tuple(preload)
        self._workdir = workdir
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[Future[int], Callable[[int], None]]] = {}
        self._on_exit: dict[int, Callable[[int], None]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        errors = self._workdir / "zygote.log"
        with theirs, errors.open("ab") as log:
            # -P: this folder's modules (events.py, ...) must not be importable by handlers. A session of its
            # own: Ctrl-C reaches the engine only, which then ends the children in order.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_ZYGOTE), str(theirs.fileno()), *self._preload],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"},
            )
        self._control = ours
        self._reader = threading.Thread(target=self._read, name="fork-server", daemon=True)
        self._reader.start()

    def preload(self, names: Sequence[str], path: Sequence[Path]) -> None:
        """Import modules of ``path``, too, before the children that are asked for from now on are forked.

        Only modules that read nothing of a function's environment when they are imported.
        """
        with self._lock:
            if self._control is None:
                raise EngineError("The fork server of the handlers has ended; start the engine again.")
            request = {
                "preload": list(names),
                "path": [str(p) for p in path],
                "pycache": str(self._workdir / "pycache"),
            }
            self._control.sendall(json.dumps(request).encode() + b"\n")

    def spawn(
        self,
        *,
        env: Mapping[str, str],
        path: Sequence[Path],
        cwd: Path,
        handler: str,
        log: Path,
        on_exit: Callable[[int], None],
    ) -> int:
        """Forks one child and returns its pid; `on_exit` gets the exit code (negative: the signal)."""
        future: Future[int] = Future()
        with self._lock:
            if self._control is None:
                raise EngineError("The fork server of the handlers has ended; start the engine again.")
            number = next(self._ids)
            self._waiting[number] = (future, on_exit)
            request = {
                "id": number,
                "env": dict(env),
                "path": [str(p) for p in path],
                "cwd": str(cwd),
                "handler": handler,
                "log": str(log),
                "pycache": str(self._workdir / "pycache"),
            }
            self._control.sendall(json.dumps(request).encode() + b"\n")
        return future.result(timeout=_SPAWN_SECONDS)

    def kill(self, pid: int) -> None:
        # Before the child called setpgid its group does not exist yet: then the process alone.
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        with self._lock:
            control, self._control = self._control, None
        if control is not None:
            control.shutdown(socket.SHUT_RDWR)
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._reader is not None:
            self._reader.join(timeout=5)
        if control is not None:
            control.close()

    def _read(self) -> None:
        control = self._control
        if control is None:
            return
        with control.makefile("rb") as lines:
            for line in lines:
                document = json.loads(line)
                if "pid" in document:
                    with self._lock:
                        future, on_exit = self._waiting.pop(document["id"])
                        self._on_exit[document["pid"]] = on_exit
                    future.set_result(document["pid"])
                else:
                    with self._lock:
                        ended = self._on_exit.pop(document["exited"], None)
                    if ended is not None:
                        ended(document["status"])
        with self._lock:
            self._control = None
            waiting = list(self._waiting.values())
            ended_all = list(self._on_exit.values())
            self._waiting.clear()
            self._on_exit.clear()
        for future, _ in waiting:
            future.set_exception(EngineError("The fork server of the handlers ended; see zygote.log."))
        for ended in ended_all:
            ended(-signal.SIGKILL)
