"""What a whole run leaves behind, searched for everything that is secret."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import urllib3

from local.kube import JOBS, SECRETS
from tests.workflow.machine import Machine

#: Where AWS itself writes a task token: the parameters of the task that was scheduled.
_SCHEDULED = {"TaskScheduled", "LambdaFunctionScheduled"}


def no_secret_is_left(running: Machine) -> None:
    """No secret of this run is in a log, a state's input or output, an event, a record, a page or a Job.

    Link secrets are in the approvers' own messages, and task tokens in the histories' scheduled tasks, where
    AWS puts them, and in the rows of who waits; nowhere else.
    """
    secrets = _secrets(running)
    pages = _error_pages(running, secrets)
    _search(running, secrets, pages, {"link", "task"})


def no_secret_of_signing_in_is_left(
    running: Machine, proofs: Mapping[str, str], pages: Mapping[str, str]
) -> None:
    """The same of a cluster whose people sign in.

    Takes what their browsers and the issuer know besides, and pages that were answered. Links hold no secret.
    """
    secrets = _secrets(running)
    assert not [name for name in secrets if name.startswith("link")], "a link holds a secret"
    _search(running, {**secrets, **proofs}, pages, {"task"})


def _search(
    running: Machine, secrets: Mapping[str, str], pages: Mapping[str, str], where_it_belongs: set[str]
) -> None:
    for kind in where_it_belongs | {"approval key", "registry", "task token", "aws"}:
        assert any(name.startswith(kind) for name in secrets), f"the search knows no {kind}"
    searched, seen = 0, set()
    for where, text in _leftovers(running, pages):
        searched += len(text)
        for name, secret in secrets.items():
            allowed = (name.startswith("link") and where.startswith("message")) or (
                name.startswith("task token")
                and (where.endswith("of a scheduled task") or where == "row WAITERS")
            )
            if secret in text:
                assert allowed, f"{name} is in {where}"
                seen.add(name.split()[0])
    assert searched > 100_000, "the search found nothing to look through"
    assert seen == where_it_belongs, "it finds what is where it belongs"


def _secrets(running: Machine) -> dict[str, str]:
    aws, store = running.pipeline.aws, running.pipeline.kube.store
    found = {}
    for message in aws.messages:
        for word in message.message.split():
            if "?s=" in word:
                found[f"link secret {len(found)}"] = word.partition("?s=")[2]
    manager = aws.client("secretsmanager")
    for secret in manager.list_secrets()["SecretList"]:
        value = manager.get_secret_value(SecretId=secret["ARN"])["SecretString"]
        found[f"approval key {secret['Name']}"] = value
    for secret in store.list(SECRETS):
        for key, encoded in (secret.get("data") or {}).items():
            value = base64.b64decode(encoded).decode("utf-8", "replace")
            if key not in ("url", "type", "username", "enableOCI", "name", "project") and len(value) >= 16:
                found[f"registry {secret['metadata']['name']} {key}"] = value
    for function in aws.functions.values():
        found[f"aws key of {function.name}"] = aws.credentials_of(function.role).secret_key
    for _, history in _histories(running):
        for event in history:
            if event["type"] in _SCHEDULED:
                for token in _tokens(event):
                    found[f"task token {len(found)}"] = token
    return found


def _error_pages(running: Machine, secrets: dict[str, str]) -> dict[str, str]:
    """Pages that refuse: a wrong secret, a secret of somebody else's link, no such page, a bad form."""
    link, _ = running.link()
    parts, http = urlsplit(link), urllib3.PoolManager(retries=False, timeout=10)
    secrets["link wrong secret"] = wrong = "W" * 32
    asked = {
        "wrong secret": ("GET", urlunsplit(parts._replace(query=f"s={wrong}"))),
        "elsewhere": ("GET", urlunsplit(parts._replace(path=f"{parts.path}x"))),
        "no page": ("GET", urlunsplit(parts._replace(path=f"/{wrong}"))),
        "no form": ("POST", link),
    }
    pages = {}
    for name, (method, url) in asked.items():
        answer = http.request(method, url)
        assert answer.status >= 400, name
        pages[name] = f"{dict(answer.headers)} {answer.data.decode()}"
    http.clear()
    return pages


def _leftovers(running: Machine, pages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    aws = running.pipeline.aws
    for file in sorted((aws.workdir / "logs").rglob("*")):
        if file.is_file():
            yield f"log {file.name}", file.read_text(errors="replace")
    for name, history in _histories(running):
        for event in history:
            kind = "a scheduled task" if event["type"] in _SCHEDULED else event["type"]
            yield f"history {name}, of {kind}", json.dumps(event, default=str)
    for execution in aws.executions():
        yield f"execution {execution.name}", json.dumps([execution.input, execution.output])
    for number, message in enumerate(aws.messages):
        yield f"message {number}", f"{message.subject} {message.message}"
    yield "events", json.dumps(aws.events, default=str)
    s3 = aws.client("s3")
    for bucket in (aws.outputs["LedgerBucket"], aws.outputs["InboxBucket"]):
        for listed in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for one in listed.get("Contents", []):
                body = s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
                yield f"record {one['Key']}", body.decode("utf-8", "replace")
    table = aws.outputs["CoordinationTable"]
    for page in aws.client("dynamodb").get_paginator("scan").paginate(TableName=table):
        for row in page["Items"]:
            yield f"row {row['pk']['S']}", json.dumps(row, default=str)
    yield "jobs", json.dumps(running.pipeline.kube.store.list(JOBS), default=str)
    for name, answered in pages.items():
        yield f"page {name}", answered


def _histories(running: Machine) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    aws = running.pipeline.aws
    for execution in aws.executions():
        yield str(execution.name), aws.history(execution.arn)


def _tokens(value: Any) -> Iterator[str]:
    """Values under ``token``, also in JSON that is written as text."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "token" and isinstance(inner, str) and len(inner) > 16:
                yield inner
            yield from _tokens(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _tokens(inner)
    elif isinstance(value, str) and value.startswith("{"):
        try:
            yield from _tokens(json.loads(value))
        except ValueError:
            return
