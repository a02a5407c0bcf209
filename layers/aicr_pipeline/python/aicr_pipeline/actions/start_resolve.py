"""A runtime was put into the inbox: start its resolve, once per version."""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.adapters.executions import Executions
from aicr_pipeline.adapters.ledger import Inbox
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.model.config import ClusterConfig, seconds
from aicr_pipeline.model.runtime import RUNTIME_KEY


def start_resolve(
    event: Mapping[str, Any], config: ClusterConfig, inbox: Inbox, executions: Executions
) -> dict[str, Any]:
    """Start resolve for the version that an S3 event names.

    A replayed event, or one whose version is no longer current, has no effect. Nothing is parsed
    here: a bad runtime fails in "Check prerequisites", where people look.
    """
    version = str(event["detail"]["object"]["version-id"])
    if "replay-name" in event:
        return {"started": False, "because": "the event is a replay"}
    if inbox.current_version(RUNTIME_KEY) != version:
        return {"started": False, "because": "a newer version is current"}
    name = execution_name(config.cluster.name, version, 1)
    state = {
        "run": name,
        "cluster": config.cluster.name,
        "runtimeVersion": version,
        "stabilizationSeconds": round(seconds(config.stabilization_window)),
    }
    return {"started": executions.start(name, state), "execution": name}
