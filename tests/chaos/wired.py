"""A fresh world whose functions are wired to it: their adapters, clocks and network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import botocore.endpoint
from aicr_pipeline import event_source, wiring
from aicr_pipeline import step as step_module
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.adapters import aws, cluster
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.signer import Signer
from aicr_pipeline.model.plan import Plan
from botocore.auth import SigV4Auth
from botocore.exceptions import ConnectionClosedError
from moto import mock_aws
from moto.core.base_backend import BaseBackend
from moto.core.models import botocore_stubber

from local.kube import KubeServer
from local.registry import LocalRegistry
from tests.chaos.services import StepFunctions, addresses, clients, handlers, sign
from tests.chaos.world import PLAN, World
from tests.evidence_world import Kms
from tests.functional.actions.support import INBOX, LEDGER, MACHINE, TABLE
from tests.unit.samples import ASSETS

#: moto's answer to every request of a client; wrapped, it is the network between a function and AWS.
_answered = type(botocore_stubber).__call__


def _network(stubber: Any, event_name: str, request: Any, **more: Any) -> Any:
    world = World.current
    if world is None:
        return _answered(stubber, event_name, request, **more)
    _, service, operation = event_name.split(".")

    def call() -> Any:
        if hasattr(request.body, "seek"):
            request.body.seek(0)
        answer = _answered(stubber, event_name, request, **more)
        if operation == "PutEvents":
            world.put(json.loads(request.body)["Entries"])
        return answer

    def lost() -> Exception:
        return ConnectionClosedError(endpoint_url=request.url)

    return world.faults.pass_on(f"{service} {operation}", call, lost)


@contextmanager
def world(found: LocalRegistry, wanted: Plan = PLAN) -> Iterator[World]:
    """A fresh world, with the functions' adapters wired to it."""
    with ExitStack() as stack:
        clients()
        stack.enter_context(mock_aws())
        server = stack.enter_context(KubeServer())
        made = World(server, found, wanted)
        states = StepFunctions(made)

        def client(service: str, region: str | None = None) -> Any:
            return states if service == "stepfunctions" else clients()[service]

        environment = {
            "LEDGER_BUCKET": LEDGER, "INBOX_BUCKET": INBOX, "COORDINATION_TABLE": TABLE,
            "EVENT_BUS": "default", "APPROVER_TOPICS": json.dumps(made.topics),
            "POWERTOOLS_METRICS_DISABLED": "true", "ROLLOUT_MACHINE_ARN": f"{MACHINE}:live", "APPROVAL_URL": "https://approvals.example",
        }  # fmt: skip
        stack.enter_context(patch.dict(os.environ, environment))
        signer = Signer(Kms(), "alias/evidence")
        replaced: list[tuple[Any, str, Any]] = [
            (aws, "client", client),
            (wiring, "now", made.clock),
            (step_module, "now", made.clock),
            (wiring, "config", lambda: made.config),
            (wiring, "cluster", lambda: made.cluster),
            (wiring, "argocd", lambda: ArgoCd(made.cluster, made.config.engine)),
            (wiring, "registry", lambda: made.registry),
            (wiring, "signer", lambda: signer),
            (wiring, "pipeline", lambda: ASSETS),
            (wiring, "approval_key", lambda: b"k" * 64),
            (wiring, "bus", lambda: Bus(clients()["events"], "default", "demo")),
            (wiring, "notifier", lambda: Notifier(clients()["sns"], made.topics)),
            (type(botocore_stubber), "__call__", _network),
            (SigV4Auth, "add_auth", sign),
            (BaseBackend, "urls", property(addresses)),
            (botocore.endpoint, "time", SimpleNamespace(sleep=lambda _: None)),
            (cluster, "time", SimpleNamespace(sleep=lambda _: None, time=lambda: made.now.timestamp())),
        ]
        for module in handlers().values():
            replaced += [(module, "now", made.clock)] if hasattr(module, "now") else []
        for module in (step_module, event_source):
            replaced += [(module.metrics.provider, "namespace", "chaos")]

        def sweep(*given: Any, **more: Any) -> Sweep:
            return Sweep(*given, sleep=lambda seconds: None, **more)

        sweeper = handlers()["sweep_waiters"]
        replaced += [(sweeper, "Sweep", sweep), (sweeper, "BUDGET_SECONDS", -1.0)]
        for owner, name, value in replaced:
            stack.enter_context(patch.object(owner, name, value))
        for name in ("ledger", "inbox", "coordination", "waits", "slack"):
            getattr(wiring, name).cache_clear()
            stack.callback(getattr(wiring, name).cache_clear)
        yield made
