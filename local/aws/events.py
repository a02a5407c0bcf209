"""EventBridge: what reaches the bus, which rules want it, and its delivery to their targets.

Moto stores the rules and matches the patterns (prefix, suffix, wildcard, anything-but and the rest); it
cannot deliver to functions, state machines and topics, gives every S3 event the same id and never tells of
executions.
"""

from __future__ import annotations

import itertools
import json
import queue
import re
import threading
import time
import uuid
from collections import deque
from datetime import UTC, datetime
from typing import Any

from local.aws.patches import Patches
from local.aws.pending import Pending
from local.aws.targets import DeliveryError, Targets

Event = dict[str, Any]
_MAX_ATTEMPTS = (
    6  # AWS tries 185 times within a day; the pauses here are short, so a few attempts say the same
)
_FIRST_PAUSE = 0.1


def timestamp(moment: float | None = None) -> str:
    """RFC 3339 in whole seconds, as events carry it."""
    when = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


class Bus:
    """Takes events and delivers them in order, in its own thread, so that no writer waits for a target."""

    def __init__(
        self, *, account: str, region: str, targets: Targets, pending: Pending, problems: list[str]
    ) -> None:
        self.seen: deque[Event] = deque(maxlen=5000)
        self._account = account
        self._region = region
        self._targets = targets
        self._pending = pending
        self._problems = problems
        self._work: queue.SimpleQueue[tuple[Any, dict[str, Any], Event] | None] = queue.SimpleQueue()
        self._sequence = itertools.count(1)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event-bus", daemon=True)
        self._thread.start()

    def install(self, patches: Patches) -> None:
        from moto.events import models as events_models
        from moto.s3 import notifications

        bus = self

        def send_to_targets(rule: Any, original_event: Any, transform_input: bool = True) -> None:
            bus._match(rule, _as_delivered(original_event))

        def send_s3_event(account_id: str, bucket: Any, event_name: str, key: Any) -> None:
            name = str(getattr(event_name, "value", event_name))
            # Moto tells of tags after every put, with or without tags; no rule here wants other kinds.
            if name.startswith(("s3:ObjectCreated:", "s3:ObjectRemoved:")):
                bus.emit(bus.s3_event(bucket, name, key))

        original_put = events_models.EventsBackend.put_events

        def put_events(backend: Any, events: list[dict[str, Any]]) -> Any:
            entries = original_put(backend, events)
            for given, entry in zip(events, entries, strict=True):
                if "EventId" in entry:
                    bus.seen.append(_entry_as_event(backend, given, entry["EventId"]))
            return entries

        patches.replace(events_models.Rule, "send_to_targets", send_to_targets)
        patches.replace(events_models.EventsBackend, "put_events", put_events)
        patches.replace(notifications, "_send_event_bridge_message", send_s3_event)

    def emit(self, event: Event) -> None:
        """Puts an event of an AWS service on the default bus."""
        from moto.events.models import events_backends

        self.seen.append(event)
        backend = events_backends[self._account][self._region]
        for rule in list(backend.event_buses["default"].rules.values()):
            self._match(rule, event)

    def service_event(self, source: str, detail_type: str, resources: list[str], detail: Any) -> Event:
        """The envelope that every AWS service uses."""
        return {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": detail_type,
            "source": source,
            "account": self._account,
            "time": timestamp(),
            "region": self._region,
            "resources": resources,
            "detail": detail,
        }

    def s3_event(self, bucket: Any, event_name: str, key: Any) -> Event:
        """The event of one object, after the S3 user guide's "EventBridge event message structure"."""
        created = "ObjectCreated" in event_name
        reason = {
            "s3:ObjectCreated:Put": "PutObject",
            "s3:ObjectCreated:Copy": "CopyObject",
            "s3:ObjectCreated:Post": "POST Object",
            "s3:ObjectCreated:CompleteMultipartUpload": "CompleteMultipartUpload",
        }.get(event_name, "DeleteObject")
        thing: dict[str, Any] = {"key": key.name}
        if created:
            thing |= {"size": key.size, "etag": key.etag.strip('"')}
        if bucket.is_versioned and getattr(key, "version_id", None):
            thing["version-id"] = str(key.version_id)
        thing["sequencer"] = f"{int(time.time() * 1000):012X}{next(self._sequence):06X}"
        detail: dict[str, Any] = {
            "version": "0",
            "bucket": {"name": bucket.name},
            "object": thing,
            "request-id": uuid.uuid4().hex[:16].upper(),
            "requester": self._account,
            "source-ip-address": "127.0.0.1",
            "reason": reason,
        }
        if not created:
            marker = "DeleteMarker" in event_name or bucket.is_versioned
            detail["deletion-type"] = "Delete Marker Created" if marker else "Permanently Deleted"
        kind = "Object Created" if created else "Object Deleted"
        return self.service_event("aws.s3", kind, [f"arn:aws:s3:::{bucket.name}"], detail)

    def stop(self) -> None:
        self._stopped.set()
        self._work.put(None)
        self._thread.join(timeout=5)

    def _match(self, rule: Any, event: Event) -> None:
        if rule.state != "ENABLED" or not rule.event_pattern.get_pattern():
            return
        if not rule.event_pattern.matches_event(event):
            return
        for target in list(rule.targets):
            self._pending.add()
            self._work.put((rule, target, event))

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            rule, target, event = item
            try:
                self._deliver(str(rule.arn), target, event)
            finally:
                self._pending.done()

    def _deliver(self, rule_arn: str, target: dict[str, Any], event: Event) -> None:
        payload = target_input(target, event, rule_arn)
        wanted = target.get("RetryPolicy", {}).get("MaximumRetryAttempts", 185)
        pause = _FIRST_PAUSE
        error: DeliveryError | None = None
        for attempt in range(min(wanted + 1, _MAX_ATTEMPTS)):
            if attempt and self._stopped.wait(pause):
                return
            pause = min(pause * 2, 2.0)
            try:
                self._targets.send(
                    target["Arn"],
                    payload,
                    # A role on the target replaces the function's resource policy.
                    principal=None if target.get("RoleArn") else "events.amazonaws.com",
                    source_arn=rule_arn,
                )
                return
            except DeliveryError as failure:
                error = failure
                if not failure.retry:
                    break
        if error is None or self._stopped.is_set():
            return
        self._problems.append(f"rule {rule_arn} to {target['Arn']}: {error}")
        dead_letters = target.get("DeadLetterConfig", {}).get("Arn")
        if dead_letters:
            self._targets.queue(
                dead_letters,
                json.dumps(event),
                {
                    "RULE_ARN": rule_arn,
                    "TARGET_ARN": target["Arn"],
                    "ERROR_CODE": error.code,
                    "ERROR_MESSAGE": error.message,
                },
            )


