"""Argo CD's registry token before a step: waited for, healed, or the reason why the rollout ends."""

from __future__ import annotations

import importlib.util
import sys
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from aicr_pipeline import wiring
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS, TROUBLE
from aicr_pipeline.actions.want_credentials import (
    ASK_EVERY,
    PATIENCE,
    CredentialsComingError,
    want_credentials,
)
from aicr_pipeline.clock import after, rfc3339
from aicr_pipeline.decide.credentials import EXPIRES_AT, SECONDS_LEFT
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from infra.sources import FUNCTIONS_FOLDER
from local.kube import SECRETS
from tests.functional.actions.credentials import FIRST, OCI, Kept
from tests.functional.actions.support import BEGAN, PLAN, item, step
from tests.unit.samples import config, refused, sha


@pytest.fixture
def approved(kept: Kept) -> Kept:
    kept.place.submit()
    kept.place.approve(kept.place.put_rollout(PLAN))
    return kept


def coming(kept: Kept, reason: Reason, index: int = 1, retries: int = 0) -> None:
    with refused(reason) as caught:
        kept.gate(index, retries)
    assert type(caught.info.value) is CredentialsComingError


def test_an_expired_token_is_healed_before_a_step(approved: Kept) -> None:
    approved.keeper.refresh()
    fact = {**(approved.known or {}), "mintedAt": after(BEGAN, -13 * 3600), "expiresAt": after(BEGAN, -3600)}
    approved.place.coordination.put_fact(CREDENTIALS, fact)
    annotation = {"metadata": {"annotations": {EXPIRES_AT: fact["expiresAt"]}}}
    approved.place.store.merge(SECRETS, OCI, annotation, "argocd")
    coming(approved, Reason.RegistryCredentialsStale, index=2)
    assert approved.wake()["because"] == "RegistryCredentialsStale"
    assert approved.gate(2, retries=1) == {"open": True}
    assert approved.works()


def test_the_first_step_wants_a_token_that_was_just_tried(approved: Kept) -> None:
    approved.keeper.refresh()
    approved.place.later(4 * 3600)  # people took their time
    approved.overwrite(password="wrong")
    coming(approved, Reason.RegistryCredentialsUnavailable)
    detail = approved.place.events.details("Credentials Wanted")[-1]
    assert (detail["repository"], detail["digest"]) == (FIRST.repository, FIRST.chart.manifest_digest)
    assert approved.wake()["because"] == "Unauthorized"
    assert approved.gate(retries=1) == {"open": True}
    assert approved.works()
    approved.place.later(1800)
    assert approved.gate(index=2) == {"open": True}, "later ones want one that lives, and no trouble"


@pytest.mark.parametrize(("hours", "asked"), [(5.9, False), (6.1, True)])
def test_half_of_the_life_gone_is_asked_for_and_not_waited_for(
    approved: Kept, hours: float, *, asked: bool
) -> None:
    approved.keeper.refresh()
    aged = {"mintedAt": after(BEGAN, -hours * 3600), "expiresAt": after(BEGAN, (12 - hours) * 3600)}
    approved.place.coordination.put_fact(CREDENTIALS, {**(approved.known or {}), **aged})
    assert approved.gate() == {"open": True}
    assert approved.place.events.types == ["Credentials Wanted"] * asked
    if asked:
        assert approved.wake()["because"] == "age"
        assert approved.known is not None
        assert approved.known["expiresAt"] == after(BEGAN, 12 * 3600)


def test_a_registry_that_is_away_is_no_reason_to_end_a_rollout(approved: Kept) -> None:
    """Raised, not returned: the execution stops there and can be redriven."""
    approved.keeper.refresh()
    lost = {"at": after(BEGAN, 1), "reason": "RegistryUnreachable", "message": "away", "proven": False}
    approved.place.coordination.put_fact(TROUBLE, lost)
    coming(approved, Reason.RegistryUnreachable, index=2)
    approved.wake()
    approved.place.later(2)
    approved.wake()
    assert approved.gate(2, retries=1) == {"open": True}


def test_a_refresh_that_fails_for_a_while_only_delays_the_step(approved: Kept) -> None:
    approved.ecr.errors = ["AccessDeniedException"] * 2
    for retries in range(ASK_EVERY):
        coming(approved, Reason.RegistryCredentialsUnavailable, retries=retries)
    assert approved.place.events.types == ["Credentials Wanted"], "not one for every look"
    for _ in range(2):
        with pytest.raises(PipelineError):
            approved.wake()
    approved.place.later(400)
    coming(approved, Reason.RegistryCredentialsUnavailable, retries=ASK_EVERY)
    assert approved.place.events.types == ["Credentials Wanted"] * 2
    approved.wake()
    assert approved.gate(retries=ASK_EVERY + 1) == {"open": True}


