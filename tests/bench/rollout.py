"""What waiting costs: a sweep of many waiters, the time to the next release, and how rollouts grow."""

import contextlib
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.bench.imports import LAYER, ROOT

_DRIVER = Path(__file__).resolve().parent / "drivers" / "sweep.py"
WAITERS = 200
SWEEP_BUDGET = (15.0, 200.0)
#: Seconds from ready to the next release applied.
BY_SWEEP, BY_WEBHOOK = 5.0, 1.0
RELEASES = (50, 100, 200)
#: Four times as many take so many times the processor's time.
LINEAR = 5.0
_LOOK = 0.01


def rollout() -> bool:
    """All three; whether all are within their budgets."""
    return all([_sweep(), _latency(), _growth()])


def _sweep() -> bool:
    """One sweep settles all: AWS and the cluster are in this process, the sweeper in one of its own."""
    import boto3

    from local.aws import moto_server
    from local.kube import APPLICATIONS, NAMESPACES, KubeServer
    from local.kube.argocd_crds import install
    from tests.functional.actions.support import TABLE, Place
    from tests.functional.actions.test_action_sweep_many import many

    restore = moto_server.isolate_environment()
    endpoint, stop = moto_server.start()
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    where = {"AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-west-2", **keys}
    try:
        session = boto3.Session("testing", "testing", region_name="us-west-2")
        s3, db = (session.client(name, endpoint_url=endpoint) for name in ("s3", "dynamodb"))
        s3.create_bucket(Bucket="ledger", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        names = ("pk", "sk")
        db.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
            KeySchema=[
                {"AttributeName": n, "KeyType": k} for n, k in zip(names, ("HASH", "RANGE"), strict=True)
            ],
        )
        with KubeServer() as server:
            install(server.store)
            server.store.create(NAMESPACES, {"metadata": {"name": "argocd"}})
            place = Place(s3, db, server)
            many(place, WAITERS)
            for found in server.store.list(APPLICATIONS, "argocd"):
                # As large as a real one.
                padding = {"summary": {"images": [f"registry.example/image-{n}:1.0" for n in range(500)]}}
                server.store.merge(APPLICATIONS, found["metadata"]["name"], {"status": padding}, "argocd")
            environment = {**os.environ, **where, "PYTHONPATH": str(LAYER)}
            command = [sys.executable, str(_DRIVER), server.url]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
        found = json.loads(done.stdout)
    finally:
        stop()
        restore()
    print(f"\none sweep of {WAITERS} releases that are ready: {found['answered']} settled")
    print(
        f"  {found['seconds']:6.1f} s wall (budget {SWEEP_BUDGET[0]:g}), {found['busy']:.1f} s of processor"
    )
    print(
        f"  {found['peak']:6.0f} MB at its peak (budget {SWEEP_BUDGET[1]:g}), with Python and all it imports"
    )
    within = found["seconds"] <= SWEEP_BUDGET[0] and found["peak"] <= SWEEP_BUDGET[1]
    return bool(within and found["answered"] == WAITERS)


def _latency() -> bool:
    """From a release that is ready to the next one's Application, with the default interval."""
    by_sweep, by_webhook = _gaps(notified=False), _gaps(notified=True)
    print("\nfrom ready to the next release applied, sweepInterval 2s")
    for how, gaps, budget in (("sweep", by_sweep, BY_SWEEP), ("webhook", by_webhook, BY_WEBHOOK)):
        shown = ", ".join(f"{gap:.2f}" for gap in gaps)
        print(f"  by {how}: {shown} s; median {statistics.median(gaps):.2f} s (budget {budget:g})")
    return max(by_sweep) <= BY_SWEEP and statistics.median(by_webhook) <= BY_WEBHOOK


def _gaps(notified: bool) -> list[float]:
    """Two rollouts of three releases each: the pauses between them."""
    from tests.workflow.small.machine import small_machine

    found: list[float] = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        document = yaml.safe_load((ROOT / "clusters" / "demo.yaml").read_text())
        document["sweepInterval"] = "2s"
        (folder / "demo.yaml").write_text(yaml.safe_dump(document))
        with small_machine(folder, folder / "demo.yaml") as small:
            for _ in range(3):
                small.clean()
                with _watched(small, notified) as times:
                    small.start(small.plan())
                    small.approve()
                    ended = small.ended(120)
                    assert ended.status == "SUCCEEDED", ended.cause
                order = sorted(times, key=lambda name: times[name]["created"])
                found += [
                    times[after]["created"] - times[before]["ready"]
                    for before, after in itertools.pairwise(order)
                ]
    return found


@contextmanager
def _watched(small: Any, notified: bool) -> Iterator[dict[str, dict[str, float]]]:
    """When each Application came, and became ready; ``notified`` as Argo CD's own controller tells it."""
    import urllib3

    from local.kube import APPLICATIONS

    aws = small.pipeline.aws
    secret = aws.client("secretsmanager").get_secret_value(SecretId=aws.outputs["NotificationSecret"])
    headers = {"X-Aicr-Webhook-Secret": secret["SecretString"]}
    times: dict[str, dict[str, float]] = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK):
            for found in small.pipeline.kube.store.list(APPLICATIONS, "argocd"):
                seen = times.setdefault(found["metadata"]["name"], {"created": time.monotonic()})
                if "ready" not in seen and _is_ready(found):
                    seen["ready"] = time.monotonic()
                    if notified:
                        urllib3.request("POST", f"{aws.api_url}/argocd", body=b"{}", headers=headers)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield times
    finally:
        over.set()
        watcher.join()


def _is_ready(application: Any) -> bool:
    """The condition of the trigger in the cluster manifests."""
    status = application.get("status") or {}
    state = status.get("operationState") or {}
    return bool(
        state.get("phase") == "Succeeded"
        and (status.get("sync") or {}).get("status") == "Synced"
        and (status.get("health") or {}).get("status") == "Healthy"
        and str(status.get("reconciledAt", "")) >= str(state.get("finishedAt"))
    )


def _growth() -> bool:
    """A whole rollout in virtual time: the processor's time in functions, with moto that answers them."""
    from tests.chaos.services import registry
    from tests.chaos.wired import world
    from tests.unit.samples import plan, release

    busy, counts = {}, {}
    with registry() as network:
        for count in RELEASES:
            releases = (release(f"release-{number:03}") for number in range(count))
            with world(network, plan(*releases, **{"validation": "Disabled"})) as made:
                with contextlib.redirect_stdout(io.StringIO()):
                    made.submit()
                    made.settle()
                busy[count] = made.busy
                assert made.last().status == "SUCCEEDED", made.last().cause
                counts[count] = (made.last().transitions, made.last().history, len(made.faults.calls))
    least, most = min(RELEASES), max(RELEASES)
    print("\nrollouts in virtual time")
    for count in RELEASES:
        transitions, history, calls = counts[count]
        print(
            f"  {count:4} releases: {busy[count]:6.1f} s of the processor, {transitions} transitions, "
            f"{history} events, {calls} external calls"
        )
    growth = busy[most] / busy[least]
    print(f"{most // least} times as many take {growth:.1f} times the processor's time, at most {LINEAR:g}")
    return growth <= LINEAR
