"""Credentials' age, derived names, versions, endings and times."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from aicr_pipeline.clock import after, now, parse_time, rfc3339
from aicr_pipeline.decide.credentials import half_life_passed, is_fresh
from aicr_pipeline.decide.ending import (
    RESULTS,
    ROLLOUT_RESULTS,
    ended_with,
    outcome_of,
    step_words,
    steps_done,
)
from aicr_pipeline.decide.names import execution_name, job_name, request_id, short_name
from aicr_pipeline.decide.upstreams import rewrite
from aicr_pipeline.decide.versions import (
    check_aicr_supported,
    check_recorded,
    is_development,
    numbers,
    same,
)
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import ROLLOUT_REASONS, Reason
from aicr_pipeline.model.rollout import Outcome
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import config, refused, sha

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FACT = {"mintedAt": rfc3339(NOON), "expiresAt": rfc3339(NOON + timedelta(hours=12))}


# Credentials


@pytest.mark.parametrize(
    ("hours", "fresh", "half"),
    [
        (0, True, False),
        (5.99, True, False),
        (6, True, False),
        (6.01, True, True),
        (11.74, True, True),
        (11.75, False, True),
        (12, False, True),
        (99, False, True),
        (-1, True, False),
    ],
)
def test_how_old_a_token_is(hours: float, fresh: bool, half: bool) -> None:
    at = NOON + timedelta(hours=hours)
    assert (is_fresh(FACT, at), half_life_passed(FACT, at)) == (fresh, half)


def test_no_token() -> None:
    assert not is_fresh(None, NOON)
    assert half_life_passed(None, NOON)


# Names


@pytest.mark.parametrize(
    ("cluster", "identity", "number", "name"),
    [
        ("demo", "sha256:" + "ab" * 32, 1, "demo-abababab-1"),
        ("d" * 40, "sha256:" + "0" * 64, 99, "d" * 40 + "-00000000-99"),
        ("d" * 60, "sha256:" + "0" * 64, 1, "d" * 40 + "-00000000-1"),
    ],
)
def test_execution_names(cluster: str, identity: str, number: int, name: str) -> None:
    assert execution_name(cluster, identity, number) == name


@given(st.text(min_size=1, max_size=60), st.integers(1, 10**9))
def test_any_identity_has_a_name_step_functions_takes(identity: str, number: int) -> None:
    name = execution_name("d" * 40, "v" + identity, number)
    assert re.fullmatch(r"[0-9A-Za-z_-]{1,80}", name)
    assert name == execution_name("d" * 40, "v" + identity, number)


@pytest.mark.parametrize("cluster", ["a b", "a/b", "é", "a.b"])
def test_no_execution_name(cluster: str) -> None:
    with pytest.raises(ValueError, match="is no execution name"):
        execution_name(cluster, sha("x"), 1)


def test_other_names() -> None:
    assert request_id("demo-1", 9, "gpu-operator") == "demo-1/009-gpu-operator"
    assert short_name("demo-12345678-3") == "12345678-3"
    assert short_name("my-long-cluster-12345678-3") == "12345678-3"
    assert job_name("Demo_1", "render", 2) == "demo-1-render-2"
    assert job_name("d" * 40 + "-12345678-12", "validate", 9) == "d" * 40 + "-12345678-12-validate-9"


# Versions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1.2.3", (1, 2, 3)),
        ("v1.34.2-eks-b3126f4", (1, 34, 2)),
        ("1.34", (1, 34, 0)),
        ("v2.0.0+build", (2, 0, 0)),
        ("1", None),
        ("", None),
        ("latest", None),
        ("1.2.3.4", None),
        ("vv1.2.3", None),
        ("1.x", None),
        (f"1.{'9' * 5000}.0", None),
    ],
)
def test_numbers(text: str, found: tuple[int, int, int] | None) -> None:
    assert numbers(text) == found


def test_same() -> None:
    assert same("v1.2.3", "1.2.3")
    assert not same("1.2.3", "1.2.4")
    assert not same("vv1", "1")


@pytest.mark.parametrize("version", ["v1.0.0", "1.1.2", "v1.99.0"])
def test_supported(version: str) -> None:
    check_aicr_supported(version, config().aicr)


@pytest.mark.parametrize(
    "version", ["v0.19.0", "v2.0.0", "v1.2.0-rc1", "latest", "v0.19.0-next", "", "v10.0.0"]
)
def test_unsupported_unless_named(version: str) -> None:
    with refused(Reason.AICRVersionMismatch, version, "developmentVersions"):
        check_aicr_supported(version, config().aicr)
    named = config(**{"aicr.developmentVersions": [version.removeprefix("v")]}).aicr
    check_aicr_supported(version, named)
    assert is_development(version, named)
    assert not is_development(version, config().aicr)


def test_recorded() -> None:
    check_recorded("snapshot", "v1.1.2", "1.1.2")
    for found, said in (("v1.1.3", "v1.1.3"), ("", "(not recorded)")):
        with refused(Reason.AICRVersionMismatch, "snapshot", said, "v1.1.2 is pinned"):
            check_recorded("snapshot", found, "v1.1.2")


# Upstreams


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://charts.example/app.tgz", "http://127.0.0.1:1/c/app.tgz"),
        ("https://charts.example", "http://127.0.0.1:1/c"),
        ("https://charts.example.org/app.tgz", "https://charts.example.org/app.tgz"),
        ("https://charts.example/deep/app.tgz", "http://127.0.0.1:2/app.tgz"),
        ("https://charts.example/deeper", "http://127.0.0.1:1/c/deeper"),
        ("oci://ghcr.io/x/y", "oci://127.0.0.1:3/x/y"),
        ("oci://ghcr.io.example/x", "oci://ghcr.io.example/x"),
        ("https://ghcr.io/x", "https://ghcr.io/x"),
    ],
)
def test_the_longest_prefix_of_whole_segments_is_rewritten(url: str, found: str) -> None:
    upstreams = {
        "https://charts.example": "http://127.0.0.1:1/c/",
        "https://charts.example/deep/": "http://127.0.0.1:2",
        "oci://ghcr.io": "oci://127.0.0.1:3",
    }
    assert rewrite(url, upstreams) == found
    assert rewrite(url, {}) == url


# Endings

END = {"outcome": {"reason": "RolloutExpired", "message": "too late"}}


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({}, None),
        ({"assessment": {"approvalNeeded": True}, "approval": {"decision": "Approved"}}, None),
        ({"assessment": END}, (Reason.RolloutExpired, "too late")),
        ({"approval": END}, (Reason.RolloutExpired, "too late")),
        ({"assessment": {"x": 1}, "approval": None, "criteria": END}, (Reason.RolloutExpired, "too late")),
        (
            {"ended": {"Error": "RolloutFailed", "Cause": "step 2/3 b (Install): boom"}},
            (Reason.RolloutFailed, "step 2/3 b (Install): boom"),
        ),
        ({"ended": {"Error": "Paused"}}, (Reason.Paused, "")),
        ({"approval": END, "validation": {"outcome": {"reason": "Conflict", "message": "x"}}},
         (Reason.RolloutExpired, "too late")),
        ({"outcome": {"reason": "Conflict", "message": "not a result"}}, None),
    ],
)  # fmt: skip
def test_how_a_rollout_ended(state: dict[str, Any], found: tuple[Reason, str] | None) -> None:
    assert ended_with(state, ROLLOUT_RESULTS) == found


def test_how_a_resolve_ended() -> None:
    state = {
        "prerequisites": {"aicr": "v1"},
        "bundle": {"outcome": {"reason": "BundleInvalid", "message": "m"}},
    }
    assert ended_with(state, RESULTS) == (Reason.BundleInvalid, "m")
    assert ended_with(state, ROLLOUT_RESULTS) is None


def test_an_unknown_reason_is_never_taken() -> None:
    with pytest.raises(ValueError, match=r"States\.Timeout"):
        ended_with({"ended": {"Error": "States.Timeout"}}, ROLLOUT_RESULTS)


ITEM = {"index": 9, "of": 18, "release": "gpu-operator", "action": "Upgrade"}


@pytest.mark.parametrize(
    ("state", "done"),
    [
        ({"steps": []}, 18),
        ({"steps": [1], "validation": END}, 18),
        ({"ended": {"Cause": f"{step_words(ITEM)}: boom"}}, 8),
        ({"ended": {"Cause": "step 1/18 a (Install): x"}}, 0),
        ({"ended": {"Cause": "step 18/18 z (Install)"}}, 17),
        ({"ended": {"Cause": "boom in step 9/18"}}, 0),
        ({"ended": {}}, 0),
        ({"approval": END}, 0),
        ({}, 0),
    ],
)
def test_how_many_steps_were_done(state: dict[str, Any], done: int) -> None:
    assert steps_done(state, 18) == done


def test_step_words() -> None:
    assert step_words(ITEM) == "step 9/18 gpu-operator (Upgrade)"


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_has_an_outcome(reason: Reason) -> None:
    named = {
        Reason.RolledOut: Outcome.Succeeded,
        Reason.ValidationDisabled: Outcome.Succeeded,
        Reason.RolloutExpired: Outcome.Expired,
        Reason.RolloutRevoked: Outcome.Revoked,
        Reason.RolloutRejected: Outcome.Rejected,
        Reason.RolloutSuperseded: Outcome.Superseded,
    }
    assert outcome_of(reason) is named.get(reason, Outcome.Failed)


def test_what_the_map_catches_is_the_domains() -> None:
    assert len(set(ROLLOUT_REASONS)) == len(ROLLOUT_REASONS)
    assert set(ROLLOUT_REASONS) <= set(Reason)
    assert TransientError.__name__ not in ROLLOUT_REASONS


# Errors and times


def test_errors_as_data() -> None:
    error = PipelineError(Reason.Conflict, "Read again.")
    assert error.outcome() == {"outcome": {"reason": "Conflict", "message": "Read again."}}
    assert str(error) == "Conflict: Read again."
    assert (error.retry, TransientError(Reason.Conflict, "x").retry) == (False, True)


def test_times_are_written_one_way() -> None:
    moment = datetime(2026, 1, 1, 1, 2, 3, 456789, timezone(timedelta(hours=2)))
    assert rfc3339(moment) == "2025-12-31T23:02:03.456Z"
    assert parse_time("2025-12-31T23:02:03.456Z") == datetime(2025, 12, 31, 23, 2, 3, 456000, UTC)
    assert after(NOON, 90) == "2026-01-01T12:01:30.000Z"
    assert now().tzinfo is UTC
    for text in ("2026-01-01T00:00:00", "soon", ""):
        with pytest.raises(ValueError, match=r"zone|isoformat"):
            parse_time(text)


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_text_order_is_time_order(one: datetime, two: datetime) -> None:
    first, second = sorted((one, two))
    assert rfc3339(first) <= rfc3339(second)
