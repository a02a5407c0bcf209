"""Upgrade records that tests start from, as AICR writes them and as plans carry them."""

from __future__ import annotations

import json
from typing import Any

from aicr_pipeline.model.upgrades import Boundary, ComponentRecord, Guidance, Instruction

STEPS = (Instruction(id="drain", description="Drain the queue.", reason="Jobs would be lost."),)


def boundary(origin: str, target: str, verdict: str = "safe") -> Boundary:
    """One boundary with what its verdict needs."""
    safe = verdict == "safe"
    guidance = Guidance(
        applies_from=origin,
        applies_to=target,
        summary=f"what changes at {target}",
        verified_by="a lane of tests" if safe else None,
        deployer="argocd",
        steps=() if safe else STEPS,
    )
    return Boundary.model_validate({"verdict": verdict, "guidance": guidance})


def record(component: str, *boundaries: Boundary) -> ComponentRecord:
    """A component's record as a plan carries it."""
    return ComponentRecord(component=component, source="upgrades.yaml", boundaries=boundaries)


def transition(origin: str = "<2.0.0", target: str = ">=2.0.0 <=2.1.0", **fields: Any) -> dict[str, Any]:
    """A transition as AICR writes it; ``verdict="safe"`` needs other fields than the rest."""
    made: dict[str, Any] = {"from": origin, "to": target, "verdict": "manual", "summary": "What breaks."}
    if fields.get("verdict") == "safe":
        made["verifiedBy"] = "a lane of tests"
    else:
        made["stepsByDeployer"] = [
            {"deployers": ["helm", "helmfile"], "steps": [{"id": "helm-only", "description": "By hand."}]},
            {"steps": [{"id": "drain", "description": "Drain.", "reason": "Jobs would be lost."}]},
        ]
    return made | fields


def document(**components: list[dict[str, Any]]) -> dict[str, Any]:
    """``upgrades.yaml`` as values; an underscore in a component's name stands for a dash."""
    return {
        "apiVersion": "upgrades.aicr-pipeline.dev/v1",
        "kind": "UpgradeRecords",
        "records": [
            {
                "apiVersion": "aicr.run/v1beta1",
                "kind": "ComponentUpgrades",
                "component": name.replace("_", "-"),
                "transitions": transitions,
            }
            for name, transitions in components.items()
        ],
    }


def text(values: Any) -> bytes:
    """As YAML, by way of its subset JSON: what stands twice makes no alias."""
    return json.dumps(values).encode()


#: As AICR writes it (``pkg/upgrade``), with every kind of paragraph.
GUIDE = """# Before You Upgrade

This bundle was generated for the `helm` deployer. The steps below apply only
when this bundle is applied over an existing installation of an earlier version.
A fresh install can skip this file.

Each entry covers only the boundary this bundle's pinned version lands in.

## gamma-operator: manual

This bundle pins `v2.1.0`. Applies when upgrading from `<2.0.0` into `>=2.0.0 <=2.1.0`.

The API group has another name. A controller copies what there is.

**Before you start:** Nothing is in the middle of a rollout.

**Reversible:** no. The old controller does not read the new group.

**Steps for helm:**

1. `upgrade-operator`: Upgrade the operator.
2. `delete-legacy`: Delete the old objects.\\
   *Why:* nothing prunes them.

**References:**

- https://example.com/gamma
- https://example.com/more

## delta-operator: blocked

This bundle pins `v3.0.0`. Applies when upgrading from `<3.0.0` into `>=3.0.0`.

The store has to be exported first.

**Blocked:** do not upgrade from `<3.0.0` into `>=3.0.0` in one step.

No steps are recorded for the `helm` deployer; see the component's upstream release notes.
"""
