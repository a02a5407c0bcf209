"""What an ECR host name says, in every partition and form. Any other registry is not ECR."""

import re
from dataclasses import dataclass

# <account>.dkr.ecr[-fips].<region>.<suffix>; dual-stack: <account>.dkr-ecr[-fips].<region>.on.<suffix>.
_HOST = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z]{2,4}(?:-[a-z]+)+-\d+)\."
    r"(?P<suffix>amazonaws\.com|amazonaws\.com\.cn|amazonaws\.eu|on\.aws|on\.amazonwebservices\.com\.cn"
    r"|on\.amazonwebservices\.eu|sc2s\.sgov\.gov|c2s\.ic\.gov)",
    re.ASCII,
)
_PARTITIONS = (
    ("cn-", "aws-cn"),
    ("us-gov-", "aws-us-gov"),
    ("eusc-", "aws-eusc"),
    ("us-iso-", "aws-iso"),
    ("us-isob-", "aws-iso-b"),
)


@dataclass(frozen=True)
class EcrHost:
    """Where a private ECR registry is."""

    partition: str
    region: str
    account: str

    def repositories(self, pattern: str) -> str:
        """The ARN of the repositories that match ``pattern``."""
        return f"arn:{self.partition}:ecr:{self.region}:{self.account}:repository/{pattern}"


def parse_ecr_host(host: str) -> EcrHost | None:
    """``111122223333.dkr.ecr.us-west-2.amazonaws.com`` and its like; None when it is no ECR host."""
    match = _HOST.fullmatch(host)
    if match is None:
        return None
    region = match["region"]
    partition = next((name for prefix, name in _PARTITIONS if region.startswith(prefix)), "aws")
    return EcrHost(partition, region, match["account"])
