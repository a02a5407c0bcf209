"""Acknowledging cdk-nag findings, each with its reason; and wildcards in policies, each with its own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import IConstruct


@dataclass(frozen=True)
class Right:
    """One statement of a role. ``why`` is required where a resource or an action holds a wildcard."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    why: str = ""
    conditions: Mapping[str, Mapping[str, Any]] | None = None


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept ``rule`` (``AwsSolutions-…``, its finding in brackets if it has one) below ``construct``."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def give(role: iam.Role, rights: tuple[Right, ...]) -> None:
    """Add ``rights`` to the role, and acknowledge their wildcards with the reason that each states.

    Raises
    ------
    ValueError
        For a wildcard without a reason.
    """
    stack = Stack.of(role)
    for right in rights:
        role.add_to_policy(
            iam.PolicyStatement(
                actions=list(right.actions),
                resources=list(right.resources),
                conditions=_plain(right.conditions),
            )
        )
        for resource in right.resources:
            text = flatten(stack.resolve(resource))
            if "*" not in text:
                continue
            if not right.why:
                raise ValueError(f"{role.node.path}: {right.actions} on {text} has a wildcard and no reason")
            acknowledge(role, f"AwsSolutions-IAM5[Resource::{text}]", right.why)


def flatten(value: Any) -> str:
    """A resolved ARN as cdk-nag writes it: references become ``<LogicalId>`` or ``<LogicalId.Attribute>``."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return str(separator).join(flatten(part) for part in parts)
    raise ValueError(f"cannot flatten {json.dumps(value)}")


def _plain(conditions: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any] | None:
    return None if conditions is None else {operator: dict(keys) for operator, keys in conditions.items()}
