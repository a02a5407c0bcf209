"""Lambda functions with their layers and permissions, and the HTTP API in front of them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

from local.aws.front import Integration, Route
from local.aws.lambdas import AsyncConfig
from local.aws.loader import Created, Loading, creates
from local.aws.model import EngineError, FunctionSpec
from local.aws.targets import Permission


def _placeholder() -> bytes:
    # Moto wants an archive; what runs is the asset folder itself.
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("README", "The local engine runs the asset folder of cdk.out.\n")
    return buffer.getvalue()


@creates("AWS::Lambda::LayerVersion")
def layer(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("LayerName") or loading.name(logical_id)
    folder = loading.asset(properties["Content"]["S3Key"])
    if not folder.is_dir():
        raise EngineError(f"Layer {logical_id} is the file {folder}; the local engine needs an asset folder.")
    arn = str(
        loading.client("lambda").publish_layer_version(LayerName=name, Content={"ZipFile": _placeholder()})[
            "LayerVersionArn"
        ]
    )
    loading.layers[arn] = folder
    loading.layer_names[arn] = logical_id
    return arn, {"LayerVersionArn": arn}


def _is_third_party(layer_folder: Path) -> bool:
    """A layer of installed packages: built for Lambda's Python, so they come from our own venv here."""
    return any((layer_folder / "python").glob("*.dist-info"))


