"""The secret that Argo CD's notifications carry, in Secrets Manager; two values count while it is changed."""

import hmac
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.clock import Clock

#: After a change the value before still counts for so long: Argo CD is told of the new one by hand.
GRACE = timedelta(days=1)
_KEPT = timedelta(minutes=5)
#: A value that we do not know may be newer than what we hold; strangers cost no more than a look a minute.
_LOOK_AGAIN = timedelta(minutes=1)
_SHORTEST = 16


class WebhookSecret:
    """Checks what a caller sent. Nothing of it is ever logged."""

    def __init__(self, secretsmanager: Any, arn: str, clock: Clock) -> None:
        self._secrets = secretsmanager
        self._arn = arn
        self._clock = clock
        self._values: tuple[bytes, ...] = ()
        self._read_at: datetime | None = None

    def accepts(self, given: str) -> bool:
        """Whether it is the current value, or the one before within a day of the change.

        Compared in constant time. Read when first asked for, every five minutes, and for a value that is
        not known at most once a minute.
        """
        if self._is_older_than(_KEPT) or (not self._matches(given) and self._is_older_than(_LOOK_AGAIN)):
            self._read()
        return self._matches(given)

    def _matches(self, given: str) -> bool:
        # Every value is compared: which one matched takes no less time than none.
        found = [hmac.compare_digest(given.encode(), value) for value in self._values]
        return any(found)

    def _is_older_than(self, age: timedelta) -> bool:
        return self._read_at is None or self._clock() - self._read_at >= age

    def _read(self) -> None:
        current = self._secrets.get_secret_value(SecretId=self._arn)
        values = [str(current["SecretString"])]
        if self._clock() - current["CreatedDate"] < GRACE:
            values += self._before()
        self._read_at = self._clock()
        self._values = tuple(value.encode() for value in values if len(value) >= _SHORTEST)

    def _before(self) -> list[str]:
        try:
            found = self._secrets.get_secret_value(SecretId=self._arn, VersionStage="AWSPREVIOUS")
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                return []  # it was never changed
            raise
        return [str(found["SecretString"])]
