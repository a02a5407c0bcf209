"""Stores, keys and topics, as the template holds them."""

from tests.infra.templates import Stack, as_list, bucket, bucket_policy, plain

# Stores


def test_buckets_are_private_encrypted_tls_only_and_kept(stack: Stack) -> None:
    for part in ("Inbox", "Ledger", "AccessLogs"):
        _, found = bucket(stack, part)
        assert found["DeletionPolicy"] == "Retain"
        assert set(found["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
        assert found["Properties"]["BucketEncryption"]
        assert any(
            statement["Effect"] == "Deny"
            and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
            for statement in bucket_policy(stack, part).values()
        )


def test_inbox_and_ledger_are_versioned_logged_and_raise_events(stack: Stack) -> None:
    for part in ("Inbox", "Ledger"):
        properties = bucket(stack, part)[1]["Properties"]
        assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
        assert properties["LoggingConfiguration"]
        assert properties["NotificationConfiguration"] == {
            "EventBridgeConfiguration": {"EventBridgeEnabled": True}
        }


def test_the_ledger_is_locked_as_configured(demo: Stack, private: Stack) -> None:
    for stack, mode, days in ((demo, "GOVERNANCE", 365), (private, "COMPLIANCE", 3650)):
        properties = bucket(stack, "Ledger")[1]["Properties"]
        assert properties["ObjectLockEnabled"] is True
        rule = properties["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]
        assert rule == {"Mode": mode, "Days": days}


def test_the_ledger_is_written_once_by_everybody(stack: Stack) -> None:
    policy = bucket_policy(stack, "Ledger")
    only_new = policy["OnlyNewObjects"]
    assert (only_new["Effect"], only_new["Action"]) == ("Deny", "s3:PutObject")
    assert only_new["Principal"] == {"AWS": "*"}
    assert only_new["Condition"] == {
        "Null": {"s3:if-none-match": "true"},
        "Bool": {"s3:ObjectCreationOperation": "true"},
    }
    removed = policy["NothingIsRemoved"]
    assert removed["Principal"] == {"AWS": "*"}
    assert "Condition" not in removed
    assert set(removed["Action"]) == {
        "s3:DeleteObject",
        "s3:DeleteObjectVersion",
        "s3:BypassGovernanceRetention",
        "s3:ReplicateObject",
    }
    assert policy["NothingExpires"]["Action"] == "s3:PutLifecycleConfiguration"
    for sid in ("OnlyNewObjects", "NothingIsRemoved", "NothingExpires"):
        assert policy[sid]["Effect"] == "Deny"


def test_the_table_is_billed_by_request_and_recoverable(stack: Stack) -> None:
    table = stack.one("AWS::DynamoDB::Table")
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}
    assert [key["AttributeName"] for key in table["KeySchema"]] == ["pk", "sk"]


def test_the_registry_template_is_for_the_prefix(demo: Stack) -> None:
    template = demo.one("AWS::ECR::RepositoryCreationTemplate")
    assert template["Prefix"] == "aicr/demo"
    assert template["AppliedFor"] == ["CREATE_ON_PUSH"]
    assert template["ImageTagMutability"] == "IMMUTABLE"
    assert template["EncryptionConfiguration"] == {"EncryptionType": "AES256"}


# Keys and topics


def test_the_signing_key_signs_only_for_bind_evidence_and_is_kept(stack: Stack) -> None:
    (key,) = [
        found
        for found in stack.of_type("AWS::KMS::Key").values()
        if found["Properties"].get("KeyUsage") == "SIGN_VERIFY"
    ]
    assert key["DeletionPolicy"] == key["UpdateReplacePolicy"] == "Retain"
    assert key["Properties"]["KeySpec"] == "ECC_NIST_P256"
    denied = {
        statement["Sid"]: statement
        for statement in key["Properties"]["KeyPolicy"]["Statement"]
        if statement["Effect"] == "Deny"
    }
    assert {sid: found["Action"] for sid, found in denied.items()} == {
        "OnlyBindEvidenceSigns": "kms:Sign",
        "OnlyDigestsAreSigned": "kms:Sign",
        "OnlyOneAlgorithm": "kms:Sign",
        "NoGrants": "kms:CreateGrant",
        "TheKeyIsKept": "kms:ScheduleKeyDeletion",
    }
    assert denied["OnlyDigestsAreSigned"]["Condition"] == {"StringNotEquals": {"kms:MessageType": "DIGEST"}}
    signer = denied["OnlyBindEvidenceSigns"]["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]
    assert signer == stack.functions()["bind_evidence"]["Role"]


def test_evidence_is_signed_by_whichever_key_carries_the_alias(stack: Stack) -> None:
    """So a key is replaced by moving the alias, and no other key of the account may be used."""
    bind = stack.functions()["bind_evidence"]
    (alias,) = (
        found["Properties"]["AliasName"]
        for found in stack.of_type("AWS::KMS::Alias").values()
        if found["Properties"]["AliasName"].endswith("-evidence")
    )
    assert plain(bind["Environment"]["Variables"]["SIGNING_KEY_ARN"]).endswith(f":{alias}")
    carried = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": alias}}
    statements = [
        statement
        for name, statement in stack.statements()
        # That of AICR's key, which is read and never signed with, has a test of its own.
        if name == "bind_evidence" and "kms:ResourceAliases" in str(statement.get("Condition"))
    ]
    assert {action for statement in statements for action in as_list(statement["Action"])} == {
        "kms:Sign",
        "kms:GetPublicKey",
    }
    for statement in statements:
        assert statement["Condition"].items() >= carried.items()


def test_approver_topics_take_messages_from_publishers_only(stack: Stack) -> None:
    publishers = {
        plain(stack.functions()[name]["Role"])
        for name in (
            "request_approval",
            "remind_approvers",
            "record_resolve",
            "record_outcome",
            "record_stall",
            "update_status",
            "hold_step",
        )
    }
    policies = [
        {statement["Sid"]: statement for statement in found["Properties"]["PolicyDocument"]["Statement"]}
        for name, found in stack.of_type("AWS::SNS::TopicPolicy").items()
        if "Approver" in name
    ]
    assert policies
    for policy in policies:
        publish = policy["NobodyElsePublishes"]
        assert (publish["Effect"], publish["Action"]) == ("Deny", "sns:Publish")
        allowed = publish["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]
        assert {plain(role) for role in as_list(allowed)} == publishers
        subscribe = policy["OnlyTheDeploymentSubscribes"]
        assert (subscribe["Effect"], subscribe["Action"]) == ("Deny", "sns:Subscribe")
        (deployer,) = as_list(subscribe["Condition"]["ArnNotLike"]["aws:PrincipalArn"])
        assert ":role/cdk-*-cfn-exec-role-" in plain(deployer)
        assert any(
            found["Effect"] == "Deny" and found["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            for found in policy.values()
            if "Condition" in found
        )


def test_topics_are_encrypted_and_mails_go_where_configured(demo: Stack, private: Stack) -> None:
    for stack in (demo, private):
        for topic in stack.of_type("AWS::SNS::Topic").values():
            assert topic["Properties"]["KmsMasterKeyId"]
    assert demo.one("AWS::SNS::Subscription")["Endpoint"] == "alex@example.com"
    # alex has no address there: a topic, but no subscription.
    assert private.one("AWS::SNS::Subscription")["Endpoint"] == "sam@example.com"
    assert len(private.of_type("AWS::SNS::Topic")) == 3
