"""What is taken out of a log's tail before it goes into records and mails, as a table."""

import pytest
from aicr_pipeline.decide.redact import redact

LONG = "eyJhbGciOiJSUzI1NiIsImtpZCI6Ii" * 4


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
        ("authorization: basic QVdTOnBhc3M=", "QVdTOnBhc3M="),
        ("curl -H 'bearer abc123'", "abc123"),
        ("GET https://AWS:hunter2@registry.example/v2/: 401", "hunter2"),
        ("password=hunter2", "hunter2"),
        ("password: hunter2", "hunter2"),
        ('{"password": "hunter2"}', "hunter2"),
        ("{'passwd':'hunter2'}", "hunter2"),
        ("client_secret = hunter2", "hunter2"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI"),
        ('"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG"', "wJalrXUtnFEMI"),
        ("SECRET_KEY: hunter2", "hunter2"),
        ("AWS_SESSION_TOKEN=hunter2", "hunter2"),
        ("x-api-key: hunter2", "hunter2"),
        ("apikey=hunter2", "hunter2"),
        ("key AKIAIOSFODNN7EXAMPLE was refused", "AKIAIOSFODNN7EXAMPLE"),
        ("key ASIAIOSFODNN7EXAMPLE was refused", "ASIAIOSFODNN7EXAMPLE"),
        (f"parsing {LONG} failed", LONG),
        (f"parsing {LONG}== failed", LONG),
    ],
)
def test_credentials_are_taken_out(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact(text)
    assert "[redacted]" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no such recipe",
        "cannot pull ghcr.io/nvidia/aicr@sha256:" + "a" * 64,
        "GET https://registry.example:5000/v2/charts/manifests/1.0.0: 404",
        "the token has expired",
        'secrets "x" is forbidden: User "u" cannot get resource',
        "/work/evidence/recipe.yaml: line 7: unknown field",
    ],
)
def test_what_explains_a_failure_stays(text: str) -> None:
    assert redact(text) == text


def test_the_words_around_stay() -> None:
    assert redact("GET https://AWS:p@host/v2: 401\nretry") == "GET https://[redacted]@host/v2: 401\nretry"
