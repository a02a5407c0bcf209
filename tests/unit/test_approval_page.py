"""The approval page's pure parts: states, values, durations, and decisions that count as one."""

from __future__ import annotations

from typing import Any

import pytest
from aicr_pipeline.decide.approval import whole_decision
from aicr_pipeline.decide.approval_page import (
    PageState,
    duration_words,
    page_state,
    page_status,
    page_view,
)
from aicr_pipeline.decide.assess import changed_values
from aicr_pipeline.decide.changed_steps import (
    MOST_VALUE_CHARACTERS,
    ValueChange,
    value_changes,
    value_text,
)
from aicr_pipeline.model.rollout import (
    Decision,
    Outcome,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.approval_records import NOW, QUIET, REVOKED, STALL, at, decision, outcome, records

STATES: list[tuple[str, dict[str, Any], PageState, int]] = [
    ("asked and in time", {}, PageState.Open, 200),
    ("not assessed", {"report": None, "request": None}, PageState.Preparing, 200),
    ("assessed, nobody asked yet", {"request": None}, PageState.Preparing, 200),
    ("nobody needs to be asked", {"report": QUIET, "request": None}, PageState.NotNeeded, 200),
    (
        "nobody needs to be asked, and it is validated after its deadline",
        {"report": QUIET, "request": None, "deadline": at(seconds=-1)},
        PageState.NotNeeded,
        200,
    ),
    ("nobody answered in time", {"deadline": at(seconds=-1)}, PageState.Expired, 410),
    ("the last moment is too late", {"deadline": at(seconds=0)}, PageState.Expired, 410),
    ("approved", {"decision": decision()}, PageState.Approved, 200),
    ("approved, and its execution stopped", {"decision": decision(), "stall": STALL}, PageState.Stalled, 200),
    ("not asked, and stopped", {"report": QUIET, "request": None, "stall": STALL}, PageState.Stalled, 200),
    ("asked, and stopped: an answer is kept", {"stall": STALL}, PageState.Open, 200),
    (
        "stopped, and revoked for good",
        {"decision": decision(), "stall": STALL, "revocation": REVOKED},
        PageState.Revoked,
        200,
    ),
    ("approved for a while", {"decision": decision(expires_at=at(hours=0))}, PageState.ApprovalExpired, 410),
    ("rejected", {"decision": decision("Rejected")}, PageState.Rejected, 200),
    (
        "a rejection does not run out",
        {"decision": decision("Rejected", expires_at=at(days=-1))},
        PageState.Rejected,
        200,
    ),
    (
        "decided stays decided",
        {"decision": decision(), "deadline": at(seconds=-1)},
        PageState.Approved,
        200,
    ),
    (
        "I approved, others have not",
        {"approvals": (decision(by="alex"),), "needed": 2},
        PageState.AwaitingOthers,
        200,
    ),
    (
        "enough approved, and nobody wrote it",
        {"approvals": (decision(by="alex"), decision(by="kim")), "needed": 2},
        PageState.Open,
        200,
    ),
    ("another approved, I have not", {"approvals": (decision(by="kim"),)}, PageState.Open, 200),
    ("succeeded", {"outcome": outcome(Outcome.Succeeded)}, PageState.Succeeded, 200),
    ("failed", {"outcome": outcome(Outcome.Failed)}, PageState.Failed, 200),
    ("outcome expired", {"outcome": outcome(Outcome.Expired)}, PageState.Expired, 410),
    ("revoked", {"outcome": outcome(Outcome.Revoked), "decision": decision()}, PageState.Revoked, 200),
    ("stopped while it waits", {"revocation": REVOKED}, PageState.Revoked, 200),
    ("stopped while it runs", {"revocation": REVOKED, "decision": decision()}, PageState.Revoked, 200),
    (
        "stopped, then too late",
        {"revocation": REVOKED, "deadline": at(seconds=-1)},
        PageState.Revoked,
        200,
    ),
    (
        "stopped after the last step",
        {"revocation": REVOKED, "outcome": outcome(Outcome.Succeeded)},
        PageState.Succeeded,
        200,
    ),
    ("outcome rejected", {"outcome": outcome(Outcome.Rejected)}, PageState.Rejected, 200),
    (
        "superseded, whatever was decided",
        {"outcome": outcome(Outcome.Superseded), "decision": decision()},
        PageState.Superseded,
        200,
    ),
]


@pytest.mark.parametrize(("case", "changes", "state", "status"), STATES, ids=[case[0] for case in STATES])
def test_states(case: str, changes: dict[str, Any], state: PageState, status: int) -> None:
    found = page_state(records(**changes), "alex", NOW)
    assert (found, page_status(found)) == (state, status)


def test_every_state_has_a_case() -> None:
    assert {state for _, _, state, _ in STATES} == set(PageState)


def test_history_is_in_order() -> None:
    found = records(decision=decision(at=at(hours=-1)), outcome=outcome(Outcome.Succeeded))
    view = page_view(found, "alex", "demo", "demo-1", False, NOW)
    assert [moment.text for moment in view.history] == [
        "Rollout started",
        "Asked alex, kim",
        "Approved by kim: because",
        "Succeeded (RolloutFailed)",
    ]


@pytest.mark.parametrize(
    ("development", "reason", "words"),
    [
        (True, None, "Reason: this is a development cluster"),
        (False, "no identity provider yet", "Reason: no identity provider yet"),
        (True, "both", "Reason: both"),
    ],
)
def test_link_identity_is_always_warned_of(development: bool, reason: str | None, words: str) -> None:
    asked = records().request
    assert asked is not None
    found = records(request=asked.model_copy(update={"identity_reason": reason}))
    warnings = page_view(found, "alex", "demo", "demo-1", development, NOW).warnings
    assert any(words in warning for warning in warnings)
    assert any("never qualifies" in warning for warning in warnings) is development
    assert any("four eyes is not enforced" in warning for warning in warnings)


def test_a_bypass_is_said_in_words() -> None:
    asked = records().request
    assert asked is not None
    found = records(request=asked.model_copy(update={"identity": "bypass", "asked": ("nobody",)}))
    view = page_view(found, "alex", "demo", "demo-1", True, NOW)
    assert "Approval was bypassed: nobody was asked, and the evidence never qualifies." in view.warnings
    assert "Asked nobody" in [moment.text for moment in view.history]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ()),
        ({"decision": decision()}, ("kim",)),
        ({"decision": decision("Rejected")}, ()),
        ({"approvals": (decision(by="kim"), decision(by="sam", expires_at=at(hours=-1)))}, ("kim",)),
        ({"approvals": (decision(by="sam"),), "decision": decision(by="kim")}, ("kim",)),
    ],
    ids=["nobody", "one who was enough", "rejected", "one of two", "decided"],
)
def test_who_approved(changes: dict[str, Any], names: tuple[str, ...]) -> None:
    assert page_view(records(**changes), "alex", "demo", "demo-1", False, NOW).approved_by == names