@pytest.mark.parametrize("reason", [Reason.RegistryUnreachable, Reason.ClusterUnreachable])
@pytest.mark.parametrize("index", [1, None], ids=["gate", "assessment"])
def test_after_ten_minutes_away_nothing_is_decided_either(
    approved: Kept, reason: Reason, index: int | None
) -> None:
    """Outside of the Map, too: what a refusal there returns would be the rollout's end."""
    place = approved.place
    place.coordination.put_fact(
        TROUBLE, {"at": rfc3339(BEGAN), "reason": reason, "message": "away", "proven": False}
    )
    made = step(
        "Check gate" if index else "Assess transition",
        item=None if index is None else item(index=index),
        token=None,
        retries=40,
        enteredAt=rfc3339(BEGAN),
    )
    place.later(PATIENCE.total_seconds())
    with refused(reason, "away") as caught:
        release = PLAN.desired_state.releases[0]
        want_credentials(made, release, approved.config, place.coordination, place.bus, place.clock)
    assert caught.info.value.retry and type(caught.info.value) is not CredentialsComingError


@pytest.mark.parametrize("index", [1, 2])
def test_after_ten_minutes_the_refusal_itself_is_the_reason(approved: Kept, index: int) -> None:
    approved.keeper.refresh()
    approved.ecr.scopes = ()
    approved.place.later(60)
    with pytest.raises(PipelineError):
        approved.keeper.refresh()
    coming(approved, Reason.Unauthorized, index)
    approved.place.later(PATIENCE.total_seconds())
    with refused(Reason.Unauthorized, "The registry refuses what is in Argo CD's Secret") as caught:
        approved.gate(index, retries=40)
    assert not caught.info.value.retry


@pytest.mark.parametrize(
    ("minutes", "index", "opens"),
    [(61, 1, True), (59, 1, False), (59, 2, True), (16, 2, True), (15, 2, False)],
)
def test_no_step_begins_with_a_token_near_its_end(
    approved: Kept, minutes: float, index: int, *, opens: bool
) -> None:
    approved.keeper.refresh()
    left = timedelta(minutes=minutes).total_seconds()
    approved.place.coordination.put_fact(
        CREDENTIALS, {**(approved.known or {}), "expiresAt": after(BEGAN, left)}
    )
    if opens:
        assert approved.gate(index) == {"open": True}
    else:
        coming(approved, Reason.RegistryCredentialsStale, index)


# The function


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "AicrPipeline/demo")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "refresh_credentials")
    # Made where it is imported first, perhaps by another test without these names.
    monkeypatch.delitem(sys.modules, "aicr_pipeline.event_source", raising=False)
    for part in ("config", "ecr", "argocd", "coordination", "registry"):
        monkeypatch.setattr(wiring, part, lambda: SimpleNamespace(transport=None))
    spec = importlib.util.spec_from_file_location(
        "h", FUNCTIONS_FOLDER / "refresh_credentials" / "handler.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONTEXT = SimpleNamespace(
    function_name="f",
    memory_limit_in_mb=1,
    invoked_function_arn="arn",
    aws_request_id="r",
    function_version="1",
)
NAMED = {"repository": "charts/a", "digest": sha("a")}


@pytest.mark.parametrize(
    ("event", "called"),
    [
        ({"source": "schedule"}, ("refresh",)),
        ({}, ("refresh",)),
        ({"source": "look"}, ("check", None)),
        ({"source": "aicr.pipeline", "detail-type": "Credentials Wanted"}, ("check", None)),
        (
            {"source": "aicr.pipeline", "detail-type": "Credentials Wanted", "detail": NAMED},
            ("check", f"charts/a@{sha('a')}"),
        ),
    ],
)
def test_who_only_looks_and_who_renews(
    handler: ModuleType, monkeypatch: pytest.MonkeyPatch, event: dict[str, Any], called: tuple[Any, ...]
) -> None:
    calls: list[tuple[Any, ...]] = []

    class Recorder:
        def __init__(self, *_: Any) -> None: ...

        def refresh(self) -> dict[str, Any]:
            calls.append(("refresh",))
            return {"written": True}

        def check(self, probe: str | None) -> dict[str, Any]:
            calls.append(("check", probe))
            return {"written": False}

    monkeypatch.setattr(handler, "Keeper", Recorder)
    handler.handler(event, CONTEXT)
    assert calls == [called]


def test_what_was_measured_is_told_although_the_run_failed(
    handler: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing:
        def __init__(self, *given: Any) -> None:
            self.measure = given[-1]

        def refresh(self) -> dict[str, Any]:
            self.measure(SECONDS_LEFT, 100.0)
            raise PipelineError(Reason.Unauthorized, "no")

    monkeypatch.setattr(handler, "Keeper", Failing)
    with refused(Reason.Unauthorized):
        handler.handler({}, CONTEXT)
    told = capsys.readouterr().out
    assert f'"{SECONDS_LEFT}":[100.0]' in told.replace(" ", "")
    assert '"Unit":"Seconds"' in told.replace(" ", "")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("111122223333.dkr.ecr.eu-central-1.amazonaws.com", "eu-central-1"),
        ("111122223333.dkr-ecr-fips.us-gov-west-1.on.aws", "us-gov-west-1"),
        ("127.0.0.1:5000", "us-west-2"),
    ],
)
def test_tokens_come_from_the_registrys_region(
    monkeypatch: pytest.MonkeyPatch, host: str, region: str
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setattr(
        wiring, "config", lambda: config(**{"registry.repository": f"oci://{host}/aicr/demo"})
    )
    assert wiring.ecr.__wrapped__()._client.meta.region_name == region
