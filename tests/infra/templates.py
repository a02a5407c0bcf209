"""Reading a synthesized template."""

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


class Stack:
    """A template, read."""

    def __init__(self, assembly: Path) -> None:
        self.assembly = assembly
        (self.file,) = assembly.glob("*.template.json")
        self.template: dict[str, Any] = json.loads(self.file.read_text())
        self.resources: dict[str, Any] = self.template["Resources"]

    def of_type(self, type_: str) -> dict[str, Any]:
        """Logical id -> resource."""
        return {name: found for name, found in self.resources.items() if found["Type"] == type_}

    def one(self, type_: str) -> dict[str, Any]:
        """The properties of the only resource of a type."""
        (found,) = self.of_type(type_).values()
        properties: dict[str, Any] = found["Properties"]
        return properties

    def function_of(self, logical_id: str) -> str:
        """The function's name, by the logical id of its resource."""
        environment = self.resources[logical_id]["Properties"]["Environment"]["Variables"]
        return str(environment["POWERTOOLS_SERVICE_NAME"])

    def functions(self) -> dict[str, Any]:
        """Function name -> properties."""
        found = self.of_type("AWS::Lambda::Function")
        return {self.function_of(name): resource["Properties"] for name, resource in found.items()}

    def statements(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every statement of a role's policy, with the function's name, or else the role's logical id."""
        roles = {
            resource["Properties"]["Role"]["Fn::GetAtt"][0]: self.function_of(name)
            for name, resource in self.of_type("AWS::Lambda::Function").items()
        }
        for policy in self.of_type("AWS::IAM::Policy").values():
            for role in policy["Properties"]["Roles"]:
                for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                    yield roles.get(role["Ref"], role["Ref"]), statement


def as_list(value: Any) -> list[Any]:
    """IAM allows one instead of a list of one."""
    return value if isinstance(value, list) else [value]


def plain(value: Any) -> str:
    """An ARN as text: references as ``<LogicalId>``."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    separator, parts = value["Fn::Join"]
    return str(separator).join(plain(part) for part in parts)


def bucket(stack: Stack, part: str) -> tuple[str, dict[str, Any]]:
    """Logical id and resource of a bucket."""
    ((name, found),) = [
        (name, found) for name, found in stack.of_type("AWS::S3::Bucket").items() if part in name
    ]
    return name, found


def bucket_policy(stack: Stack, part: str) -> dict[str, dict[str, Any]]:
    """Statements of a bucket's policy, by their Sid."""
    name, _ = bucket(stack, part)
    (policy,) = [
        found["Properties"]["PolicyDocument"]["Statement"]
        for found in stack.of_type("AWS::S3::BucketPolicy").values()
        if found["Properties"]["Bucket"]["Ref"] == name
    ]
    return {statement.get("Sid", f"#{at}"): statement for at, statement in enumerate(policy)}


def granted(stack: Stack, action: str) -> set[str]:
    """Who is allowed ``action`` on anything."""
    return {
        who
        for who, statement in stack.statements()
        if statement["Effect"] == "Allow"
        and any(fnmatchcase(action, pattern) for pattern in as_list(statement["Action"]))
    }


def resources(stack: Stack, who: str, action: str) -> set[str]:
    """Where ``who`` is allowed ``action``."""
    return {
        plain(resource)
        for found, statement in stack.statements()
        if found == who and action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }
