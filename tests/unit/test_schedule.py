"""When a resolve comes by the clock: what is taken, and what is refused with its field's name."""

from datetime import UTC, datetime

import pytest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import parse_cluster_config
from aicr_pipeline.model.schedule import schedule_expression

from local.aws.scheduler import next_cron
from tests.unit.samples import CONFIG

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
GOOD = [
    "rate(1 hour)",
    "rate(12 hours)",
    "rate(1 day)",
    "rate(7 days)",
    "cron(0 6 * * ? *)",
    "cron(30 */6 ? * MON-FRI *)",
    "cron(5 6,18 1 JAN,JUL ? 2026-2030)",
    "cron(0 0 1-7/2 * ? *)",
]


@pytest.mark.parametrize("text", GOOD)
def test_taken(text: str) -> None:
    assert schedule_expression(text) == text
    if text.startswith("cron"):
        # The stand-in for the scheduler reads it, too.
        assert next_cron(text, BEGAN) > BEGAN


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected rate"),
        ("daily", "expected rate"),
        ("rate(30 minutes)", "at most hourly"),
        ("rate(0 days)", "expected rate"),
        ("rate(1 days)", "singular"),
        ("rate(2 day)", "singular"),
        ("at(2026-01-01T00:00:00)", "expected rate"),
        ("cron(0 6 * * *)", "six fields"),
        ("cron(* 6 * * ? *)", "the minute"),
        ("cron(0,30 6 * * ? *)", "the minute"),
        ("cron(*/5 6 * * ? *)", "the minute"),
        ("cron(60 6 * * ? *)", "the minute"),
        ("cron(0 24 * * ? *)", "hour: '24'"),
        ("cron(0 ? * * ? *)", "hour: '?'"),
        ("cron(0 6 * * * *)", "exactly one"),
        ("cron(0 6 ? * ? *)", "exactly one"),
        ("cron(0 6 L * ? *)", "day of month: 'L'"),
        ("cron(0 6 ? * 2#1 *)", "day of week: '2#1'"),
        ("cron(0 6 0 * ? *)", "day of month: '0'"),
        ("cron(0 6 1-2-3 * ? *)", "day of month"),
        ("cron(0 6 1/0 * ? *)", "day of month"),
        ("cron(0 6 1/ * ? *)", "day of month"),
        ("cron(0 6 1, * ? *)", "day of month"),
        ("cron(0 6 * JANUARY ? *)", "month: 'JANUARY'"),
        ("cron(0 6 * * ? 99)", "year: '99'"),
        ("cron(0 6 * * ? *)\n", "expected rate"),
        ("cron(0 ٦ * * ? *)", "hour"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        schedule_expression(text)
    assert words in str(caught.value)


def test_a_configuration_names_the_field() -> None:
    with pytest.raises(PipelineError) as caught:
        parse_cluster_config(CONFIG | {"resolve": {"schedule": "daily"}}, "configuration")
    assert "resolve.schedule" in caught.value.message
    assert parse_cluster_config(CONFIG, "configuration").resolve.schedule is None
