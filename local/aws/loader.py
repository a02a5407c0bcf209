"""Walks a template in dependency order and creates each resource by a plain API call.

Each service's module in `resources/` registers what it can create in `CREATORS`. A type is created
("loaded"), kept without effect ("recorded"), or unknown: then loading ends, unless the caller allowed it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.aws.front import Front
from local.aws.lambdas import Lambdas
from local.aws.model import EngineError, LoadReport, Resource
from local.aws.scheduler import Ticker
from local.aws.targets import Targets
from local.aws.template import Stack, Values, creation_order

Created = tuple[str, dict[str, Any]]
Creator = Callable[["Loading", str, dict[str, Any]], Created]

CREATORS: dict[str, Creator] = {}
RECORDED: dict[str, Creator] = {}


@dataclass
class Loading:
    """What creators work with: clients, the parts of the engine, and names."""

    stack: Stack
    client: Callable[[str], Any]
    lambdas: Lambdas
    targets: Targets
    ticker: Ticker
    fronts: dict[str, Front]
    new_front: Callable[[str, str], Front]
    workdir: Path
    opt_overrides: Mapping[str, Path]
    env_overrides: Mapping[str, str]
    function_env: Mapping[str, Mapping[str, str]]
    report: LoadReport = field(default_factory=LoadReport)
    access_entries: dict[str, list[str]] = field(default_factory=dict)
    layers: dict[str, Path] = field(default_factory=dict)
    layer_names: dict[str, str] = field(default_factory=dict)
    values: Values = field(init=False)

    def __post_init__(self) -> None:
        self.values = Values(self.stack)

    def name(self, logical_id: str, limit: int = 64) -> str:
        """The name CloudFormation would generate: stack, logical id, and a suffix, here derived."""
        suffix = hashlib.sha256(f"{self.stack.name}/{logical_id}".encode()).hexdigest()[:12].upper()
        room = limit - len(suffix) - 2
        stack = self.stack.name[: room // 2]
        return f"{stack}-{logical_id[: room - len(stack)]}-{suffix}"

    def arn(self, service: str, rest: str, *, region: str | None = None) -> str:
        where = self.stack.region if region is None else region
        return f"arn:aws:{service}:{where}:{self.stack.account}:{rest}"

    def asset(self, key: str) -> Path:
        """The folder or file of an asset by its object key. Raises EngineError."""
        path = self.stack.assets.get(key.partition(".")[0])
        if path is None or not path.exists():
            raise EngineError(f"Asset {key} is not in the cdk.out folder.")
        return path


def creates(*types: str) -> Callable[[Creator], Creator]:
    """Registers a creator of resource types that come to life."""

    def register(creator: Creator) -> Creator:
        CREATORS.update(dict.fromkeys(types, creator))
        return creator

    return register


def records(*types: str) -> Callable[[Creator], Creator]:
    """Registers a creator of resource types that are only kept."""

    def register(creator: Creator) -> Creator:
        RECORDED.update(dict.fromkeys(types, creator))
        return creator

    return register


def load(loading: Loading, allow_unknown: Collection[str]) -> dict[str, str]:
    """Creates everything and returns the stack's outputs.

    Raises EngineError, before anything is created, when the template has types that the engine does not know.
    """
    from local.aws import resources  # registers the creators

    resources.register()
    template = loading.stack.template
    values, report = loading.values, loading.report
    declared: dict[str, Any] = template.get("Resources", {})
    for logical_id, resource in declared.items():
        kind = resource["Type"]
        if kind == "AWS::CDK::Metadata":
            report.ignored[logical_id] = kind
        elif kind not in CREATORS and kind not in RECORDED:
            report.unknown[logical_id] = kind
    refused = {i: t for i, t in report.unknown.items() if t not in allow_unknown}
    if refused:
        named = ", ".join(f"{t} ({i})" for i, t in sorted(refused.items()))
        raise EngineError(
            f"The local engine does not know these resource types of {loading.stack.name}: {named}."
        )
    for logical_id in creation_order(template):
        if logical_id in report.ignored:
            continue
        resource = declared[logical_id]
        if "Condition" in resource and not values.condition(resource["Condition"]):
            report.ignored[logical_id] = resource["Type"]
            continue
        values.resources[logical_id] = _create(loading, logical_id, resource)
    outputs = template.get("Outputs", {})
    wanted = {k: v for k, v in outputs.items() if "Condition" not in v or values.condition(v["Condition"])}
    return {k: _as_text(values.resolve(v["Value"])) for k, v in wanted.items()}


def _create(loading: Loading, logical_id: str, resource: dict[str, Any]) -> Resource:
    kind = resource["Type"]
    try:
        properties = loading.values.resolve(resource.get("Properties", {}))
        if kind in CREATORS:
            ref, attributes = CREATORS[kind](loading, logical_id, properties)
            loading.report.loaded[logical_id] = kind
        else:
            ref, attributes = RECORDED.get(kind, record)(loading, logical_id, properties)
            if kind in RECORDED:
                loading.report.recorded[logical_id] = kind
    except EngineError:
        raise
    except Exception as error:  # the loader's outermost place: says which resource
        raise EngineError(f"{kind} {logical_id} could not be created: {error}") from error
    known = loading.stack.paths.get(logical_id, logical_id)
    path = resource.get("Metadata", {}).get("aws:cdk:path", known)
    return Resource(logical_id, kind, path, properties, ref, attributes)


class _AnyAttribute(dict[str, Any]):
    """Attributes of a recorded resource: whatever is asked for exists, derived from the logical id."""

    def __init__(self, logical_id: str, known: dict[str, Any]) -> None:
        super().__init__(known)
        self._logical_id = logical_id

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return f"{self._logical_id}.{key}"


def record(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    """Keeps a resource without effect: a generated name for Ref, an ARN for Arn, text for the rest."""
    name = loading.name(logical_id)
    return name, _AnyAttribute(logical_id, {"Arn": loading.arn("local", name)})


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
