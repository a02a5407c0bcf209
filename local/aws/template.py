"""Reads a stack out of a cdk.out folder and resolves CloudFormation's intrinsic functions.

Pure: no AWS call. What a resource's Ref and GetAtt are is answered by the `Values` that the loader fills.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.aws.model import EngineError, Resource

_NO_VALUE = object()
_SUB = re.compile(r"\$\{([^}]+)\}")


@dataclass(frozen=True)
class Stack:
    """A synthesized stack: its template, where it belongs, its assets by hash (object key without suffix)."""

    name: str
    template: dict[str, Any]
    account: str
    region: str
    assets: Mapping[str, Path]
    paths: Mapping[str, str] = field(default_factory=dict)


def read_stack(
    cdk_out: Path, stack: str, *, account: str = "123456789012", region: str = "eu-central-1"
) -> Stack:
    """Finds `stack` by artifact id, stack name or display name; defaults serve stacks without environment.

    Raises EngineError when the folder has no such stack.
    """
    manifest_path = cdk_out / "manifest.json"
    if not manifest_path.is_file():
        raise EngineError(f"{cdk_out} has no manifest.json: synthesize the stack first.")
    artifacts = json.loads(manifest_path.read_text())["artifacts"]
    stacks = {k: v for k, v in artifacts.items() if v["type"] == "aws:cloudformation:stack"}
    for artifact_id, artifact in stacks.items():
        properties = artifact.get("properties", {})
        if stack not in (artifact_id, properties.get("stackName"), artifact.get("displayName")):
            continue
        where = artifact.get("environment", "").removeprefix("aws://").split("/")
        if len(where) == 2:
            account = where[0] if where[0].isdigit() else account
            region = where[1] if where[1] != "unknown-region" else region
        template = json.loads((cdk_out / properties["templateFile"]).read_text())
        name = properties.get("stackName") or artifact_id
        assets = _assets(cdk_out, artifact_id)
        return Stack(name, template, account, region, assets, _paths(cdk_out, artifact))
    raise EngineError(f"{cdk_out} has no stack {stack!r}; it has {sorted(stacks)}.")


def _paths(cdk_out: Path, artifact: dict[str, Any]) -> dict[str, str]:
    """Construct path of each logical id; the template has it only when the CDK CLI synthesized it."""
    metadata = dict(artifact.get("metadata", {}))
    more = artifact.get("additionalMetadataFile")
    if more:
        metadata |= json.loads((cdk_out / more).read_text())
    return {
        entry["data"]: path.lstrip("/")
        for path, entries in metadata.items()
        for entry in entries
        if entry["type"] == "aws:cdk:logicalId"
    }


def _assets(cdk_out: Path, artifact_id: str) -> dict[str, Path]:
    listing = cdk_out / f"{artifact_id}.assets.json"
    if not listing.is_file():
        return {}
    files = json.loads(listing.read_text()).get("files", {})
    found: dict[str, Path] = {}
    for key, entry in files.items():
        path = (cdk_out / entry["source"]["path"]).resolve()
        found[key] = path
        for destination in entry.get("destinations", {}).values():
            found[destination["objectKey"].partition(".")[0]] = path
    return found


@dataclass
class Values:
    """Resolves values against the resources created so far.

    `rewrites` replaces text in every resolved string: API ids become the local front's address.
    """

    stack: Stack
    resources: dict[str, Resource] = field(default_factory=dict)
    rewrites: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    _conditions: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, parameter in self.stack.template.get("Parameters", {}).items():
            self.parameters.setdefault(name, parameter.get("Default", ""))

    def resolve(self, value: Any) -> Any:
        """The value with all intrinsics gone. Raises EngineError for an unknown function or reference."""
        resolved = self._resolve(value)
        return None if resolved is _NO_VALUE else resolved

    def condition(self, name: str) -> bool:
        if name not in self._conditions:
            declared = self.stack.template.get("Conditions", {})
            if name not in declared:
                raise EngineError(f"The template has no condition {name!r}.")
            self._conditions[name] = bool(self._resolve(declared[name]))
        return self._conditions[name]

    def _resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [v for v in map(self._resolve, value) if v is not _NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            name, argument = next(iter(value.items()))
            if name == "Ref":
                return self._ref(argument)
            if name == "Condition" and isinstance(argument, str):
                return self.condition(argument)
            if name.startswith("Fn::"):
                return self._function(name[4:], argument)
        items = ((k, self._resolve(v)) for k, v in value.items())
        return {k: v for k, v in items if v is not _NO_VALUE}

    def _ref(self, name: str) -> Any:
        pseudo: dict[str, Any] = {
            "AWS::AccountId": self.stack.account,
            "AWS::Region": self.stack.region,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": self.stack.name,
            "AWS::StackId": f"arn:aws:cloudformation:{self.stack.region}:{self.stack.account}"
            f":stack/{self.stack.name}/local",
            "AWS::NoValue": _NO_VALUE,
            "AWS::NotificationARNs": [],
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        return self._known(name).ref

    def _known(self, name: str) -> Resource:
        if name not in self.resources:
            raise EngineError(
                f"Something refers to {name!r}, which is not in the template or not created yet."
            )
        return self.resources[name]

    def _attribute(self, name: str, attribute: str) -> Any:
        resource = self._known(name)
        if attribute not in resource.attributes:
            raise EngineError(f"{resource.type} {name} has no attribute {attribute!r} in the local engine.")
        return resource.attributes[attribute]

    def _text(self, text: str) -> str:
        for old, new in self.rewrites.items():
            text = text.replace(old, new)
        return text

    def _function(self, name: str, argument: Any) -> Any:
        if name == "GetAtt":
            logical, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
            return self._attribute(logical, self._resolve(attribute))
        if name == "Sub":
            return self._sub(argument)
        if name == "If":
            chosen = argument[1] if self.condition(argument[0]) else argument[2]
            return self._resolve(chosen)
        given = self._resolve(argument)
        if name == "Join":
            return self._text(given[0].join(str(part) for part in given[1]))
        if name == "Select":
            return given[1][int(given[0])]
        if name == "Split":
            return given[1].split(given[0])
        if name == "FindInMap":
            return self.stack.template["Mappings"][given[0]][given[1]][given[2]]
        if name == "Base64":
            return base64.b64encode(given.encode()).decode()
        if name == "ToJsonString":
            return json.dumps(given)
        if name == "Length":
            return len(given)
        if name == "GetAZs":
            return [f"{self.stack.region}{zone}" for zone in "abc"]
        if name == "Equals":
            return given[0] == given[1]
        if name == "And":
            return all(given)
        if name == "Or":
            return any(given)
        if name == "Not":
            return not given[0]
        raise EngineError(f"Fn::{name} is not supported by the local engine.")

    def _sub(self, argument: Any) -> str:
        text, variables = (argument, {}) if isinstance(argument, str) else argument

        def one(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            if name in variables:
                return str(self._resolve(variables[name]))
            logical, dot, attribute = name.partition(".")
            return str(self._attribute(logical, attribute) if dot else self._ref(name))

        return self._text(_SUB.sub(one, text))


def references(value: Any) -> Iterator[str]:
    """Logical ids and parameter names a value refers to, pseudo parameters left out."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if len(value) == 1:
            name, argument = next(iter(value.items()))
            if name == "Ref":
                if not argument.startswith("AWS::"):
                    yield argument
                return
            if name == "Fn::GetAtt":
                yield argument.split(".", 1)[0] if isinstance(argument, str) else argument[0]
                return
            if name == "Fn::Sub":
                text, variables = (argument, {}) if isinstance(argument, str) else argument
                yield from references(list(variables.values()))
                for found in _SUB.findall(text):
                    logical = found.partition(".")[0]
                    if (
                        not found.startswith("!")
                        and not found.startswith("AWS::")
                        and logical not in variables
                    ):
                        yield logical
                return
        for item in value.values():
            yield from references(item)


def creation_order(template: dict[str, Any]) -> list[str]:
    """Logical ids, each after what it refers to or names in DependsOn. Raises EngineError on a circle."""
    resources = template.get("Resources", {})
    order: list[str] = []
    state: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if state.get(name) == 2 or name not in resources:
            return
        if state.get(name) == 1:
            raise EngineError(
                "The template's resources refer to each other in a circle: " + " -> ".join(path)
            )
        state[name] = 1
        resource = resources[name]
        depends = resource.get("DependsOn", [])
        wanted = [depends] if isinstance(depends, str) else depends
        for other in [*wanted, *references(resource.get("Properties", {}))]:
            visit(other, (*path, other))
        state[name] = 2
        order.append(name)

    for name in resources:
        visit(name, (name,))
    return order
