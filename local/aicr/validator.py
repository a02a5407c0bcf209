"""``python -m local.aicr.validator <check>``: what runs in the Job of one check.

Ends with 0 for passed, 1 for failed, 2 for skipped. What it saw goes to stdout, what is wrong to the
termination message.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import yaml

from local.aicr.checks import CHECKS, Result, World
from local.aicr.cluster import ApiError, Cluster

EXIT = {"passed": 0, "failed": 1, "skipped": 2}


def world(validation: dict[str, Any], cluster: Cluster) -> World:
    """What the checks look at: the input's components, Argo CD's Applications and the nodes."""
    recipe = {
        "componentRefs": validation.get("componentRefs") or [],
        "validation": validation.get("config") or {},
    }
    try:
        items = cluster.get("/apis/argoproj.io/v1alpha1/namespaces/argocd/applications").get("items") or []
    except ApiError as error:
        if error.status != 404:
            raise
        items = []  # no Argo CD: every component is missing, which the checks then say
    nodes = cluster.get("/api/v1/nodes").get("items") or []
    return World(recipe, {item["metadata"]["name"]: item for item in items}, nodes)


def run(name: str) -> Result:
    """The result of one check; skipped for one that the stand-in does not have."""
    if name not in CHECKS:
        return Result(name, "skipped", ["not part of the stand-in"])
    validation = yaml.safe_load(Path(os.environ["AICR_VALIDATION_PATH"]).read_text())
    return CHECKS[name](world(validation, Cluster.from_environment(None)))


def main(name: str) -> int:
    """Returns the exit code."""
    result = run(name)
    for line in result.stdout:
        print(line, flush=True)
    path = os.environ.get("TERMINATION_MESSAGE_PATH")
    if result.message and path:
        Path(path).write_text(result.message)
    return EXIT[result.status]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
