"""State machines with their versions and aliases."""

from __future__ import annotations

import json
import re
from typing import Any

from local.aws.loader import Created, Loading, creates
from local.aws.model import EngineError


@creates("AWS::StepFunctions::StateMachine")
def machine(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("StateMachineName") or loading.name(logical_id, 80)
    arn = loading.client("stepfunctions").create_state_machine(
        name=name,
        definition=_definition(loading, logical_id, properties),
        roleArn=properties["RoleArn"],
        type=properties.get("StateMachineType", "STANDARD"),
    )["stateMachineArn"]
    return arn, {"Arn": arn, "Name": name, "StateMachineRevisionId": "INITIAL"}


def _definition(loading: Loading, logical_id: str, properties: dict[str, Any]) -> str:
    if "DefinitionString" in properties:
        text = properties["DefinitionString"]
    elif "Definition" in properties:
        text = json.dumps(properties["Definition"])
    elif "DefinitionS3Location" in properties:
        text = loading.asset(properties["DefinitionS3Location"]["Key"]).read_text()
    else:
        raise EngineError(f"State machine {logical_id} has no definition.")
    substitutions = properties.get("DefinitionSubstitutions", {})
    return re.sub(r"\$\{([^}]+)\}", lambda m: str(substitutions.get(m[1], m[0])), text)


@creates("AWS::StepFunctions::StateMachineVersion")
def machine_version(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    states = loading.client("stepfunctions")
    arn = properties["StateMachineArn"]
    # Moto publishes versions only together with an update.
    current = states.describe_state_machine(stateMachineArn=arn)
    published = states.update_state_machine(
        stateMachineArn=arn,
        definition=current["definition"],
        publish=True,
        versionDescription=properties.get("Description", ""),
    )["stateMachineVersionArn"]
    return published, {"Arn": published}


@creates("AWS::StepFunctions::StateMachineAlias")
def machine_alias(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    routes = properties.get("RoutingConfiguration")
    if routes is None:
        preference = properties["DeploymentPreference"]
        routes = [{"StateMachineVersionArn": preference["StateMachineVersionArn"], "Weight": 100}]
    arn = loading.client("stepfunctions").create_state_machine_alias(
        name=properties.get("Name") or loading.name(logical_id, 80),
        routingConfiguration=[
            {"stateMachineVersionArn": r["StateMachineVersionArn"], "weight": int(r["Weight"])}
            for r in routes
        ],
    )["stateMachineAliasArn"]
    return arn, {"Arn": arn}
