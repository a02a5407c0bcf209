"""Argo CD's sync windows: when they deny."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

import pytest
from aicr_pipeline.decide import sync_windows
from aicr_pipeline.decide.sync_windows import denial

#: A Wednesday.
NOW = datetime(2026, 1, 7, 22, 30, tzinfo=UTC)
APPLICATION = {
    "metadata": {"name": "gpu-operator"},
    "spec": {"destination": {"server": "https://kubernetes.default.svc", "namespace": "gpu-operator"}},
}


def denied(*windows: dict[str, Any]) -> bool:
    return denial({"spec": {"syncWindows": list(windows)}}, APPLICATION, NOW) is not None


def window(schedule: str, duration: str = "1h", kind: str = "deny", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "schedule": schedule, "duration": duration, "applications": ["*"], **more}


@pytest.mark.parametrize(
    ("schedule", "duration", "active"),
    [
        ("0 22 * * *", "1h", True),
        ("30 22 * * *", "1m", True),
        ("31 22 * * *", "1h", False),
        ("30 21 * * *", "1h", False),
        ("31 21 * * *", "1h", True),
        ("0 20 * * *", "2h30m", False),
        ("0 20 * * *", "2h31m", True),
        ("*/15 * * * *", "1m", True),
        ("*/20 * * * *", "5m", False),
        ("10-40/10 22 * * *", "1m", True),
        ("0 22 * * wed", "1h", True),
        ("0 22 * * 3", "1h", True),
        ("0 22 * * mon-tue,thu", "1h", False),
        ("0 0 * * sun", "96h", True),
        ("0 0 * * sun", "94h", False),
        ("0 22 7 * *", "1h", True),
        ("0 22 8 * *", "1h", False),
        ("0 22 8 * wed", "1h", True),
        ("0 22 */2 * mon", "1h", True),
        ("0 22 */1 * mon", "1h", False),
        ("0 22 7 * */2", "1h", True),
        ("0 22 8 * */2", "1h", False),
        ("0 22 8,* * mon", "1h", False),
        ("0 22 7 feb *", "1h", False),
        ("0 22 7 JAN ?", "1h", True),
        ("@daily", "23h", True),
        ("@hourly", "29m", False),
        ("0 22 * *", "1h", False),
        ("0 25 * * *", "1h", False),
        ("*/0 * * * *", "1h", False),
        ("0 22 * * *", "soon", False),
        ("0 22 * * *", "", False),
    ],
)
def test_a_deny_window(schedule: str, duration: str, active: bool) -> None:
    assert denied(window(schedule, duration)) is active


def test_windows_have_time_zones() -> None:
    assert denied(window("30 17 * * *", "5m", timeZone="America/New_York"))
    assert not denied(window("30 22 * * *", "5m", timeZone="America/New_York"))
    assert not denied(window("30 22 * * *", "5m", timeZone="Nowhere/AtAll"))


@pytest.mark.parametrize("kind", ["deny", "allow"])
@pytest.mark.parametrize(
    "broken",
    [{"schedule": "0 25 * * *"}, {"duration": "soon"}, {"timeZone": "Nowhere/AtAll"}],
    ids=["schedule", "duration", "zone"],
)
def test_a_window_that_cannot_be_read_denies_nothing(kind: str, broken: dict[str, str]) -> None:
    """An allow window that nobody can read would hold every step until the rollout's deadline."""
    assert not denied({**window("0 22 * * *", kind=kind), **broken})
    assert denied({**window("0 22 * * *", kind=kind), **broken}, window("0 3 * * *", kind="allow"))


def test_utc_takes_no_database_of_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one each window would count as unreadable: a freeze would hold nothing."""

    def none(name: str) -> None:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(sync_windows, "ZoneInfo", none)
    assert denied(window("0 22 * * *"))
    assert denied(window("0 22 * * *", timeZone="UTC"))
    assert not denied(window("0 22 * * *", kind="allow"))
    assert not denied(window("30 17 * * *", "5m", timeZone="America/New_York"))


@pytest.mark.parametrize(
    ("more", "applies"),
    [
        ({"applications": []}, False),
        ({"applications": ["gpu-*"]}, True),
        ({"applications": ["kai-*"]}, False),
        ({"applications": ["kai-*"], "namespaces": ["gpu-operator"]}, True),
        ({"applications": ["kai-*"], "namespaces": ["gpu-operator"], "andOperator": True}, False),
        ({"applications": [], "clusters": ["https://kubernetes.*"]}, True),
        ({"applications": [], "clusters": ["prod"]}, False),
    ],
)
def test_whom_it_is_for(more: dict[str, Any], applies: bool) -> None:
    assert denied(window("0 22 * * *", **more)) is applies


def test_allow_windows_deny_the_rest_of_the_time() -> None:
    open_now, closed = window("0 22 * * *", kind="allow"), window("0 3 * * *", kind="allow")
    assert not denied(open_now)
    assert denied(closed)
    assert not denied(closed, open_now)
    assert denied(open_now, window("0 22 * * *")), "deny outranks allow"
    assert not denied()


@pytest.mark.parametrize("kind", ["deny", "allow"])
def test_manual_syncs(kind: str) -> None:
    schedule = "0 22 * * *" if kind == "deny" else "0 3 * * *"
    for manual, too in ((True, False), (False, True)):
        found = denial(
            {"spec": {"syncWindows": [window(schedule, kind=kind, manualSync=manual)]}}, APPLICATION, NOW
        )
        assert found is not None
        assert found.manual_too is too
