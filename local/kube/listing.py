"""Lists as the API answers them, in pages that all show the same moment."""

from __future__ import annotations

import base64
import binascii
import json

from local.kube import errors
from local.kube.objects import Object
from local.kube.resources import Ref
from local.kube.selectors import predicate
from local.kube.storage import ObjectKey
from local.kube.store import Store
from local.kube.views import as_version

_GONE = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)


def page(
    store: Store,
    ref: Ref,
    namespace: str | None,
    label_selector: str = "",
    field_selector: str = "",
    limit: int = 0,
    token: str = "",
) -> Object:
    """A List object; `limit` 0 means all, `token` is the `continue` of the page before.

    Its items are the stored objects themselves: serialize them, do not change them. Raises ApiError 400 for a
    malformed token, 410 for one older than the history.
    """
    with store.storage.lock:
        resource = store.registry.get(ref)
        test = predicate(resource, label_selector, field_selector)
        if token:
            version, after = _read(token)
            try:
                everything = store.storage.items_at(resource.storage_key, namespace, version)
            except errors.ApiError as error:
                raise errors.expired(_GONE) from error
        else:
            version, after = store.storage.version, None
            everything = store.storage.items(resource.storage_key, namespace)
    rest = [(key, obj) for key, obj in everything if (after is None or key > after) and test(obj)]
    metadata: Object = {"resourceVersion": str(version)}
    if limit and len(rest) > limit:
        metadata["continue"] = _write(version, rest[limit - 1][0])
        if not label_selector and not field_selector:
            metadata["remainingItemCount"] = len(rest) - limit
        rest = rest[:limit]
    if resource.custom:
        items = [as_version(obj, ref) for _, obj in rest]
    else:  # items of built-in lists carry no kind
        items = [{k: v for k, v in obj.items() if k not in ("kind", "apiVersion")} for _, obj in rest]
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": ref.api_version,
        "metadata": metadata,
        "items": items,
    }


def _write(version: int, last: ObjectKey) -> str:
    document = {"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(last)}
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def _read(token: str) -> tuple[int, ObjectKey]:
    try:
        document = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = str(document["start"]).partition("/")
        return int(document["rv"]), (namespace, name)
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from error
