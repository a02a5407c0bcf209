"""Who owns which field: metadata.managedFields, and the conflicts of server-side apply.

Follows apimachinery's fieldmanager and sigs.k8s.io/structured-merge-diff: an applied field that another
manager owns with another value is a conflict; a field that a manager no longer applies goes unless somebody
else owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from local.kube import errors
from local.kube.fieldsets import FieldSet, Path, Shape, decode, encode, leaves, merge, remove, show
from local.kube.objects import Object, copy_json, meta


class Writer(NamedTuple):
    """Under what name a write is recorded."""

    manager: str
    operation: str  # "Apply" or "Update"
    api_version: str
    subresource: str = ""


@dataclass(frozen=True)
class _Entry:
    writer: Writer
    time: str
    fields: FieldSet


def _read(obj: Object) -> list[_Entry]:
    return [
        _Entry(
            Writer(
                str(item.get("manager") or ""),
                str(item.get("operation") or ""),
                str(item.get("apiVersion") or ""),
                str(item.get("subresource") or ""),
            ),
            str(item.get("time") or ""),
            decode(item.get("fieldsV1") or {}),
        )
        for item in meta(obj).get("managedFields") or ()
    ]


def _write(obj: Object, entries: list[_Entry]) -> None:
    recorded = []
    for entry in entries:
        if not entry.fields:
            continue
        item: Object = {
            "manager": entry.writer.manager,
            "operation": entry.writer.operation,
            "apiVersion": entry.writer.api_version,
            "time": entry.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode(entry.fields),
        }
        if entry.writer.subresource:
            item["subresource"] = entry.writer.subresource
        recorded.append(item)
    if recorded:
        meta(obj)["managedFields"] = recorded
    else:
        meta(obj).pop("managedFields", None)


def track(live: Object | None, new: Object, shape: Shape, writer: Writer, now: str) -> None:
    """Record in `new` that `writer` changed `live` (None: created) into it, other than by apply."""
    before = leaves(live, shape) if live is not None else {}
    after = leaves(new, shape)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    entries, mine = [], None
    for entry in _read(live) if live is not None else ():
        if entry.writer == writer:
            mine = entry
            continue
        entries.append(replace(entry, fields=entry.fields - changed - gone))
    fields = (mine.fields if mine else frozenset()) - gone | changed
    time = now if changed or mine is None else mine.time
    _write(new, [*entries, _Entry(writer, time, frozenset(fields))])


Conflicts = Sequence[tuple[Writer, str, Sequence[Path]]]  # whose, since when, which fields


def take_over(conflicts: Conflicts) -> None:
    """What `force=true` does about conflicts: nothing, the fields change hands."""


def refuse(conflicts: Conflicts) -> None:
    """Raise the ApiError 409 that names every conflict, worded as apimachinery does."""
    count = sum(len(paths) for _, _, paths in conflicts)
    parts, causes = [], []
    for writer, time, paths in conflicts:
        who = f'"{writer.manager}"'
        if writer.subresource:
            who += f' with subresource "{writer.subresource}"'
        if writer.operation == "Update":
            who += f" using {writer.api_version}" + (f" at {time}" if time else "")
        if len(paths) == 1:
            parts.append(f"conflict with {who}: {show(paths[0])}")
        else:
            listed = "".join(f"\n- {show(path)}" for path in paths)
            parts.append(f"conflicts with {who}:{listed}")
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": show(path)}
            for path in paths
        ]
    plural = "conflict" if count == 1 else "conflicts"
    message = f"Apply failed with {count} {plural}: " + "\n".join(parts)
    raise errors.ApiError(409, "Conflict", message, {"causes": causes})


def apply(
    live: Object | None,
    applied: Object,
    shape: Shape,
    writer: Writer,
    now: str,
    on_conflict: Callable[[Conflicts], None],
) -> Object:
    """The live object (None: there is none yet) with the applied configuration, ownership recorded.

    `on_conflict` is `refuse` (raises ApiError 409) or `take_over`.
    """
    wanted = leaves(applied, shape)
    entries = _read(live) if live is not None else []
    mine = next((entry for entry in entries if entry.writer == writer), None)
    others = [entry for entry in entries if entry.writer != writer]
    present = leaves(live, shape) if live is not None else {}
    disputed = {path for path, value in wanted.items() if path not in present or present[path] != value}
    conflicts = [
        (entry.writer, entry.time, sorted(entry.fields & disputed))
        for entry in others
        if entry.fields & disputed
    ]
    if conflicts:
        on_conflict(conflicts)
    result: Object = copy_json(applied) if live is None else merge(live, applied, shape)
    abandoned = (mine.fields if mine else frozenset()) - wanted.keys()
    for path in sorted(abandoned, key=len, reverse=True):
        if not any(_owns(entry.fields, path) for entry in others) and not _owns(wanted.keys(), path):
            result = remove(result, path)
    result["metadata"] = dict(meta(result))
    left = leaves(result, shape).keys()
    kept = [replace(entry, fields=(entry.fields - disputed) & left) for entry in others]
    fields = frozenset(wanted)
    time = mine.time if mine is not None and mine.fields == fields and not disputed else now
    _write(result, [*kept, _Entry(writer, time, fields)])
    return result


def _owns(fields: Iterable[Path], path: Path) -> bool:
    """Whether the set has the field, or something inside it."""
    return any(field[: len(path)] == path for field in fields)
