"""A container's file system and environment, on this machine: folders for volumes, rewritten paths.

Containers run without a file system of their own. So a path below a mount, wherever it appears in
arguments or environment, is replaced by the folder that stands for the volume.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Object = dict[str, Any]
Lookup = Callable[[str, str], Object]
"""``secrets`` or ``configmaps`` and a name -> the object, waiting for it where that is the caller's way."""


def prepare_volumes(pod: Object, root: Path, lookup: Lookup) -> dict[str, Path]:
    """Make a folder for each volume of a Pod and fill Secrets and ConfigMaps in.

    Other kinds (``hostPath``, projected tokens) get an empty folder: nothing of the host is shown.
    """
    folders: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes") or []:
        folder = root / "volumes" / volume["name"]
        folder.mkdir(parents=True)
        folders[volume["name"]] = folder
        if source := volume.get("secret"):
            _fill(folder, source, lookup("secrets", source["secretName"]))
        elif source := volume.get("configMap"):
            _fill(folder, source, lookup("configmaps", source["name"]))
    return folders


def _fill(folder: Path, source: Object, found: Object) -> None:
    content = contents(found)
    items = source.get("items") or [{"key": key, "path": key} for key in content]
    for item in items:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[item["key"]])
        path.chmod(0o600)


def contents(found: Object) -> dict[str, bytes]:
    """The data of a Secret or ConfigMap as bytes."""
    if found.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (found.get("data") or {}).items()}
    return plain | {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}


def mount_table(container: Object, folders: Mapping[str, Path]) -> dict[str, str]:
    """Mount path -> what stands for it here."""
    return {
        mount["mountPath"].rstrip("/"): str(folders[mount["name"]] / mount.get("subPath", "")).rstrip("/")
        for mount in container.get("volumeMounts") or []
        if mount["name"] in folders
    }


def rewrite(text: str, mounts: Mapping[str, str]) -> str:
    """``text`` with every path below a mount replaced; the longest mount wins, once."""
    if not mounts:
        return text
    longest_first = sorted(mounts, key=len, reverse=True)
    pattern = "|".join(re.escape(path) for path in longest_first)
    return re.sub(rf"(?<![\w./-])({pattern})(?=/|$|[:,;\"'\s])", lambda found: mounts[found[1]], text)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """As Kubernetes reads arguments: ``$(NAME)`` is that variable, if there is one, and ``$$`` is ``$``."""

    def one(found: re.Match[str]) -> str:
        return "$" if found[1] is None else variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def environment(container: Object, pod: Object, lookup: Lookup) -> dict[str, str]:
    """The variables a container asks for, references resolved; paths are not rewritten yet."""
    found: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for kind, field in (("secrets", "secretRef"), ("configmaps", "configMapRef")):
            if reference := source.get(field):
                values = contents(lookup(kind, reference["name"]))
                found |= {source.get("prefix", "") + key: value.decode() for key, value in values.items()}
    for variable in container.get("env") or []:
        found[variable["name"]] = _value(variable, pod, lookup)
    return found


def _value(variable: Object, pod: Object, lookup: Lookup) -> str:
    source = variable.get("valueFrom")
    if not source:
        return str(variable.get("value", ""))
    if reference := source.get("secretKeyRef"):
        return contents(lookup("secrets", reference["name"]))[reference["key"]].decode()
    if reference := source.get("configMapKeyRef"):
        return contents(lookup("configmaps", reference["name"]))[reference["key"]].decode()
    return field_value((source.get("fieldRef") or {}).get("fieldPath", ""), pod)


def field_value(path: str, pod: Object) -> str:
    """A downward API field; empty for one the stand-in does not know."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    if path in ("status.hostIP", "status.podIP"):
        return "127.0.0.1"
    value: Any = pod
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def kubeconfig(server: str, ca_file: Path | None, namespace: str, token: str) -> Object:
    """A kubeconfig that speaks with a ServiceAccount's token."""
    cluster: Object = {"server": server}
    if ca_file is not None:
        cluster["certificate-authority"] = str(ca_file)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"token": token}}],
        "contexts": [{"name": "pod", "context": {"cluster": "local", "user": "pod", "namespace": namespace}}],
    }
