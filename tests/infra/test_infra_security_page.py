"""What a security review reads of each function: what it reads and puts in the ledger, as in the template."""

import re
from pathlib import Path

from tests.infra.templates import Stack, as_list, plain

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
ROW = re.compile(r"^\| `(\w+)` \|" + r"([^|]*)\|" * 5, re.MULTILINE)


def keys(cell: str) -> set[str]:
    """The key patterns of a cell; ``a/{b,c}.json`` are two."""
    found = set()
    for pattern in re.findall(r"`([^`]+)`", cell):
        one = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
        found |= {f"{one[1]}{part}{one[3]}" for part in one[2].split(",")} if one else {pattern}
    return found


def rights(stack: Stack, action: str, of: str = "Ledger") -> dict[str, set[str]]:
    """Key patterns of a bucket, by function."""
    found: dict[str, set[str]] = {}
    for who, statement in stack.statements():
        if statement["Effect"] == "Allow" and action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                bucket, _, key = plain(resource).partition("/")
                if of in bucket:
                    found.setdefault(who, set()).add(key)
    return found


def test_the_page_says_what_each_function_reads_and_puts(stack: Stack) -> None:
    table = PAGE.read_text().partition("### In AWS")[2].partition("### In the cluster")[0]
    rows = {row[1]: (keys(row[3]), keys(row[4])) for row in ROW.finditer(table)}
    inbox = {row[1]: row[2].split()[:1] for row in ROW.finditer(table)}
    reads, puts = rights(stack, "s3:GetObject"), rights(stack, "s3:PutObject")
    assert set(rows) == {stack.function_of(name) for name in stack.of_type("AWS::Lambda::Function")}
    for who, (read, put) in rows.items():
        assert read == reads.get(who, set()), who
        assert put == puts.get(who, set()), who
        assert ("read" in inbox[who]) is (who in rights(stack, "s3:GetObject", "Inbox")), who
        assert ("put" in inbox[who]) is (who in rights(stack, "s3:PutObject", "Inbox")), who
