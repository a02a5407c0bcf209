"""The templates, rendered. Everything printed is escaped, and a name that is not there is an error."""

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aicr_pipeline.clock import parse_time

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """The page of ``<template>.html``. Raises jinja2.UndefinedError when it names what is not given."""
    return _environment().get_template(f"{template}.html").render(values)


@cache
def _environment() -> "Environment":
    # Imported here: a request that is refused early needs no template engine, nor does a cold start.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["when"] = when
    return environment


def when(time: str) -> str:
    """An RFC 3339 time for a person: ``30 Nov 2026, 14:05 UTC``."""
    moment: datetime = parse_time(time)
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"
