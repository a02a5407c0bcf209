"""No child outlives its engine, however the engine ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from local.aws import LocalAws
from local.aws.processes import ForkServer
from tests.functional.engine.conftest import STACK, write_cdk_out
from tests.functional.engine.sample import TRUST

ROOT = Path(__file__).resolve().parents[3]
HANDLER = """
import os, time
def handler(event, context):
    time.sleep(event.get("sleep", 0))
    return os.getpid()
"""

SCRIPT = """
import sys, threading, time
from pathlib import Path
from local.aws import LocalAws
engine = LocalAws(Path(sys.argv[1]), sys.argv[2], workdir=Path(sys.argv[3]), preload=())
engine.start()
idle = engine.invoke("AFunction", "{}").json()
threading.Thread(target=engine.invoke, args=("BFunction", '{"sleep": 60}'), daemon=True).start()
engine.wait_until(lambda: any(p.busy for p in engine.processes()), timeout=20, what="busy child")
print(*[p.pid for p in engine.processes()], engine._on_stop[1].__self__._process.pid, flush=True)
time.sleep(60)
"""


def sample(folder: Path) -> Path:
    resources = {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
    }
    for name in "ABC":
        resources[f"{name}Function"] = {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"S3Bucket": "b", "S3Key": "f.zip"},
                "Handler": "handler.handler",
                "Runtime": "python3.13",
                "Timeout": 90,
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            },
        }
    return write_cdk_out(folder / "out", {"Resources": resources}, {"f": HANDLER})


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pids: list[int], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(alive(p) for p in pids):
            return True
        time.sleep(0.02)
    return False


def test_children_die_with_a_killed_engine(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(sample(tmp_path)), STACK, str(tmp_path / "work")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        pids = [int(p) for p in process.stdout.readline().split()]
        assert len(pids) == 3
        assert all(alive(p) for p in pids)
        os.kill(process.pid, signal.SIGKILL)
        assert gone(pids, 5), [p for p in pids if alive(p)]
    finally:
        process.kill()
        process.communicate()


def test_children_die_with_a_killed_fork_server(tmp_path: Path) -> None:
    ended: list[int] = []
    fork = ForkServer((), tmp_path)
    fork.start()
    pid = fork.spawn(
        env={"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9", "PATH": os.environ["PATH"]},
        path=[],
        cwd=tmp_path,
        handler="time.sleep",  # never asked for: the child hangs or fails on its Runtime API
        log=tmp_path / "child.log",
        on_exit=ended.append,
    )
    assert fork._process is not None
    fork._process.kill()
    assert gone([pid], 5)
    fork.stop()
    assert len(ended) == 1


def test_stop_ends_busy_and_idle_children_and_threads(tmp_path: Path) -> None:
    import threading

    before = set(threading.enumerate())
    with LocalAws(sample(tmp_path), STACK, workdir=tmp_path / "work", preload=()) as engine:
        engine.invoke("AFunction", "{}")
        engine.client("lambda").invoke(
            FunctionName=engine.physical("BFunction"), InvocationType="Event", Payload=b'{"sleep": 60}'
        )
        engine.wait_until(lambda: any(p.busy for p in engine.processes()), timeout=20, what="busy child")
        pids = [p.pid for p in engine.processes()]
        started = time.monotonic()
    assert time.monotonic() - started < 5
    assert gone(pids, 2)
    assert {t.name for t in set(threading.enumerate()) - before if t.is_alive()} <= set()


def test_limit_queues_and_idle_children_are_evicted(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with LocalAws(
        sample(tmp_path),
        STACK,
        workdir=tmp_path / "work",
        preload=(),
        max_processes=2,
        soft_processes=1,
        idle_seconds=0.3,
    ) as engine:
        with ThreadPoolExecutor(6) as pool:
            calls = [pool.submit(engine.invoke, f"{n}Function", '{"sleep": 0.1}') for n in "ABCABC"]
            most = 0
            while not all(c.done() for c in calls):
                most = max(most, len(engine.processes()))
                time.sleep(0.01)
        assert all(c.result().error is None for c in calls)
        assert most == 2
        engine.wait_until(
            lambda: len(engine.processes()) == 1, timeout=5, what="eviction down to the soft limit"
        )
