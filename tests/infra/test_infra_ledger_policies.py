"""What the synthesized policies let each role do with evidence, evaluated as AWS would.

For every role of the stack, every kind of record and every context that a caller could choose. That AWS
evaluates as documented is AWS's word; the evaluator is tested against the documentation's examples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pytest
from aicr_pipeline.model.runtime import RUNTIME_KEY

from infra.ledger_writers import LEDGER_WRITERS
from infra.names import partition_of
from tests.infra.iam_evaluator import Decision, Policy, Request, Value, contexts, decide, decide_key
from tests.infra.templates import Stack, as_list
from tests.infra.test_infra_ledger_writers import example, granted, writers

EVERYTHING: Policy = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
#: Resources whose Ref is their ARN.
REF_IS_ARN = {
    "AWS::SNS::Topic", "AWS::SecretsManager::Secret", "AWS::StepFunctions::StateMachine",
}  # fmt: skip
#: A kind of record each, and what is none.
KEYS = [
    *(example(pattern) for _, pattern, _ in LEDGER_WRITERS),
    "rollouts/x/decision.json", "rollouts/x/decisions/x.json", "resolves/x/charts/x.json",
    "resolves/x/snapshot.yaml", "resolves/x/told.json", "resolves/x/rollout.json",
    "other", "evidence", "rollouts/x/other.json",
]  # fmt: skip


class Account:
    """The stack's roles and policies, with ARNs in place of references."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        artifacts = json.loads((stack.assembly / "manifest.json").read_text())["artifacts"]
        (place,) = {
            one["environment"] for one in artifacts.values() if one["type"] == "aws:cloudformation:stack"
        }
        self.number, self.region = place.removeprefix("aws://").split("/")
        self.partition = partition_of(self.region)
        self.person = f"arn:{self.partition}:iam::{self.number}:user/administrator"
        buckets = [name for name in stack.of_type("AWS::S3::Bucket") if "Ledger" in name]
        (self.bucket_id,) = buckets
        self.ledger = self.text({"Fn::GetAtt": [self.bucket_id, "Arn"]})
        (self.key_id,) = [
            name
            for name, key in stack.of_type("AWS::KMS::Key").items()
            if key["Properties"].get("KeyUsage") == "SIGN_VERIFY"
        ]
        self.key = self.text({"Fn::GetAtt": [self.key_id, "Arn"]})

    def text(self, value: Any) -> str:
        """A reference as what CloudFormation would put there, made up where AWS chooses."""
        if isinstance(value, str):
            return value
        if "Fn::Join" in value:
            separator, parts = value["Fn::Join"]
            return str(separator).join(map(self.text, parts))
        if "Ref" in value:
            pseudo = {
                "AWS::Partition": self.partition, "AWS::AccountId": self.number, "AWS::Region": self.region,
            }  # fmt: skip
            if value["Ref"] in pseudo:
                return pseudo[value["Ref"]]
            kind = self.stack.resources[value["Ref"]]["Type"]
            return self.arn(kind, value["Ref"]) if kind in REF_IS_ARN else str(value["Ref"])
        name, _ = value["Fn::GetAtt"]
        kind = self.stack.resources[name]["Type"]
        return self.arn(kind, name)

    def arn(self, kind: str, name: str) -> str:
        """Of a resource by its logical id."""
        if kind == "AWS::S3::Bucket":
            return f"arn:{self.partition}:s3:::{name.lower()}"
        if kind == "AWS::IAM::Role":
            return f"arn:{self.partition}:iam::{self.number}:role/{name}"
        service = kind.split("::")[1].lower()
        return f"arn:{self.partition}:{service}:{self.region}:{self.number}:key/{name}"

    def plain(self, value: Any) -> Any:
        """A policy with all references resolved."""
        if isinstance(value, Mapping):
            if set(value) & {"Fn::Join", "Fn::GetAtt", "Ref"}:
                return self.text(value)
            return {key: self.plain(item) for key, item in value.items()}
        return [self.plain(item) for item in value] if isinstance(value, list) else value

    @cached_property
    def roles(self) -> dict[str, list[Policy]]:
        """Role ARN -> its policies. No role has any that are not in the template."""
        found: dict[str, list[Policy]] = {}
        for name, role in self.stack.of_type("AWS::IAM::Role").items():
            assert not {"ManagedPolicyArns", "PermissionsBoundary"} & set(role["Properties"]), name
            inline = [one["PolicyDocument"] for one in role["Properties"].get("Policies", [])]
            found[self.text({"Fn::GetAtt": [name, "Arn"]})] = [self.plain(one) for one in inline]
        for policy in self.stack.of_type("AWS::IAM::Policy").values():
            for role in policy["Properties"]["Roles"]:
                arn = self.text({"Fn::GetAtt": [role["Ref"], "Arn"]})
                found[arn].append(self.plain(policy["Properties"]["PolicyDocument"]))
        assert not self.stack.of_type("AWS::IAM::ManagedPolicy")
        return found

    @cached_property
    def names(self) -> dict[str, str]:
        """Role ARN -> the function that has it; a machine's or a schedule's keeps its own name."""
        functions = {
            self.text(found["Properties"]["Role"]): self.stack.function_of(name)
            for name, found in self.stack.of_type("AWS::Lambda::Function").items()
        }
        return {arn: functions.get(arn, arn.rpartition("/")[2]) for arn in self.roles}

    @cached_property
    def bucket_policy(self) -> Policy:
        (found,) = [
            one["Properties"]["PolicyDocument"]
            for one in self.stack.of_type("AWS::S3::BucketPolicy").values()
            if self.text(one["Properties"]["Bucket"]) == self.bucket_id
        ]
        made: Policy = self.plain(found)
        return made

    @cached_property
    def key_policy(self) -> Policy:
        made: Policy = self.plain(self.stack.resources[self.key_id]["Properties"]["KeyPolicy"])
        return made

    def on_ledger(
        self, principal: str, identity: list[Policy], action: str, resource: str, **fixed: Value
    ) -> set[Decision]:
        """The answers, over everything that a caller could choose."""
        set_by_aws: dict[str, Value] = {"aws:PrincipalArn": principal, **{
            key.replace("__", ":").replace("_", "-"): value for key, value in fixed.items()
        }}  # fmt: skip
        policies, request = [*identity, self.bucket_policy], Request(principal, action, resource)
        return {
            decide(Request(principal, action, resource, context), identity, [self.bucket_policy])
            for context in contexts(request, policies, set_by_aws)
        }

    def on_key(self, principal: str, identity: list[Policy], action: str, **fixed: Value) -> set[Decision]:
        """The answers for the key of evidence, over everything that a caller could choose."""
        aliases = tuple(
            alias["Properties"]["AliasName"]
            for alias in self.stack.of_type("AWS::KMS::Alias").values()
            if self.text(alias["Properties"]["TargetKeyId"]) == self.key
        )
        assert len(aliases) == 1
        set_by_aws: dict[str, Value] = {"aws:PrincipalArn": principal, "kms:ResourceAliases": aliases} | {
            key.replace("__", ":"): value for key, value in fixed.items()
        }
        policies, request = [*identity, self.key_policy], Request(principal, action, self.key)
        return {
            decide_key(Request(principal, action, self.key, context), identity, self.key_policy)
            for context in contexts(request, policies, set_by_aws)
        }


