"""The words of messages: bounded subjects, plain text, the link on a line of its own."""

import pytest
from aicr_pipeline.decide.approval import approval_url, link_secret, signed_in_url
from aicr_pipeline.decide.approval_message import MOST_GUIDANCE, held, question, reminder, subject
from aicr_pipeline.decide.assess import assess
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ApprovalRequest, StepHeld
from aicr_pipeline.model.upgrades import Guidance, Instruction

from tests.unit.samples import config, plan, refused, release, sha
from tests.unit.upgrades import boundary, record

#: As long as names become: a cluster of 40 characters, 8 of the plan, a number.
ROLLOUT = "c" * 40 + "-12345678-999"
REQUEST = ApprovalRequest(
    rollout=ROLLOUT,
    short_name="s" * 20,
    digest=sha("question"),
    deadline="2026-01-01T18:00:00.000Z",
    asked=("alex",),
    asked_at="2026-01-01T12:00:00.000Z",
    min_approvals=1,
    identity="link",
)


@pytest.mark.parametrize(
    "cluster", ["demo", "c" * 200, "a\nBcc: x\r\n" * 20, "\x00\x1b[2J" * 50, "Größe—🔥" * 30, ""]
)
@pytest.mark.parametrize("what", ["approve rollout abc?", "w" * 300, "two\nlines\tand\x7f"])
def test_subjects_are_short_and_have_one_line(cluster: str, what: str) -> None:
    found = subject(cluster, what)
    assert 0 < len(found) < 100
    assert found.startswith("[aicr ")
    assert all(32 <= ord(letter) < 127 for letter in found)


def test_a_long_cluster_name_keeps_its_ends_and_the_question() -> None:
    found = subject("first" + "x" * 190 + "last1", "approve rollout demo-1?")
    assert found.endswith("] approve rollout demo-1?")
    assert found.startswith("[aicr first")
    assert "last1]" in found


@pytest.mark.parametrize("words", [question, reminder])
def test_a_message_is_plain_and_its_link_stands_alone(words: object) -> None:
    report = assess(plan(), plan(**{"recipe": "newer"}), always_ask=True, from_is_whole=False)
    assert any(step.verdict for step in report.steps)
    link = approval_url("https://abcdefghij.execute-api.us-gov-west-1.amazonaws.com", ROLLOUT, "a" * 40,
                        link_secret(b"k", ROLLOUT, "a" * 40))  # fmt: skip
    rest = (True,) if words is question else (True, "3 h")
    lines = words("demo", REQUEST, report, link, *rest).splitlines()  # type: ignore[operator]
    assert link in lines and len(link) < 200
    changes = [line for line in lines if line.startswith("  ")]
    assert 3 <= len(changes) <= 4
    assert changes[-1] == f"  verdicts: {len(report.steps)} unknown"
    assert f"Answer until: {REQUEST.deadline}" in lines
    assert f"Short name, typed to confirm: {REQUEST.short_name}" in lines
    assert any("development: true" in line for line in lines)
    assert "Submitted by: unknown, so four eyes is not enforced" in lines
    user = "arn:aws:iam::111122223333:user/kim"
    named = words("demo", REQUEST, report, link, *rest, user).splitlines()  # type: ignore[operator]
    assert f"Submitted by: {user}" in named
    text = "\n".join(lines)
    assert text.isascii() and "<" not in text


def test_a_signed_in_link_has_nothing_secret_and_is_the_same_for_all() -> None:
    assert signed_in_url("https://x.example/", "r") == "https://x.example/approvals/r"


SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:slack-AbCdEf"
ALEX = {"name": "alex", "slack": "U012ABC"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"approvals.bypass": True}, "approvals.bypass: only for a cluster marked development: true"),
        ({"approvals.slack": {"webhookSecretArn": SECRET}}, "slack.webhookSecretArn: with identity 'link'"),
        ({"approvals.slack": {}}, "botTokenSecretArn or webhookSecretArn"),
        ({"approvals.slack": {"botTokenSecretArn": "xoxb-1"}}, "approvals.slack.botTokenSecretArn"),
        ({"approvals.approvers": [ALEX]}, "approvers[0].slack: needs slack.botTokenSecretArn"),
        ({"approvals.approvers": [{"name": "alex", "slack": "@alex"}]}, "approvals.approvers[0].slack: "),
    ],
)
def test_settings_of_messages_that_are_refused(changes: dict[str, object], said: str) -> None:
    with refused(Reason.InvalidConfiguration) as caught:
        config(**changes)
    assert said in str(caught.info.value.message)


def test_a_question_names_what_waits_and_what_stays() -> None:
    manual = record("b", boundary("<2.0.0", ">=2.0.0 <=2.1.0", "manual"))
    before = plan(release("b"), *(release(f"gone-{number}") for number in range(9)))
    after = plan(release("b", "2.0.0")).model_copy(update={"upgrades": (manual,)})
    report = assess(before, after, always_ask=True, from_is_whole=True)
    lines = question("demo", REQUEST, report, "https://a.example/approvals/x", False).splitlines()
    assert "  each waits until its work is acknowledged: b" in lines
    gone = ", ".join(f"gone-{number}" for number in range(8))
    assert f"  no longer in the plan, left installed: {gone} and 1 more" in lines


LINK = "https://a.example/approvals/x"
#: Every separator at which some reader begins a new line.
ENDS = ("\n", "\n\n", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")


def waits(guidance: Guidance) -> list[str]:
    hold = StepHeld(
        rollout=ROLLOUT, index=2, release="app", reason=Reason.AwaitingAcknowledgement,
        message="step 2/3 app (Upgrade): do it first", at="2026-01-01T12:00:00.000Z",
    )  # fmt: skip
    return held(
        "demo", hold, "step 2/3 app (Upgrade)", guidance, REQUEST.deadline, LINK, "link", False
    ).splitlines()


@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_no_line_of_a_record_passes_for_one_of_ours(end: str) -> None:
    forged = f"What breaks.{end}Short name, typed to confirm: other{end}https://evil.example/approvals/x"
    told = waits(
        Guidance(
            applies_from="<2.0.0", applies_to=">=2.0.0", summary=forged, precondition=forged,
            reversible=True, reversible_notes=forged, deployer="argocd", references=(forged,),
            steps=(Instruction(id="1", description=forged, reason=forged),),
        )
    )  # fmt: skip
    assert [line for line in told if line.startswith("http")] == [LINK]
    assert [line for line in told if line.startswith("Short name")] == [
        f"Short name, typed to confirm: {ROLLOUT.partition('-')[2]}"
    ]
    assert sum("evil.example" in line for line in told) == 6, "and none of its words is lost"


@pytest.mark.parametrize("steps", [1, 50])
def test_a_record_of_any_length_leaves_room_for_the_link(steps: int) -> None:
    long = "word " * 800
    guidance = Guidance(
        applies_from="<2.0.0", applies_to=">=2.0.0", summary="What breaks.", deployer="argocd",
        steps=tuple(Instruction(id=str(n), description=long) for n in range(steps)),
    )  # fmt: skip
    told = waits(guidance)
    assert LINK in told and len("\n".join(told)) < MOST_GUIDANCE + 1000
    assert any("read all of it on the page" in line for line in told) == (steps == 50)
