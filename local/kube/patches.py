"""Applying JSON patches (RFC 6902), merge patches (RFC 7386) and strategic merge patches."""

from __future__ import annotations

from typing import Any

from local.kube import errors
from local.kube.lists import MapList, SetList, builtin_list, strategic_key
from local.kube.objects import Object, copy_json


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: returns the patched value; null removes a member, a list replaces a list."""
    if not isinstance(patch, dict):
        return copy_json(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def _pointer(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise _unprocessable(f"invalid JSON pointer: {path!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _unprocessable(why: str) -> errors.ApiError:
    return errors.ApiError(
        422, "Invalid", f"the server rejected our request due to an error in our request: {why}", {}
    )


def _index(part: str, length: int, path: str) -> int:
    if not part.isdigit() or int(part) >= length:
        raise _unprocessable(f"no such index: {path}")
    return int(part)


def _lookup(document: Any, parts: list[str], path: str) -> Any:
    for part in parts:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document), path)]
        else:
            raise _unprocessable(f"path does not exist: {path}")
    return document


def _add(document: Any, path: str, value: Any) -> Any:
    parts = _pointer(path)
    if not parts:
        return value
    parent, last = _lookup(document, parts[:-1], path), parts[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent) + 1, path), value)
    else:
        raise _unprocessable(f"path does not exist: {path}")
    return document


def _remove(document: Any, path: str) -> Any:
    parts = _pointer(path)
    if not parts:
        return None
    _lookup(document, parts, path)
    parent, last = _lookup(document, parts[:-1], path), parts[-1]
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[_index(last, len(parent), path)]
    return document


def json_patch(target: Object, operations: Any) -> Any:
    """RFC 6902: returns the patched copy. Raises ApiError 422 when it does not apply, 400 when malformed."""
    if not isinstance(operations, list):
        raise errors.bad_request("a JSON patch is a list of operations")
    document: Any = copy_json(target)
    for operation in operations:
        try:
            name, path = operation["op"], operation["path"]
            if name == "test":
                if _lookup(document, _pointer(path), path) != operation.get("value"):
                    raise _unprocessable(f"testing value {path} failed: test failed")
            elif name == "remove":
                document = _remove(document, path)
            elif name == "add":
                document = _add(document, path, copy_json(operation["value"]))
            elif name == "replace":
                document = _add(_remove(document, path), path, copy_json(operation["value"]))
            elif name in ("copy", "move"):
                value = copy_json(_lookup(document, _pointer(operation["from"]), operation["from"]))
                if name == "move":
                    document = _remove(document, operation["from"])
                document = _add(document, path, value)
            else:
                raise errors.bad_request(f"unknown operation of a JSON patch: {name!r}")
        except (KeyError, TypeError) as error:
            raise errors.bad_request(f"malformed operation of a JSON patch: {operation!r}") from error
    return document


def strategic_merge(target: Any, patch: Any, field: str = "") -> Any:
    """Kubernetes' own merge for built-in kinds: like a merge patch, but lists with keys merge item by item.

    Understands the directives `$patch`, `$retainKeys`, `$deleteFromPrimitiveList`; `$setElementOrder` is
    dropped, so merged items keep the order of the target.
    """
    if isinstance(patch, list):
        return _merge_list(target if isinstance(target, list) else [], patch, field)
    if not isinstance(patch, dict):
        return copy_json(patch)
    if patch.get("$patch") == "replace":
        return {key: copy_json(value) for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    retain = patch.get("$retainKeys")
    if isinstance(retain, list):
        result = {key: value for key, value in result.items() if key in retain}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            result[name] = [item for item in result.get(name) or [] if item not in value]
        elif key.startswith(("$setElementOrder/", "$retainKeys")):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic_merge(result.get(key), value, key)
    return result


def _merge_list(target: list[Any], patch: list[Any], field: str) -> list[Any]:
    kind = builtin_list(field)
    if isinstance(kind, SetList):
        return [*target, *(copy_json(item) for item in patch if item not in target)]
    if not isinstance(kind, MapList) or any(not isinstance(item, dict) for item in patch):
        return [copy_json(item) for item in patch]
    if any(item == {"$patch": "replace"} for item in patch):
        return [copy_json(item) for item in patch if item != {"$patch": "replace"}]
    key = strategic_key(field, kind)
    result = list(target)
    for item in patch:
        if key not in item:
            raise errors.bad_request(f"map: {item} does not contain declared merge key: {key}")
        same = [i for i, old in enumerate(result) if isinstance(old, dict) and old.get(key) == item[key]]
        if item.get("$patch") == "delete":
            result = [old for i, old in enumerate(result) if i not in same]
        elif same:
            result[same[0]] = strategic_merge(result[same[0]], item)
        else:
            result.append(strategic_merge({}, item))
    return result