@pytest.fixture(scope="session")
def demo_account(demo: Stack) -> Account:
    return Account(demo)


@pytest.fixture(scope="session")
def private_account(private: Stack) -> Account:
    return Account(private)


@pytest.fixture(params=["demo", "private"])
def account(request: pytest.FixtureRequest) -> Account:
    found: Account = request.getfixturevalue(f"{request.param}_account")
    return found


#: On an object of the ledger: nothing of it is anybody's of the stack.
ON_OBJECTS = (
    "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:BypassGovernanceRetention", "s3:PutObjectRetention",
    "s3:PutObjectLegalHold", "s3:ReplicateObject", "s3:ReplicateDelete", "s3:PutObjectAcl",
    "s3:PutObjectVersionAcl", "s3:RestoreObject", "s3:PutObjectTagging", "s3:DeleteObjectTagging",
    "s3:UpdateObjectEncryption", "s3:ObjectOwnerOverrideToBucketOwner", "s3:RenameObject",
)  # fmt: skip
#: On the bucket: what could undo its policy, lock or versions.
ON_BUCKET = (
    "s3:PutBucketPolicy", "s3:DeleteBucketPolicy", "s3:PutLifecycleConfiguration", "s3:DeleteBucket",
    "s3:PutBucketVersioning", "s3:PutBucketObjectLockConfiguration", "s3:PutReplicationConfiguration",
    "s3:PutBucketAcl", "s3:PutBucketOwnershipControls", "s3:PutBucketPublicAccessBlock",
    "s3:PutEncryptionConfiguration", "s3:PutBucketNotification", "s3:PutBucketLogging",
)  # fmt: skip


#: The bucket's policy refuses them to whoever asks.
REFUSED_TO_ALL = (
    "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:BypassGovernanceRetention",
    "s3:ReplicateObject",
)  # fmt: skip


def test_every_role_is_looked_at(account: Account) -> None:
    assert len(account.roles) == len(account.stack.of_type("AWS::IAM::Role")) > len(account.stack.functions())
    assert all(account.roles.values()), "a role without any policy says nothing"


