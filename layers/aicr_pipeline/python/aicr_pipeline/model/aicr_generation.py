"""What AICR 1.1.0 changed for who validates with it: who its validators run as, and that a key can sign.

Source: "Installing on EKS" of AICR's operator, sections "Values" and "Validation".
"""

import re
from enum import StrEnum

#: From here on the launcher needs rights in its namespace only, and evidence can be signed with a KMS key.
FIRST_SIGNING = (1, 1, 0)

_VERSION = re.compile(r"^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-(.+))?$")
#: AICR stamps builds of its main branch with the release they come *after*: ``v1.1.0-next`` follows v1.1.0.
_AFTER = "next"


class Generation(StrEnum):
    """Who AICR's validators run as.

    ``OWN_BINDING`` (1.0.x): the launcher makes a ServiceAccount for each run and binds it to cluster-admin,
    for which it has to be cluster-admin itself. ``NAMED_ACCOUNT`` (>= 1.1.0): they run as a ServiceAccount
    that an administrator made, and the launcher has rights in its namespace only.
    """

    OWN_BINDING = "1.0"
    NAMED_ACCOUNT = "1.1"

    @property
    def signs(self) -> bool:
        """Whether this AICR can sign its evidence with a KMS key."""
        return self is Generation.NAMED_ACCOUNT


def generation(version: str) -> Generation:
    """The generation of an AICR version.

    A pre-release is before its release, as SemVer orders them: ``v1.1.0-rc.1`` is of the older generation.
    ``-next`` is after it. What is no version at all is of the older one, which asks for less of AICR.
    """
    match = _VERSION.match(version)
    if match is None:
        return Generation.OWN_BINDING
    numbers = (int(match[1]), int(match[2]), int(match[3]))
    is_before = match[4] is not None and match[4] != _AFTER
    reached = numbers > FIRST_SIGNING or (numbers == FIRST_SIGNING and not is_before)
    return Generation.NAMED_ACCOUNT if reached else Generation.OWN_BINDING