def test_a_known_submitter_is_not_warned_of() -> None:
    rollout = records().rollout.model_copy(update={"submitter": "robin"})
    warnings = page_view(records(rollout=rollout), "alex", "demo", "demo-1", False, NOW).warnings
    assert not any("four eyes" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [ValueChange("a", "1", "2")]),
        ({"a": {"b": "x"}}, {"a": {"b": "x", "c": None}}, [ValueChange("a.c", None, "null")]),
        ({"a": [1, 2]}, {"a": [1]}, [ValueChange("a", "[\n  1,\n  2\n]", "[\n  1\n]")]),
        ({"a": {"b": 1}}, {"a": 1}, [ValueChange("a", '{\n  "b": 1\n}', "1")]),
        ({"b": 1, "a": 1}, {}, [ValueChange("a", "1", None), ValueChange("b", "1", None)]),
        (None, {"a": 1}, [ValueChange("(all)", "null", '{\n  "a": 1\n}')]),
        (
            {"a.b": 1},
            {"a": {"b": 1}},
            [ValueChange("a", None, '{\n  "b": 1\n}'), ValueChange("a.b", "1", None)],
        ),
        ({"ü": "😀"}, {"ü": "x"}, [ValueChange("ü", '"😀"', '"x"')]),
        # Equal to Python, not to a chart.
        ({"a": 1}, {"a": True}, [ValueChange("a", "1", "true")]),
        ({"a": False}, {"a": 0}, [ValueChange("a", "false", "0")]),
        (
            {"a": [{"b": 0}]},
            {"a": [{"b": False}]},
            [ValueChange("a", '[\n  {\n    "b": 0\n  }\n]', '[\n  {\n    "b": false\n  }\n]')],
        ),
    ],
)
def test_values_side_by_side(before: Any, after: Any, changes: list[ValueChange]) -> None:
    assert list(value_changes(before, after)) == changes


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES, _VALUES)
def test_the_page_names_the_paths_that_the_report_does(before: object, after: object) -> None:
    assert [change.path for change in value_changes(before, after)] == changed_values(before, after)


def test_what_looks_like_a_credential_is_not_shown() -> None:
    found = list(value_changes({"admin": {"password": "old"}}, {"admin": {"password": "new", "user": "sam"}}))
    assert found == [
        ValueChange("admin.password", '"[redacted]"', '"[redacted]"'),
        ValueChange("admin.user", None, '"sam"'),
    ]


def test_long_values_are_cut_with_a_note() -> None:
    text = value_text("x" * 5000)
    assert len(text) < MOST_VALUE_CHARACTERS + 40 and text.endswith("… (4402 more characters)")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, ""), (0, ""), (0.9, ""), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"),
        (21599, "5 h 59 min"), (86400, "1 d"), (90000, "1 d 1 h"), (30 * 86400, "30 d"),
    ],
)  # fmt: skip
def test_durations(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_a_quorum_is_one_decision() -> None:
    mine = decision(by="alex", reason="r" * 700, at=at(minutes=-9), expires_at=at(hours=2))
    theirs = decision(by="kim", reason="s" * 700, at=at(minutes=-3), expires_at=at(hours=3))
    whole = whole_decision((mine, theirs))
    assert (whole.by, whole.at, whole.expires_at) == (("alex", "kim"), theirs.at, mine.expires_at)
    assert len(whole.reason) == 1024 and whole.reason.startswith("alex: rrr") and whole.reason.endswith("s…")
    assert Decision.model_validate_json(whole.model_dump_json(by_alias=True)) == whole


def test_several_ways_of_proving_who_one_is_count_as_the_weakest() -> None:
    link = decision(by="alex", at=at(minutes=-9))
    group = decision(by="pat@example.com", identity="signed-in", issuer="https://i", principals=("sub",))
    account = {"identity": "aws-iam", "issuer": "aws:111122223333", "principals": ("arn",)}
    terminal = decision(by="kim", at=at(minutes=-3), **account)
    mixed = whole_decision((link, terminal))
    assert (mixed.identity, mixed.issuer, mixed.principals) == ("link", link.issuer, ("alex", "arn"))
    members = whole_decision((group, terminal))
    assert (members.identity, members.issuer, members.at) == ("signed-in", "https://i", terminal.at)