def target_input(target: dict[str, Any], event: Event, rule_arn: str) -> str:
    """What a target receives: the event, its Input, the part at InputPath, or the filled InputTemplate."""
    if target.get("Input"):
        return str(target["Input"])
    if target.get("InputPath"):
        return json.dumps(_at(event, target["InputPath"]))
    transformer = target.get("InputTransformer")
    if not transformer:
        return json.dumps(event)
    values = {name: _at(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}
    values |= {
        "aws.events.rule-arn": rule_arn,
        "aws.events.rule-name": rule_arn.rpartition("/")[2],
        "aws.events.event.ingestion-time": event["time"],
        "aws.events.event": {k: v for k, v in event.items() if k != "detail"},
        "aws.events.event.json": event,
    }
    return _fill(transformer["InputTemplate"], values)


def _fill(template: str, values: dict[str, Any]) -> str:
    # Inside quotes a value is inserted as text, elsewhere as JSON (user guide, "Input transformation").
    filled: list[str] = []
    quoted = False
    position = 0
    for match in re.finditer(r'\\.|"|<([A-Za-z0-9_.\-]+)>', template):
        filled.append(template[position : match.start()])
        position = match.end()
        name = match.group(1)
        if name is None or name not in values:
            quoted ^= match.group(0) == '"'
            filled.append(match.group(0))
            continue
        value = values[name]
        if quoted:
            text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
            filled.append(json.dumps(text)[1:-1])
        else:
            filled.append("" if value is None else json.dumps(value))
    filled.append(template[position:])
    return "".join(filled)


def _at(event: Event, path: str) -> Any:
    from jsonpath_ng.ext.parser import parse

    found = parse(path).find(event)
    return found[0].value if found else None


def _as_delivered(event: Any) -> Event:
    delivered = {k: v for k, v in event.items() if k != "ingestion-time"}
    if not isinstance(delivered.get("time"), str):
        delivered["time"] = timestamp(float(delivered["time"]))
    return delivered


def _entry_as_event(backend: Any, entry: dict[str, Any], event_id: str) -> Event:
    return {
        "version": "0",
        "id": event_id,
        "detail-type": entry["DetailType"],
        "source": entry["Source"],
        "account": backend.account_id,
        "time": timestamp(),
        "region": backend.region_name,
        "resources": entry.get("Resources", []),
        "detail": json.loads(entry["Detail"]),
    }
