"""A cluster that is qualified, as no real one is: signed evidence, and a pipeline that runs what it covers.

Tests change one thing of it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from aicr_pipeline.adapters.ledger_folder import LedgerFolder
from aicr_pipeline.adapters.order import newest_place, place_key
from aicr_pipeline.decide.canonical import canonical
from aicr_pipeline.decide.dsse import envelope, fingerprint, pae_digest
from aicr_pipeline.decide.evidence import statement
from aicr_pipeline.decide.qualification import Now, Proven
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.decide.tuple_reader import read_tuple
from aicr_pipeline.model.evidence import PAYLOAD_TYPE, Binding, BoundPipeline, BoundTuple
from aicr_pipeline.model.plan import Plan, plan_key
from aicr_pipeline.model.qualification import Running, RunningAicr
from aicr_pipeline.model.release import Release, ReleasedCluster

from tests.unit import test_snapshot
from tests.unit.bound import BOUND
from tests.unit.samples import IMAGE, changed, plan, release, sha
from tests.unit.test_dsse import DER, sign

ROLLOUT = "demo-12345678-1"
AICR = "sha256:" + "a" * 64
VALIDATOR = "ghcr.io/nvidia/aicr-validators/deployment@" + sha("validator")
PLAN: Plan = plan(
    release("gpu-operator"),
    release("aws-efa", "v0.5.29"),
    **{"aicr.imageDigest": AICR, "validatorImages": [VALIDATOR]},
)
PIPELINE = BoundPipeline(
    version="0.1.0",
    functions={"bind_evidence": sha("bind"), "check_gate": sha("gate")},
    layers={"program": sha("program"), "dependencies": sha("dependencies")},
    manifests=sha("manifests"),
    configuration=sha("configuration"),
)
TUPLE = BoundTuple(
    instance_types=("p5.48xlarge",),
    node_images=("ami-0123456789abcdef1",),
    kernels=("6.17.0-1019-aws",),
    drivers=("580.173.02",),
    gpu_mode="gpu-operator",
    fabrics=("efa (aws-efa v0.5.29)",),
    workload_images=("pytorch@" + sha("torch"),),
)
RUNNING = Running(
    cluster="demo",
    development=False,
    aicr=RunningAicr(image=IMAGE, version="v1.1.2", validator_images=(VALIDATOR,)),
    pipeline=PIPELINE,
)
NOW = Now("demo", PLAN, ROLLOUT, True, RUNNING, TUPLE)
RELEASE = Release(
    version="0.1.0",
    functions=PIPELINE.functions,
    layers=PIPELINE.layers,
    lock=sha("lock"),
    cluster=ReleasedCluster(
        name="demo",
        aicr_image=IMAGE,
        aicr_version="v1.1.2",
        validator_images=(VALIDATOR,),
        manifests=sha("manifests"),
        configuration=sha("configuration"),
    ),
)


def bare() -> dict[str, Any]:
    """A statement of the plan as the pipeline makes it, with everything that a qualification is about."""
    made: dict[str, Any] = json.loads(statement(replace(BOUND, plan=PLAN, pipeline=PIPELINE)))
    made["predicate"] |= {
        "validators": [{"check": "gpu", "image": "deployment:v1.1.2", "digest": sha("validator")}],
        "tuple": TUPLE.wire(),
        "qualifying": True,
    }
    made["predicate"].pop("notQualifyingBecause", None)
    return made


def stated(**changes: Any) -> dict[str, Any]:
    """The statement with wire paths of its predicate changed."""
    made = bare()
    for path, value in changes.items():
        made["predicate"] = changed(made["predicate"], path, value)
    predicate = made["predicate"]
    if predicate.get("documents"):  # they stand under the rollout's own name
        name = predicate["rollout"]["name"]
        predicate["documents"] = {
            key.replace(ROLLOUT, name): digest for key, digest in predicate["documents"].items()
        }
    return made


def binding(**changes: Any) -> Binding:
    """Its predicate."""
    return Binding.model_validate_json(json.dumps(stated(**changes)["predicate"]))


def proven(**changes: Any) -> Proven:
    """As if it had verified."""
    found = binding(**changes)
    return Proven(f"evidence/demo/{found.rollout.name}/{'0' * 64}.intoto.json", found)


def seal(document: dict[str, Any]) -> bytes:
    """Signed with the key of the tests."""
    text = canonical(document, "the statement")
    return envelope(PAYLOAD_TYPE, text, fingerprint(DER), sign(pae_digest(PAYLOAD_TYPE, text)))


def snapshot(**labels: str) -> bytes:
    """Of one accelerated node that carries what the tuple says; ``labels`` change it."""
    found = {
        "pool": "system",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "eks.amazonaws.com/nodegroup-image": "ami-0123456789abcdef1",
        "feature.node.kubernetes.io/kernel-version.full": "6.17.0-1019-aws",
        "nvidia.com/cuda.driver-version.full": "580.173.02",
    } | {key.replace("__", "/"): value for key, value in labels.items()}
    items = [
        {
            "context": {"key": key, "value": value},
            "data": {"node-count": 1, "node-list": "gpu-1", "truncated": False},
        }
        for key, value in found.items()
    ]
    made = copy.deepcopy(test_snapshot.GOOD)
    made["measurements"].append(
        {"type": "NodeTopology", "subtypes": [{"subtype": "label", "data": {}, "items": items}]}
    )
    return yaml.safe_dump(made).encode()


def put(folder: Path, key: str, body: bytes, at: str) -> Path:
    """An object of the ledger, with the time that ``aws s3 sync`` gives its file."""
    file = folder / "ledger" / key
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(body)
    moment = datetime.fromisoformat(at).timestamp()
    os.utime(file, (moment, moment))
    return file


def put_evidence(folder: Path, sealed: bytes, rollout: str = ROLLOUT) -> str:
    """An envelope under its own key, to which nothing points."""
    key = f"evidence/demo/{rollout}/{hashlib.sha256(sealed).hexdigest()}.intoto.json"
    put(folder, key, sealed, "2026-01-01T10:00:00Z")
    return key


def put_bound(folder: Path, sealed: bytes, rollout: str = ROLLOUT) -> str:
    """An envelope that is the rollout's evidence, as its pointer and its outcome say."""
    key = put_evidence(folder, sealed, rollout)
    pointer = json.dumps({"key": key, "fingerprint": fingerprint(DER)}).encode()
    put(folder, f"rollouts/{rollout}/binding.json", pointer, "2026-01-01T10:00:00Z")
    outcome = folder / "ledger" / f"rollouts/{rollout}/outcome.json"
    if outcome.exists():
        outcome.write_text(json.dumps(json.loads(outcome.read_text()) | {"evidence": key}))
    return key


