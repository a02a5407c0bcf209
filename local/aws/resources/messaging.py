"""SNS, SQS, EventBridge rules and Scheduler schedules."""

from __future__ import annotations

import json
from typing import Any

from local.aws.loader import Created, Loading, creates
from local.aws.scheduler import Entry, scheduler_payload


@creates("AWS::SNS::Topic")
def topic(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("TopicName") or loading.name(logical_id, 256)
    sns = loading.client("sns")
    attributes = {"DisplayName": properties["DisplayName"]} if properties.get("DisplayName") else {}
    arn = sns.create_topic(Name=name, Attributes=attributes)["TopicArn"]
    for subscription in properties.get("Subscription", []):
        sns.subscribe(TopicArn=arn, Protocol=subscription["Protocol"], Endpoint=subscription["Endpoint"])
    return arn, {"TopicArn": arn, "TopicName": name, "Arn": arn}


@creates("AWS::SNS::TopicPolicy")
def topic_policy(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    document = json.dumps(properties["PolicyDocument"])
    for arn in properties["Topics"]:
        loading.client("sns").set_topic_attributes(
            TopicArn=arn, AttributeName="Policy", AttributeValue=document
        )
    return loading.name(logical_id), {"Id": logical_id}


@creates("AWS::SNS::Subscription")
def subscription(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    attributes: dict[str, str] = {}
    if properties.get("FilterPolicy"):
        attributes["FilterPolicy"] = json.dumps(properties["FilterPolicy"])
    if properties.get("RawMessageDelivery"):
        attributes["RawMessageDelivery"] = "true"
    arn = loading.client("sns").subscribe(
        TopicArn=properties["TopicArn"],
        Protocol=properties["Protocol"],
        Endpoint=properties.get("Endpoint", ""),
        Attributes=attributes,
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]
    return arn, {"Arn": arn}


@creates("AWS::SQS::Queue")
def queue(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("QueueName") or loading.name(logical_id, 80)
    plain = ("VisibilityTimeout", "MessageRetentionPeriod", "DelaySeconds", "ReceiveMessageWaitTimeSeconds")
    attributes = {k: str(properties[k]) for k in plain if k in properties}
    if properties.get("RedrivePolicy"):
        attributes["RedrivePolicy"] = json.dumps(properties["RedrivePolicy"])
    url = loading.client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url, {"Arn": loading.arn("sqs", name), "QueueName": name, "QueueUrl": url}


@creates("AWS::SQS::QueuePolicy")
def queue_policy(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    document = json.dumps(properties["PolicyDocument"])
    for url in properties["Queues"]:
        loading.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": document})
    return loading.name(logical_id), {"Id": logical_id}


@creates("AWS::Events::Rule")
def rule(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    events = loading.client("events")
    name = properties.get("Name") or loading.name(logical_id)
    bus = properties.get("EventBusName", "default")
    state = properties.get("State", "ENABLED")
    arguments: dict[str, Any] = {"Name": name, "EventBusName": bus, "State": state}
    if properties.get("EventPattern"):
        arguments["EventPattern"] = json.dumps(properties["EventPattern"])
    expression = properties.get("ScheduleExpression")
    if expression:
        arguments["ScheduleExpression"] = expression
    arn = events.put_rule(**arguments)["RuleArn"]
    targets = [_plain_numbers(t) for t in properties.get("Targets", [])]
    if targets:
        events.put_targets(Rule=name, EventBusName=bus, Targets=targets)
    if expression and state == "ENABLED":
        for target in targets:
            principal = None if target.get("RoleArn") else "events.amazonaws.com"
            payload = scheduler_payload(arn, target.get("Input"), source="aws.events")
            entry = Entry(f"{name}/{target['Id']}", arn, expression, "UTC", target, principal, payload)
            loading.ticker.add(entry)
    return name, {"Arn": arn}


def _plain_numbers(target: dict[str, Any]) -> dict[str, Any]:
    retry = target.get("RetryPolicy")
    return {**target, "RetryPolicy": {k: int(v) for k, v in retry.items()}} if retry else target


@creates("AWS::Scheduler::ScheduleGroup")
def schedule_group(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("Name") or loading.name(logical_id)
    arn = loading.client("scheduler").create_schedule_group(Name=name)["ScheduleGroupArn"]
    return name, {"Arn": arn, "State": "ACTIVE"}


@creates("AWS::Scheduler::Schedule")
def schedule(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("Name") or loading.name(logical_id)
    group = properties.get("GroupName", "default")
    target = _plain_numbers(properties["Target"])
    arguments: dict[str, Any] = {
        "Name": name,
        "GroupName": group,
        "ScheduleExpression": properties["ScheduleExpression"],
        "FlexibleTimeWindow": properties["FlexibleTimeWindow"],
        "State": properties.get("State", "ENABLED"),
        "Target": target,
    }
    zone = properties.get("ScheduleExpressionTimezone", "UTC")
    arn = loading.client("scheduler").create_schedule(**arguments, ScheduleExpressionTimezone=zone)[
        "ScheduleArn"
    ]
    if arguments["State"] == "ENABLED":
        payload = scheduler_payload(arn, target.get("Input"), source="aws.scheduler")
        # Scheduler brings the target's role, so no function permission is needed.
        loading.ticker.add(Entry(name, arn, arguments["ScheduleExpression"], zone, target, None, payload))
    return name, {"Arn": arn}
