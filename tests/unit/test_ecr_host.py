"""ECR hosts in every partition and form."""

import pytest
from aicr_pipeline.decide.ecr_host import EcrHost, parse_ecr_host


@pytest.mark.parametrize(
    ("host", "partition", "region"),
    [
        ("111122223333.dkr.ecr.us-west-2.amazonaws.com", "aws", "us-west-2"),
        ("111122223333.dkr.ecr-fips.us-east-1.amazonaws.com", "aws", "us-east-1"),
        ("111122223333.dkr-ecr.eu-west-1.on.aws", "aws", "eu-west-1"),
        ("111122223333.dkr-ecr-fips.us-west-2.on.aws", "aws", "us-west-2"),
        ("111122223333.dkr.ecr.us-gov-west-1.amazonaws.com", "aws-us-gov", "us-gov-west-1"),
        ("111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", "aws-cn", "cn-north-1"),
        ("111122223333.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", "aws-cn", "cn-north-1"),
        ("111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu", "aws-eusc", "eusc-de-east-1"),
    ],
)
def test_private_registries(host: str, partition: str, region: str) -> None:
    found = parse_ecr_host(host)
    assert found == EcrHost(partition, region, "111122223333")
    arn = f"arn:{partition}:ecr:{region}:111122223333:repository/aicr/demo/charts/*"
    assert found.repositories("aicr/demo/charts/*") == arn


@pytest.mark.parametrize(
    "host",
    [
        "public.ecr.aws",
        "127.0.0.1:5000",
        "ghcr.io",
        "11112222333.dkr.ecr.us-west-2.amazonaws.com",
        "111122223333.dkr.ecr.us-west-2.amazonaws.com.evil.example",
        "111122223333.dkr.ecr.us-west-2.amazonaws.com:443",
        "111122223333.dkr.ecr.us-west-2.amazonaws.com\n",
    ],
)
def test_anything_else_is_not_ecr(host: str) -> None:
    assert parse_ecr_host(host) is None
