"""Fork server of the handlers: imports the heavy libraries once, then forks one child per sandbox.

Started by `processes.py` as a script, never imported by the engine. The child runs AWS's own `awslambdaric`
exactly as `python -m awslambdaric handler` would; only the import of the libraries named on the command line
is already done. `awslambdaric` itself is imported after the fork, since it reads its settings from the
environment.

Protocol, one JSON document per line on the socket whose number is argv[1]:
  engine -> {"preload": [...], "path": [...], "pycache": ...}     once it knows the layers; no answer
  engine -> {"id": n, "env": {...}, "path": [...], "cwd": ..., "handler": ..., "log": ..., "pycache": ...}
  zygote -> {"id": n, "pid": p}            and later  {"exited": p, "status": s}
When the engine goes, however it goes, the socket closes: the zygote kills its children and ends. Should the
zygote be killed first, the kernel kills the children (PR_SET_PDEATHSIG; the zygote has a single thread, so
its end is the end of the process).
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys

_PR_SET_PDEATHSIG = 1


def _run_child(request: dict, zygote: int) -> None:  # type: ignore[type-arg]  # stdlib-only script
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != zygote:
        os._exit(1)
    os.setpgid(0, 0)  # so that whatever a handler starts ends with it
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    # Bytecode of assets goes elsewhere: cdk.out stays as it was synthesized.
    sys.pycache_prefix = request["pycache"]
    sys.path[:0] = request["path"]
    importlib.invalidate_caches()
    sys.argv = ["awslambdaric", request["handler"]]
    from awslambdaric.__main__ import (  # type: ignore[import-untyped]  # it ships no types
        main as run_interface_client,
    )

    run_interface_client(sys.argv)


#: What boto3 reads before its first call, of the services that most functions call.
_DESCRIPTIONS = ("dynamodb", "events", "s3", "sns")


def _share_descriptions() -> None:
    """The JSON that describes AWS's services is read once: 100 ms of each child's first client."""
    loaders = sys.modules.get("botocore.loaders")
    if loaders is None:
        return
    loader = loaders.create_loader()
    for name in ("endpoints", "partitions", "sdk-default-configuration", "_retry"):
        loader.load_data(name)
    for service in _DESCRIPTIONS:
        loader.load_service_model(service, "service-2")
        loader.load_service_model(service, "endpoint-rule-set-1")
    loaders.create_loader = lambda search_path_string=None: loader  # type: ignore[attr-defined]


def _preload(names: list[str]) -> None:
    for name in names:
        # What is missing or broken shows up in the handler that needs it, with a real import error.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.freeze()  # keeps the collector from touching, and so copying, the shared pages


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    _preload(sys.argv[2:])
    _share_descriptions()
    gc.freeze()
    wake_read, wake_write = socket.socketpair()
    wake_read.setblocking(False)
    wake_write.setblocking(False)
    signal.set_wakeup_fd(wake_write.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    selector.register(wake_read, selectors.EVENT_READ)
    children: set[int] = set()
    buffer = b""
    zygote = os.getpid()

    def say(document: dict) -> None:  # type: ignore[type-arg]
        control.sendall(json.dumps(document).encode() + b"\n")

    try:
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    wake_read.recv(4096)
                while children:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if pid == 0:
                        break
                    children.discard(pid)
                    say({"exited": pid, "status": os.waitstatus_to_exitcode(status)})
            if control in ready:
                received = control.recv(1 << 16)
                if not received:
                    return
                buffer += received
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    request = json.loads(line)
                    if "preload" in request:
                        sys.pycache_prefix = request["pycache"]
                        sys.path[:0] = request["path"]
                        _preload(request["preload"])
                        continue
                    pid = os.fork()
                    if pid == 0:
                        code = 1
                        try:
                            selector.close()
                            for owned in (control, wake_read, wake_write):
                                owned.close()
                            _run_child(request, zygote)
                            code = 0
                        except SystemExit as end:
                            code = end.code if isinstance(end.code, int) else 1
                        except BaseException:  # noqa: BLE001  the child's outermost place: the log must say why
                            sys.excepthook(*sys.exc_info())
                        finally:
                            sys.stdout.flush()
                            os._exit(code)
                    children.add(pid)
                    say({"id": request["id"], "pid": pid})
    except OSError:
        return  # the engine is gone while we answered
    finally:
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