@pytest.mark.parametrize("action", ON_OBJECTS)
def test_no_role_deletes_marks_unlocks_or_replaces_a_record(account: Account, action: str) -> None:
    for role, identity in account.roles.items():
        for key in KEYS:
            answers = account.on_ledger(role, identity, action, f"{account.ledger}/{key}")
            assert Decision.Allowed not in answers, (account.names[role], key)


@pytest.mark.parametrize("action", ON_BUCKET)
def test_no_role_changes_the_bucket(account: Account, action: str) -> None:
    for role, identity in account.roles.items():
        assert Decision.Allowed not in account.on_ledger(role, identity, action, account.ledger), (
            account.names[role]
        )


def test_no_role_puts_an_object_that_could_replace_another(account: Account) -> None:
    """Without If-None-Match S3 would take it; with it S3 takes new keys only."""
    for role, identity in account.roles.items():
        for key in KEYS:
            answers = account.on_ledger(
                role, identity, "s3:PutObject", f"{account.ledger}/{key}",
                s3__if_none_match=None, s3__ObjectCreationOperation="true",
            )  # fmt: skip
            assert answers == {Decision.ExplicitlyDenied}, (account.names[role], key)


def writing(account: Account, key: str) -> set[str]:
    """Who may put a new object there."""
    return {
        account.names[role]
        for role, identity in account.roles.items()
        if Decision.Allowed
        in account.on_ledger(
            role, identity, "s3:PutObject", f"{account.ledger}/{key}",
            s3__if_none_match="*", s3__ObjectCreationOperation="true",
        )
    }  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_each_kind_of_record_is_put_by_its_functions_alone(account: Account, key: str) -> None:
    assert writing(account, key) <= writers(key)


def test_each_function_can_put_what_is_its_own(account: Account) -> None:
    """So that the proof above is not one of rights that do not work."""
    for who, pattern in granted(account.stack):
        if pattern != RUNTIME_KEY:  # that one is in the inbox
            assert who in writing(account, example(pattern)), (who, pattern)


@pytest.mark.parametrize("key", KEYS)
def test_an_administrator_neither_writes_nor_removes_a_record(account: Account, key: str) -> None:
    """Explicitly, whatever their own policies allow, over TLS or not, with any header."""
    for action in REFUSED_TO_ALL:
        answers = account.on_ledger(account.person, [EVERYTHING], action, f"{account.ledger}/{key}")
        assert answers == {Decision.ExplicitlyDenied}, action


def test_an_administrator_adds_no_expiry(account: Account) -> None:
    answers = account.on_ledger(account.person, [EVERYTHING], "s3:PutLifecycleConfiguration", account.ledger)
    assert answers == {Decision.ExplicitlyDenied}


def test_what_is_left_to_an_administrator_is_what_the_page_says(account: Account) -> None:
    """Who may change the policy can undo it; the proof can fail, and is not of the evaluator's making."""
    assert Decision.Allowed in account.on_ledger(
        account.person, [EVERYTHING], "s3:PutBucketPolicy", account.ledger
    )
    lengthened = account.on_ledger(
        account.person, [EVERYTHING], "s3:PutObjectRetention", f"{account.ledger}/evidence/x"
    )
    assert Decision.Allowed in lengthened


def test_evidence_is_read_by_who_binds_it_alone(account: Account) -> None:
    readers = {
        account.names[role]
        for role, identity in account.roles.items()
        if Decision.Allowed
        in account.on_ledger(
            role, identity, "s3:GetObject", f"{account.ledger}/evidence/demo/r/x.intoto.json"
        )
    }
    assert readers == {"bind_evidence"}


def test_only_bind_evidence_signs_and_only_digests(account: Account) -> None:
    signers = {}
    for role, identity in account.roles.items():
        if Decision.Allowed in account.on_key(role, identity, "kms:Sign"):
            signers[account.names[role]] = (role, identity)
    assert set(signers) == {"bind_evidence"}
    role, identity = signers["bind_evidence"]
    for kind in ("RAW", None, "something-else"):
        assert Decision.Allowed not in account.on_key(role, identity, "kms:Sign", kms__MessageType=kind)
    for algorithm in ("ECDSA_SHA_384", None):
        answers = account.on_key(role, identity, "kms:Sign", kms__SigningAlgorithm=algorithm)
        assert answers == {Decision.ExplicitlyDenied}
    assert account.on_key(account.person, [EVERYTHING], "kms:Sign") == {Decision.ExplicitlyDenied}


