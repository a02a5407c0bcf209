"""Events, schedules, topics: who is told, with what, and what happens when nobody takes it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from local.aws import EngineError, LocalAws
from local.aws.events import target_input
from local.aws.scheduler import next_cron, rate_seconds


def kept(engine: LocalAws) -> list[dict[str, Any]]:
    items = engine.client("dynamodb").scan(TableName=engine.physical("Table"))["Items"]
    return [json.loads(i["event"]["S"]) for i in items if "event" in i]


def drain(engine: LocalAws, queue: str) -> list[dict[str, Any]]:
    url = engine.physical(queue)
    got: list[dict[str, Any]] = []
    while True:
        batch = engine.client("sqs").receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], WaitTimeSeconds=0
        )
        if not batch.get("Messages"):
            return got
        for message in batch["Messages"]:
            got.append(message)
            engine.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_s3_events_reach_functions_and_queues(engine: LocalAws) -> None:
    s3, bucket = engine.client("s3"), engine.physical("Inbox")
    versions = [
        s3.put_object(Bucket=bucket, Key=key, Body=b"12345")["VersionId"]
        for key in ("runtimes/cluster.yaml", "rollouts/a-1/decision.json", "rollouts/a/b/decision.json")
    ]
    s3.put_object(Bucket=bucket, Key="rollouts/a-1/outcome.json", Body=b"1")
    s3.put_object(Bucket=bucket, Key="runtimes/cluster.yaml.bak", Body=b"1")
    engine.quiet()
    events = [e for e in kept(engine) if e.get("source") == "aws.s3"]
    assert sorted(e["detail"]["object"]["key"] for e in events) == [
        "rollouts/a-1/decision.json",
        "rollouts/a/b/decision.json",
        "runtimes/cluster.yaml",
    ]
    assert {e["detail"]["object"]["version-id"] for e in events} == set(versions)
    assert len({e["id"] for e in events}) == 3
    kinds = [e["detail-type"] for e in engine.events if e["source"] == "aws.s3"]
    assert kinds == ["Object Created"] * 5
    assert len({e["detail"]["object"]["sequencer"] for e in events}) == 3
    one = events[0]
    assert (one["detail-type"], one["account"], one["region"]) == (
        "Object Created",
        "111122223333",
        "us-west-2",
    )
    assert one["detail"]["reason"] == "PutObject"
    assert one["detail"]["object"]["size"] == 5
    assert abs(time.time() - datetime.fromisoformat(one["time"]).timestamp()) < 60
    bodies = [json.loads(m["Body"]) for m in drain(engine, "Heard")]
    assert {"text": "got runtimes/cluster.yaml", "size": 5} in bodies


def test_put_events_reach_machines_and_topics(engine: LocalAws) -> None:
    before = len(engine.messages)
    entry = {"Source": "sample", "DetailType": "Start", "Detail": '{"cluster": "demo"}'}
    answer = engine.client("events").put_events(Entries=[entry])
    assert answer["FailedEntryCount"] == 0
    engine.quiet()
    engine.wait_until(
        lambda: any(e.output and "error" in e.output for e in engine.executions("Catching")),
        timeout=10,
        what="the execution that the rule starts",
    )
    message = engine.messages[before]
    assert message.topic_arn == engine.physical("Topic")
    told = json.loads(message.message)
    assert told["id"] == answer["Entries"][0]["EventId"]
    assert told["detail"] == {"cluster": "demo"}
    assert "ingestion-time" not in told
    datetime.strptime(told["time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert told in engine.events


def test_missing_permission_goes_to_the_dead_letters(engine: LocalAws) -> None:
    engine.put_event("sample", "Forbidden", {"n": 1})
    engine.quiet()
    (letter,) = drain(engine, "Dead")
    attributes = {k: v["StringValue"] for k, v in letter["MessageAttributes"].items()}
    assert attributes["ERROR_CODE"] == "NO_PERMISSIONS"
    assert ":rule/" in attributes["RULE_ARN"]
    assert json.loads(letter["Body"])["detail"] == {"n": 1}
    assert any("no permission for events.amazonaws.com" in p for p in engine.problems)


def test_missing_target_goes_to_the_dead_letters(engine: LocalAws) -> None:
    engine.put_event("sample", "Nowhere", {"n": 2})
    engine.quiet()
    (letter,) = drain(engine, "Dead")
    assert letter["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "StateMachineDoesNotExist"
    assert letter["MessageAttributes"]["TARGET_ARN"]["StringValue"].endswith("-that-is-not-there")


def test_publish_fills_the_outbox_and_reaches_functions(engine: LocalAws) -> None:
    before = len(engine.messages)
    topic = engine.physical("Topic")
    engine.client("sns").publish(TopicArn=topic, Subject="Please decide", Message="https://example.org/x")
    engine.quiet()
    message = engine.messages[before]
    assert (message.subject, message.message) == ("Please decide", "https://example.org/x")
    assert ("email", "a@example.org") in message.subscriptions
    (record,) = [
        e["Records"][0] for e in kept(engine) if e.get("Records", [{}])[0].get("EventSource") == "aws:sns"
    ][-1:]
    assert record["Sns"]["TopicArn"] == topic
    assert record["EventSubscriptionArn"].startswith(topic)


def test_topics_reach_queues(engine: LocalAws) -> None:
    drain(engine, "Heard")
    topic = engine.physical("Topic")
    queue = engine.resources["Heard"].attributes["Arn"]
    engine.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
    engine.client("sns").publish(TopicArn=topic, Subject="S", Message="to the queue")
    (message,) = drain(engine, "Heard")
    assert json.loads(message["Body"])["Message"] == "to the queue"


def test_an_event_may_come_twice(engine: LocalAws) -> None:
    bucket = engine.physical("Inbox")
    engine.client("s3").put_object(Bucket=bucket, Key="rollouts/twice/decision.json", Body=b"{}")
    event = engine.events[-1]
    engine.emit({**event, "replay-name": "again"})
    engine.quiet()
    same = [e for e in kept(engine) if e.get("id") == event["id"]]
    assert [e.get("replay-name") for e in same].count("again") == 1
    assert len(same) == 2


def test_schedule_fires_with_its_input(engine: LocalAws) -> None:
    engine.quiet()
    first = [e for e in kept(engine) if e.get("from") == "schedule"]
    assert len(first) == 1, "a rate schedule fires once at its start"
    engine.fire("often")
    engine.quiet()
    times = [e["at"] for e in kept(engine) if e.get("from") == "schedule"]
    assert len(times) == 2
    assert all(datetime.fromisoformat(t) for t in times)


@pytest.mark.parametrize(
    ("template", "paths", "expected"),
    [
        ('{"a": "<x>", "b": <x>}', {"x": "$.detail.text"}, {"a": 'say "hi"', "b": 'say "hi"'}),
        ('{"a": <x>}', {"x": "$.detail.list"}, {"a": [1, 2]}),
        ('"<x> and <y>"', {"x": "$.source", "y": "$.detail.text"}, 'own and say "hi"'),
        ('{"whole": <aws.events.event.json>}', {}, None),
    ],
)
def test_input_transformer(template: str, paths: dict[str, str], expected: Any) -> None:
    event = {"source": "own", "time": "t", "detail": {"text": 'say "hi"', "list": [1, 2]}}
    target = {"InputTransformer": {"InputPathsMap": paths, "InputTemplate": template}}
    filled = json.loads(target_input(target, event, "arn:aws:events:r:1:rule/name"))
    assert filled == ({"whole": event} if expected is None else expected)


def test_rate_and_cron() -> None:
    assert rate_seconds("rate(1 minute)") == 60
    assert rate_seconds("rate(6 hours)") == 21600
    assert rate_seconds("cron(0 6 * * ? *)") is None
    after = datetime(2026, 2, 27, 22, 15, 30, tzinfo=UTC)  # a Friday
    cases = {
        "cron(0 6 * * ? *)": datetime(2026, 2, 28, 6, 0, tzinfo=UTC),
        "cron(0/10 * * * ? *)": datetime(2026, 2, 27, 22, 20, tzinfo=UTC),
        "cron(30 22 ? * MON-FRI *)": datetime(2026, 2, 27, 22, 30, tzinfo=UTC),
        "cron(0 8 ? * MON *)": datetime(2026, 3, 2, 8, 0, tzinfo=UTC),
        "cron(0 0 1 JAN,MAR ? 2027)": datetime(2027, 1, 1, tzinfo=UTC),
    }
    for expression, expected in cases.items():
        assert next_cron(expression, after) == expected, expression
    with pytest.raises(EngineError):
        next_cron("cron(0 0 L * ? *)", after)
