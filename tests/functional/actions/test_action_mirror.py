"""What "Mirror chart" says of a chart that is held."""

import json
from types import SimpleNamespace

import pytest
from aicr_pipeline.actions import mirror_chart as action
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from tests.functional.actions.support import Place, step

#: Of a state's input or output (Step Functions' quotas).
MOST_BYTES = 262_144


def test_many_hostile_charts_fit_into_one_state(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    def refuse(*_: object) -> None:
        raise PipelineError(Reason.ChartInvalid, "The archive holds " + "x" * 250_000)

    release = SimpleNamespace(name="a", source=object())
    bundle = (SimpleNamespace(releases=[release]), "sha256:")
    monkeypatch.setattr(action.Resolves, "bundle", lambda self: bundle)
    monkeypatch.setattr(action.mirror, "mirror_chart", refuse)
    given = step("Mirror chart", input={"run": "run-1"}, item={"release": "a"})
    held = action.mirror_chart(given, place.ledger, None)  # type: ignore[arg-type]
    assert held["status"] == "held" and held["message"].startswith("The archive holds x")
    assert len(json.dumps([held] * 100)) < MOST_BYTES
