"""What an ECR host name says, in every partition and form. Any other registry is not ECR."""

import re
from typing import NamedTuple

# <account>.dkr.ecr[-fips].<region>.<suffix>; dual-stack: <account>.dkr-ecr[-fips].<region>.on.<suffix>.
_HOST = (
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z]{2,4}(?:-[a-z]+)+-\d+)\."
    r"(?P<suffix>amazonaws\.com|amazonaws\.com\.cn|amazonaws\.eu|on\.aws|on\.amazonwebservices\.com\.cn"
    r"|on\.amazonwebservices\.eu|sc2s\.sgov\.gov|c2s\.ic\.gov)"
)
_PARTITIONS = (
    ("cn-", "aws-cn"),
    ("us-gov-", "aws-us-gov"),
    ("eusc-", "aws-eusc"),
    ("us-iso-", "aws-iso"),
    ("us-isob-", "aws-iso-b"),
)


class EcrHost(NamedTuple):
    """Where a private ECR registry is."""

    partition: str
    region: str
    account: str

    def repositories(self, pattern: str) -> str:
        """The ARN of the repositories that match ``pattern``."""
        return f"arn:{self.partition}:ecr:{self.region}:{self.account}:repository/{pattern}"


def parse_ecr_host(host: str) -> EcrHost | None:
    """``111122223333.dkr.ecr.us-west-2.amazonaws.com`` and its like; None when it is no ECR host."""
    # Most hosts are not ECR, and the pattern takes a millisecond to compile.
    match = re.fullmatch(_HOST, host, re.ASCII) if ".dkr" in host else None
    if match is None:
        return None
    region = match["region"]
    partition = next((name for prefix, name in _PARTITIONS if region.startswith(prefix)), "aws")
    return EcrHost(partition, region, match["account"])
