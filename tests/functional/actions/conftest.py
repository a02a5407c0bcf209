"""One place per test."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local.kube import APP_PROJECTS, NAMESPACES, KubeServer
from local.kube.argocd_crds import install
from local.registry import LocalRegistry, TokenIssuer
from tests.functional.actions.credentials import Kept
from tests.functional.actions.ledger_commands import Printed
from tests.functional.actions.support import INBOX, LEDGER, TABLE, Place

REGION = "us-west-2"


@pytest.fixture(scope="session")
def clients() -> tuple[Any, Any]:
    """Made once, since a client costs more than a test; every test has empty stores behind them."""
    session = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION)
    with mock_aws():
        return session.client("s3"), session.client("dynamodb")


@pytest.fixture
def place(clients: tuple[Any, Any]) -> Iterator[Place]:
    s3, dynamodb = clients
    with mock_aws(), KubeServer() as server:
        for bucket in (LEDGER, INBOX):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
            s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        dynamodb.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
        )
        install(server.store)
        for namespace in ("argocd", "aicr-system", "aicr-validation"):
            server.store.create(NAMESPACES, {"metadata": {"name": namespace}})
        project = {"metadata": {"name": "aicr"}, "spec": {"sourceRepos": ["*"]}}
        server.store.create(APP_PROJECTS, project, namespace="argocd")
        yield Place(s3, dynamodb, server)


@pytest.fixture
def submitted(place: Place) -> None:
    """A runtime is in the inbox."""
    place.submit()


@pytest.fixture
def issuer(place: Place) -> TokenIssuer:
    return TokenIssuer(clock=lambda: place.now.timestamp())


@pytest.fixture
def kept(place: Place, issuer: TokenIssuer) -> Iterator[Kept]:
    with LocalRegistry(issuer) as registry:
        made = Kept(place, registry.host, issuer)
        yield made
        made.transport.close()


@pytest.fixture
def call(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command's ``main`` with this place's S3 as AWS."""
    monkeypatch.setattr("aicr_pipeline.adapters.aws.client", lambda service: getattr(place, service))

    def run(command: Any, *arguments: object) -> Printed:
        try:
            code = command.main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = ended.code
        printed = capsys.readouterr()
        return Printed(code=code, out=printed.out, err=printed.err)

    return run
