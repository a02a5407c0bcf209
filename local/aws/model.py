"""What the parts of the local engine hand to one another. Data only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any


class EngineError(Exception):
    """The engine cannot load or run what the template asks for; the message says which part and why."""


@dataclass(frozen=True)
class EcrToken:
    """What ECR's GetAuthorizationToken answers for one role."""

    user: str
    password: str
    proxy_endpoint: str
    expires_at: datetime


@dataclass(frozen=True)
class Credentials:
    """Fake keys of one role; the access key is derived from the role, so both ways can be computed."""

    access_key: str
    secret_key: str
    token: str


@dataclass
class Resource:
    """One resource of the template after it was created: `ref` is what Ref gives."""

    logical_id: str
    type: str
    path: str
    properties: dict[str, Any]
    ref: str
    attributes: dict[str, Any]


@dataclass
class LoadReport:
    """Logical id -> type. Everything in the template is in exactly one of the first three."""

    loaded: dict[str, str] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    skipped_layers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FunctionSpec:
    """What is needed to run one function; `code` is the asset folder itself, so nothing is unpacked."""

    name: str
    arn: str
    logical_id: str
    handler: str
    runtime: str
    role: str
    timeout: float
    memory: int
    code: Path
    python_path: tuple[Path, ...]
    environment: Mapping[str, str]
    dead_letter: str | None = None


@dataclass(frozen=True)
class InvokeResult:
    """`error` is None or AWS's FunctionError ("Unhandled"); `payload` is then the error document."""

    payload: bytes
    error: str | None
    request_id: str
    duration_ms: float

    def json(self) -> Any:
        return json.loads(self.payload) if self.payload else None


@dataclass(frozen=True)
class Message:
    """One Publish to a topic, with the subscriptions it had: (protocol, endpoint)."""

    topic_arn: str
    subject: str | None
    message: str
    attributes: dict[str, Any]
    subscriptions: tuple[tuple[str, str], ...]
    time: datetime


@dataclass(frozen=True)
class ExecutionView:
    """One execution of a state machine as DescribeExecution shows it; input and output are parsed."""

    arn: str
    name: str
    machine: str
    status: str
    input: Any
    output: Any
    error: str | None
    cause: str | None
    started: datetime
    stopped: datetime | None


@dataclass(frozen=True)
class ProcessView:
    """One child process that holds a handler."""

    pid: int
    function: str
    busy: bool
    resident_bytes: int