def put_plan(folder: Path, made: Plan) -> None:
    """A plan under its digest."""
    put(folder, plan_key(made.desired_state_digest), json.dumps(made.wire()).encode(), "2026-01-01T00:00:00Z")


def put_rollout(folder: Path, name: str, to: Plan, at: str, outcome: str = "Succeeded") -> None:
    """A rollout and how it ended."""
    rollout = BOUND.rollout.model_copy(update={"name": name, "to_plan": to.desired_state_digest})
    ended = {
        "rollout": name,
        "outcome": outcome,
        "reason": "RolledOut" if outcome == "Succeeded" else "RolloutFailed",
        "message": "it is over",
        "finishedAt": at,
    }
    ledger = LedgerFolder(folder / "ledger")
    newest = newest_place(ledger)
    put(
        folder, place_key(newest.number + 1 if newest else 1), json.dumps({"rollout": name}).encode(), at
    )  # fmt: skip
    put(folder, f"rollouts/{name}/rollout.json", json.dumps(rollout.wire()).encode(), at)
    put(folder, f"rollouts/{name}/outcome.json", json.dumps(ended).encode(), at)


#: As the reader of tuples names what the plan brings.
FABRICS = read_tuple(read_snapshot(snapshot()), PLAN.desired_state, ()).fabrics


def qualified(folder: Path) -> Path:
    """All of it, in a folder as ``make demo`` leaves one."""
    put_plan(folder, PLAN)
    put_rollout(folder, ROLLOUT, PLAN, "2026-01-01T10:00:01.000Z")
    put(folder, f"rollouts/{ROLLOUT}/snapshot.yaml", snapshot(), "2026-01-01T09:59:00Z")
    sealed = bare()
    sealed["predicate"]["tuple"]["fabrics"] = list(FABRICS)
    put_bound(folder, seal(sealed))
    (folder / "running.json").write_text(json.dumps(RUNNING.wire()))
    (folder / "release.json").write_text(json.dumps(RELEASE.wire()))
    (folder / "key.der").write_bytes(DER)
    return folder
