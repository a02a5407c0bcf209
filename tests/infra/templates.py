"""Reading a synthesized template."""

import json
from collections.abc import Iterator
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
