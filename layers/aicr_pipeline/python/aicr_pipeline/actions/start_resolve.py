"""A runtime was put into the inbox, its time has come, or somebody asks: start a resolve, once."""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.adapters.executions import Executions
from aicr_pipeline.adapters.ledger import Inbox
from aicr_pipeline.clock import Clock, parse_time
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.decide.resolve_end import Trigger
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.fields import seconds
from aicr_pipeline.model.runtime import RUNTIME_KEY

#: The last part of a run's name: 1 for the submission itself, else a time. Two deliveries of one slot
#: name one run; two people who ask within a second get one, too.
_SLOT, _MOMENT = "%Y%m%d%H%M", "%Y%m%d%H%M%S"


def start_resolve(
    event: Mapping[str, Any], config: ClusterConfig, inbox: Inbox, executions: Executions, clock: Clock
) -> dict[str, Any]:
    """Start a resolve of the version that an S3 event names, or of the current one.

    A replayed event, or one whose version is no longer current, has no effect. Nothing is parsed
    here: a bad runtime fails in "Check prerequisites", where people look.
    """
    if "replay-name" in event:
        return {"started": False, "because": "the event is a replay"}
    current = inbox.current_version(RUNTIME_KEY)
    trigger = event.get("source")
    if trigger in ("schedule", "hand"):
        return _again(event, trigger, current, config, executions, clock)
    version = str(event["detail"]["object"]["version-id"])
    if current != version:
        return {"started": False, "because": "a newer version is current"}
    return _start(version, 1, "submission", config, executions)


def _again(
    event: Mapping[str, Any],
    trigger: Trigger,
    current: str | None,
    config: ClusterConfig,
    executions: Executions,
    clock: Clock,
) -> dict[str, Any]:
    if current is None:
        return {"started": False, "because": "no runtime was submitted yet"}
    runs = execution_name(config.cluster.name, current, 1).removesuffix("1")
    for running in executions.running():
        if running.startswith(runs):
            return {"started": False, "because": f"run {running} resolves it already"}
    if trigger == "schedule":
        number = int(parse_time(str(event["at"])).strftime(_SLOT))
    else:
        number = int(clock().strftime(_MOMENT))
    return _start(current, number, trigger, config, executions)


def _start(
    version: str, number: int, trigger: Trigger, config: ClusterConfig, executions: Executions
) -> dict[str, Any]:
    name = execution_name(config.cluster.name, version, number)
    state = {
        "run": name,
        "cluster": config.cluster.name,
        "runtimeVersion": version,
        "trigger": trigger,
        "stabilizationSeconds": round(seconds(config.stabilization_window)),
    }
    return {"started": executions.start(name, state), "execution": name}
