"""What of the pipeline runs, by digest: ``cluster/assets.json`` in the configuration layer.

Evidence binds it (docs/evidence.md), and ``release.json`` publishes it. The same sources and configuration
give the same digests, on any machine and at any time: nothing of the template's own hashes is in it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any, Protocol

from aicr_pipeline import __version__
from aicr_pipeline.decide.tree_digest import counts, tree_digest
from aicr_pipeline.env import ASSETS
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.evidence import BoundPipeline
from aicr_pipeline.model.fields import seconds

from infra.asl_resolve import resolve_definition
from infra.asl_rollout import rollout_definition
from infra.cluster_manifests import render
from infra.functions import FUNCTIONS, RESOLVE_FUNCTIONS, ROLLOUT_FUNCTIONS
from infra.names import partition_of
from infra.sources import PROGRAM, ROOT, Sources

#: What the template is made of, beside the lock's ``aws-cdk-lib``.
_TEMPLATE = ("app.py", "cdk.json", "infra")
#: What of a checkout the digests are of.
DIGESTED = ("functions", "layers/aicr_pipeline", *_TEMPLATE)


class Define(Protocol):
    """Makes a machine's definition of its functions' ARNs and its version."""

    def __call__(self, arns: Mapping[str, str], version: str) -> dict[str, Any]: ...


def definitions(config: ClusterConfig) -> dict[str, Define]:
    """How each state machine is defined for a cluster; the stack synthesizes these very ones."""
    partition = partition_of(config.cluster.region)
    deadline = int(seconds(config.approvals.deadline))
    return {
        "resolve": partial(resolve_definition, partition=partition),
        "rollout": partial(rollout_definition, partition=partition, deadline_seconds=deadline),
    }


def pipeline_assets(config: ClusterConfig, sources: Sources) -> BoundPipeline:
    """The digests of everything that is deployed for one cluster.

    ``layers`` lacks ``dependencies`` where the layer is not built; what is deployed has it.
    """
    layers = {"program": folder_digest(PROGRAM)}
    if sources.dependencies_built:
        layers["dependencies"] = folder_digest(sources.dependencies)
    return BoundPipeline(
        version=__version__,
        functions={function.name: folder_digest(sources.function(function.name)) for function in FUNCTIONS},
        layers=layers,
        manifests=tree_digest(_manifests(config)),
        configuration=folder_digest(sources.configuration(config)),
    )


def configuration_layer(config: ClusterConfig, sources: Sources) -> Path:
    """The folder of the configuration layer: the configuration, and what is deployed with it."""
    made = pipeline_assets(config, sources)
    folder = sources.configuration(config)
    (folder / "cluster" / ASSETS).write_text(as_text(made))
    return folder


def as_text(assets: BoundPipeline) -> str:
    """The document; the same assets give the same bytes."""
    return json.dumps(assets.wire(), indent=2, sort_keys=True) + "\n"


def folder_digest(folder: Path) -> str:
    """The tree digest of a folder."""
    return tree_digest(dict(_hashes(folder, folder)))


def _manifests(config: ClusterConfig) -> dict[str, str]:
    """What is applied for this cluster: definitions, the cluster's side, and what makes the template.

    The template itself names the configuration layer by the hash of its content, this document included,
    so it cannot be in here; its sources can. Definitions are made with plain names for ARNs: CDK numbers its
    tokens anew in each synthesis.
    """
    callees = {"resolve": RESOLVE_FUNCTIONS, "rollout": ROLLOUT_FUNCTIONS}
    texts = {
        f"state-machines/{name}.json": json.dumps(define({one: one for one in callees[name]}, ""))
        for name, define in definitions(config).items()
    }
    texts["cluster-manifests.yaml"] = render(config)
    texts["aws-cdk-lib"] = installed("aws-cdk-lib")
    found = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()}
    for name in _TEMPLATE:
        found |= dict(_hashes(ROOT / name, ROOT))
    return found


def _hashes(place: Path, base: Path) -> Iterable[tuple[str, str]]:
    for file in [place] if place.is_file() else place.rglob("*"):
        path = file.relative_to(base).as_posix()
        if counts(path) and file.is_file():
            yield path, hashlib.sha256(file.read_bytes()).hexdigest()