@creates("AWS::Lambda::Function")
def function(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("FunctionName") or loading.name(logical_id)
    layers = properties.get("Layers", [])
    folders = [loading.layers[a] for a in layers]
    own = [f for f in folders if not _is_third_party(f)]
    for arn, folder in zip(layers, folders, strict=True):
        skipped = loading.layer_names[arn]
        if folder not in own and skipped not in loading.report.skipped_layers:
            loading.report.skipped_layers.append(skipped)
    declared = {k: str(v) for k, v in properties.get("Environment", {}).get("Variables", {}).items()}
    declared = {k: _local_path(loading, logical_id, k, v, folders) for k, v in declared.items()}
    extra = {**loading.function_env.get(logical_id, {}), **loading.function_env.get(name, {})}
    logging = properties.get("LoggingConfig", {})
    if logging.get("LogFormat") == "JSON":
        declared["AWS_LAMBDA_LOG_FORMAT"] = "JSON"
        declared["AWS_LAMBDA_LOG_LEVEL"] = logging.get("ApplicationLogLevel", "INFO")
    memory, timeout = int(properties.get("MemorySize", 128)), float(properties.get("Timeout", 3))
    runtime = properties.get("Runtime", "")
    arn = loading.client("lambda").create_function(
        FunctionName=name,
        Role=properties["Role"],
        Runtime=runtime,
        Handler=properties["Handler"],
        Code={"ZipFile": _placeholder()},
        Timeout=int(timeout),
        MemorySize=memory,
        Environment={"Variables": declared},
        Layers=layers,
    )["FunctionArn"]
    loading.lambdas.functions[name] = FunctionSpec(
        name=name,
        arn=arn,
        logical_id=logical_id,
        handler=properties["Handler"],
        runtime=runtime,
        role=properties["Role"],
        timeout=timeout,
        memory=memory,
        code=_code(loading, logical_id, properties["Code"]),
        python_path=tuple(f / "python" for f in own if (f / "python").is_dir()),
        environment={**declared, **loading.env_overrides, **extra},
        dead_letter=properties.get("DeadLetterConfig", {}).get("TargetArn"),
    )
    return name, {"Arn": arn}


def _code(loading: Loading, logical_id: str, code: dict[str, Any]) -> Path:
    if "ZipFile" in code:
        folder = loading.workdir / "inline" / logical_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.py").write_text(code["ZipFile"])
        return folder
    folder = loading.asset(code["S3Key"])
    if not folder.is_dir():
        raise EngineError(f"The code of {logical_id} is the file {folder}; the local engine needs a folder.")
    return folder


def _local_path(loading: Loading, logical_id: str, variable: str, value: str, folders: list[Path]) -> str:
    """Where a path under /opt is on this machine: in an override, else in the last layer that has it."""
    if not value.startswith("/opt/"):
        return value
    for prefix in sorted(loading.opt_overrides, key=len, reverse=True):
        if value == prefix or value.startswith(prefix.rstrip("/") + "/"):
            return str(loading.opt_overrides[prefix]) + value[len(prefix.rstrip("/")) :]
    for folder in reversed(folders):
        candidate = folder / value.removeprefix("/opt/")
        if candidate.exists():
            return str(candidate)
    raise EngineError(f"{variable} of {logical_id} is {value}, which no layer of the function carries.")


@creates("AWS::Lambda::Version")
def version(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    made = loading.client("lambda").publish_version(FunctionName=properties["FunctionName"])
    return made["FunctionArn"], {"Version": made["Version"], "FunctionArn": made["FunctionArn"]}


@creates("AWS::Lambda::Alias")
def alias(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    arn = loading.client("lambda").create_alias(
        FunctionName=loading.lambdas.find(properties["FunctionName"]).name,
        Name=properties["Name"],
        FunctionVersion=properties["FunctionVersion"],
    )["AliasArn"]
    return arn, {"AliasArn": arn}


@creates("AWS::Lambda::Permission")
def permission(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = loading.lambdas.find(properties["FunctionName"]).name
    given = Permission(properties["Principal"], properties.get("SourceArn"))
    loading.targets.permissions.setdefault(name, []).append(given)
    return loading.name(logical_id), {"Id": logical_id}


@creates("AWS::Lambda::EventInvokeConfig")
def event_invoke_config(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = loading.lambdas.find(properties["FunctionName"]).name
    destinations = properties.get("DestinationConfig", {})
    loading.lambdas.async_configs[name] = AsyncConfig(
        retries=int(properties.get("MaximumRetryAttempts", 2)),
        on_failure=destinations.get("OnFailure", {}).get("Destination"),
        on_success=destinations.get("OnSuccess", {}).get("Destination"),
    )
    return loading.name(logical_id), {}


@creates("AWS::ApiGatewayV2::Api")
def api(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    if properties.get("ProtocolType") != "HTTP":
        raise EngineError(f"{logical_id} is not an HTTP API: the local engine serves no other kind.")
    api_id = loading.name(logical_id).rpartition("-")[2].lower()[:10]
    front = loading.new_front(api_id, logical_id)
    loading.fronts[api_id] = front
    # A URL that the template puts together itself leads to the local front too.
    host = f"{api_id}.execute-api.{loading.stack.region}.amazonaws.com"
    loading.values.rewrites[f"https://{host}"] = front.url
    return api_id, {"ApiEndpoint": front.url, "ApiId": api_id}


@creates("AWS::ApiGatewayV2::Stage")
def stage(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    loading.fronts[properties["ApiId"]].stages.add(properties["StageName"])
    return properties["StageName"], {}


@creates("AWS::ApiGatewayV2::Integration")
def integration(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    if properties["IntegrationType"] != "AWS_PROXY" or properties.get("PayloadFormatVersion") != "2.0":
        raise EngineError(
            f"{logical_id}: the local engine serves AWS_PROXY integrations of payload 2.0 only."
        )
    uri = properties["IntegrationUri"]
    # The long form: arn:aws:apigateway:<region>:lambda:path/2015-03-31/functions/<function ARN>/invocations
    arn = uri.partition("/functions/")[2].removesuffix("/invocations") or uri
    seconds = int(properties.get("TimeoutInMillis", 30000)) / 1000
    loading.fronts[properties["ApiId"]].integrations[logical_id] = Integration(arn, seconds)
    return logical_id, {"IntegrationId": logical_id}


@creates("AWS::ApiGatewayV2::Route")
def route(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    front = loading.fronts[properties["ApiId"]]
    authorization = properties.get("AuthorizationType", "NONE")
    if authorization not in ("NONE", "AWS_IAM"):
        raise EngineError(f"{logical_id}: authorization {authorization} is not served by the local engine.")
    target = properties["Target"].removeprefix("integrations/")
    front.routes.append(Route.parse(properties["RouteKey"], target, signed=authorization == "AWS_IAM"))
    return logical_id, {"RouteId": logical_id}
