"""What the demo prints of others' words."""

import io

import pytest
from rich.console import Console

from local.view import View, refusal


@pytest.mark.parametrize("words", ["[/x]", "[cli] command failed", "[bold]x", "[link=http://h]x[/link]"])
def test_brackets_are_text(words: str) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    refusal(
        console, {"outcome": "Stalled", "reason": "InvalidRuntime", "message": f"spec.{words}: unknown field"}
    )
    View(console).say(words)
    assert out.getvalue() == f"Stalled InvalidRuntime: spec.{words}: unknown field\n{words}\n"