@pytest.mark.parametrize("action", ["kms:ScheduleKeyDeletion", "kms:CreateGrant"])
def test_nobody_deletes_the_key_or_lends_it(account: Account, action: str) -> None:
    for principal, identity in [*account.roles.items(), (account.person, [EVERYTHING])]:
        assert account.on_key(principal, identity, action) == {Decision.ExplicitlyDenied}


@pytest.mark.parametrize(
    "action",
    ["kms:PutKeyPolicy", "kms:DisableKey", "kms:UpdateAlias", "kms:DeleteAlias", "kms:CreateAlias",
     "kms:DeleteImportedKeyMaterial", "kms:ReplicateKey", "kms:UpdatePrimaryRegion", "kms:RetireGrant"],
)  # fmt: skip
def test_no_role_changes_the_key(account: Account, action: str) -> None:
    for role, identity in account.roles.items():
        assert Decision.Allowed not in account.on_key(role, identity, action), account.names[role]


def test_ledger_inbox_and_key_survive_the_stack(account: Account) -> None:
    kept = {
        name: found
        for type_ in ("AWS::S3::Bucket", "AWS::KMS::Key")
        for name, found in account.stack.of_type(type_).items()
        if name == account.key_id or type_ == "AWS::S3::Bucket"
    }
    assert len(kept) == 4 and account.bucket_id in kept
    for name, found in kept.items():
        assert (found["DeletionPolicy"], found["UpdateReplacePolicy"]) == ("Retain", "Retain"), name


@pytest.mark.parametrize(
    ("name", "mode", "days"), [("demo", "GOVERNANCE", 365), ("private", "COMPLIANCE", None)]
)
def test_governance_is_the_default_and_compliance_is_asked_for(
    name: str, mode: str, days: int | None, request: pytest.FixtureRequest
) -> None:
    account: Account = request.getfixturevalue(f"{name}_account")
    bucket = account.stack.resources[account.bucket_id]["Properties"]
    assert bucket["ObjectLockEnabled"] is True
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    rule = bucket["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]
    assert rule["Mode"] == mode and (days is None or rule["Days"] == days)
    assert "LifecycleConfiguration" not in bucket and "ReplicationConfiguration" not in bucket


def _refused_by(account: Account, statement: Mapping[str, Any]) -> set[Decision]:
    """What becomes of something that the statement is about."""
    bind = next(role for role in account.roles if account.names[role] == "bind_evidence")
    action = as_list(statement["Action"])[0]
    if action.startswith("kms:"):
        chosen = {"OnlyDigestsAreSigned": {"kms__MessageType": "RAW"},
                  "OnlyOneAlgorithm": {"kms__SigningAlgorithm": "ECDSA_SHA_384"}}  # fmt: skip
        free = statement["Sid"] not in chosen
        fixed: dict[str, Value] = {**chosen.get(statement["Sid"], {})}
        return account.on_key(account.person if free else bind, [EVERYTHING], action, **fixed)
    if statement["Sid"] == "OnlyNewObjects":
        key = f"{account.ledger}/evidence/demo/x/x.intoto.json"
        made: dict[str, Value] = {"s3__if_none_match": None, "s3__ObjectCreationOperation": "true"}
        return account.on_ledger(bind, account.roles[bind], action, key, **made)
    place = example(as_list(statement.get("Resource", f"{account.ledger}/other"))[0])
    return account.on_ledger(account.person, [EVERYTHING], action, place)


def test_without_any_one_denial_something_is_allowed(demo_account: Account) -> None:
    """Each statement of both policies does something, and the proofs above can fail."""
    account, changed = demo_account, Account(demo_account.stack)
    looked = 0
    for name in ("bucket_policy", "key_policy"):
        policy = getattr(account, name)
        for statement in policy["Statement"]:
            if statement["Effect"] == "Deny" and "aws:SecureTransport" not in str(statement):
                others = [one for one in policy["Statement"] if one is not statement]
                setattr(changed, name, {**policy, "Statement": others})
                assert _refused_by(account, statement) == {Decision.ExplicitlyDenied}, statement["Sid"]
                assert Decision.Allowed in _refused_by(changed, statement), statement["Sid"]
                looked += 1
        setattr(changed, name, policy)
    assert looked == len(LEDGER_WRITERS) + 4 + 5


def test_every_statement_is_one_that_the_evaluator_knows(account: Account) -> None:
    """Nothing was skipped: each condition operator and element of every policy was evaluated above."""
    operators = {
        operator
        for policies in ([account.bucket_policy, account.key_policy], *account.roles.values())
        for policy in policies
        for statement in as_list(policy["Statement"])
        for operator in statement.get("Condition", {})
    }
    assert {"Null", "Bool", "ArnNotEquals", "StringEquals", "StringNotEquals"} <= operators
