"""Reading and writing documents where ``-r``, ``-s`` and ``-o`` point: a file, stdout, ``cm://ns/name``.

Whatever the document is, a ConfigMap holds it under ``snapshot.<format>`` beside ``format`` and
``timestamp``: the real command has one writer and one reader for all of them.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from local.aicr.cluster import ApiError, Cluster
from local.aicr.errors import AicrError, Code

SCHEME = "cm://"


class _Dumper(yaml.SafeDumper):
    """Sequences indented under their key, as the command writes them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Go's writer knows no anchors: what stands twice is written twice."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def to_yaml(document: object) -> str:
    """YAML with sorted keys: the same document gives the same bytes."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=1000))


def to_json(document: object) -> str:
    """JSON, two spaces, in the order of the document."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def now() -> str:
    """The time in UTC, whole seconds, RFC 3339."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_document(uri: str, kubeconfig: str | None) -> tuple[dict[str, Any], str]:
    """The document at a path or ``cm://ns/name``: parsed, and its text.

    Raises
    ------
    AicrError
        NOT_FOUND without such a file, ConfigMap or data key; UNAUTHORIZED when the API refuses;
        INVALID_REQUEST for a malformed URI or document.
    """
    if uri.startswith(SCHEME):
        text = _from_configmap(uri, kubeconfig)
    else:
        path = Path(uri)
        if not path.is_file():
            raise AicrError(Code.NOT_FOUND, f"file not found: {uri}")
        text = path.read_text()
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise AicrError(Code.INVALID_REQUEST, f"failed to decode {uri}: {error}") from error
    if not isinstance(document, dict):
        raise AicrError(Code.INVALID_REQUEST, f"failed to decode {uri}: not a mapping")
    return document, text


def write_document(
    uri: str | None, document: dict[str, Any], *, output_format: str, kubeconfig: str | None
) -> None:
    """Write a document to a path, stdout (None) or a ConfigMap (server-side apply)."""
    text = to_yaml(document) if output_format == "yaml" else to_json(document)
    if uri is None or uri in ("", "-"):
        sys.stdout.write(text)
    elif uri.startswith(SCHEME):
        namespace, name = _parse(uri)
        cluster = Cluster.from_environment(kubeconfig)
        cluster.apply(
            f"/api/v1/namespaces/{namespace}/configmaps/{name}",
            configmap(namespace, name, document, text, output_format),
        )
    else:
        Path(uri).write_text(text)


def configmap(
    namespace: str, name: str, document: dict[str, Any], text: str, output_format: str
) -> dict[str, Any]:
    """The ConfigMap the command writes for a document.

    Labels and timestamp come from the document's header where it has one; a report without a header
    is labelled ``Snapshot`` and ``unknown``, as the real writer does.
    """
    header = document.get("metadata") if document.get("kind") else None
    metadata = header if isinstance(header, dict) else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/name": "aicr",
                "app.kubernetes.io/component": str(document.get("kind") or "Snapshot"),
                "app.kubernetes.io/version": str(metadata.get("version") or "unknown"),
            },
        },
        "data": {
            f"snapshot.{output_format}": text,
            "format": output_format,
            "timestamp": str(metadata.get("timestamp") or now()),
        },
    }


def _parse(uri: str) -> tuple[str, str]:
    namespace, _, name = uri.removeprefix(SCHEME).partition("/")
    if not namespace or not name or "/" in name:
        raise AicrError(Code.INVALID_REQUEST, f"invalid ConfigMap URI {uri!r}: want cm://namespace/name")
    return namespace, name


def _from_configmap(uri: str, kubeconfig: str | None) -> str:
    namespace, name = _parse(uri)
    try:
        found = Cluster.from_environment(kubeconfig).get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except ApiError as error:
        raise AicrError(error.code, f"failed to get ConfigMap {namespace}/{name}: {error.message}") from error
    data: dict[str, str] = found.get("data") or {}
    for extension in (data.get("format", "yaml"), "yaml", "json", "txt"):
        if text := data.get(f"snapshot.{extension}"):
            return text
    raise AicrError(Code.NOT_FOUND, f"ConfigMap {namespace}/{name} has no snapshot data")
