"""Sessions of signed-in people: rows of the coordination table that end after 15 minutes.

The row's key is the hash of the id in the cookie, so that whoever reads the table cannot come in with it.
"""

import secrets
from datetime import datetime
from typing import Any

from aicr_pipeline.decide.sign_in import SESSION_SECONDS, Identity, is_id, session_name

_MOST_GROUPS_KEPT = 100


class Sessions:
    """Rows under partition key ``SESSION``."""

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._db = dynamodb
        self._table = table

    def start(self, who: Identity, groups: tuple[str, ...], now: datetime) -> str:
        """Store a session and return its id: always a new one, so that nobody comes in with an id they knew.

        Takes the groups worth keeping: those that the configuration names.
        """
        session = secrets.token_urlsafe(32)
        until = int(now.timestamp()) + SESSION_SECONDS
        kept = sorted(set(who.groups) & set(groups))[:_MOST_GROUPS_KEPT]
        item = _key(session) | {
            "issuer": {"S": who.issuer},
            "subject": {"S": who.subject},
            "groups": {"L": [{"S": group} for group in kept]},
            "expiresAt": {"N": str(until)},
        }
        if who.email is not None:
            item["email"] = {"S": who.email}
        self._db.put_item(TableName=self._table, Item=item, ConditionExpression="attribute_not_exists(sk)")
        return session

    def find(self, session: str, now: datetime) -> Identity | None:
        """Who a session is of, or None when it is not one, or over. DynamoDB removes it later than that."""
        if not is_id(session):
            return None
        answer = self._db.get_item(TableName=self._table, Key=_key(session), ConsistentRead=True)
        item = answer.get("Item")
        if item is None or int(item["expiresAt"]["N"]) <= now.timestamp():
            return None
        return Identity(
            issuer=item["issuer"]["S"],
            subject=item["subject"]["S"],
            email=item["email"]["S"] if "email" in item else None,
            groups=tuple(group["S"] for group in item["groups"]["L"]),
        )

    def end(self, session: str) -> None:
        """Forget a session, if it is one."""
        if is_id(session):
            self._db.delete_item(TableName=self._table, Key=_key(session))


def _key(session: str) -> dict[str, Any]:
    return {"pk": {"S": "SESSION"}, "sk": {"S": session_name(session)}}
