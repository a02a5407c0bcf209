"""``make demo SCENARIO=name``: what is refused, what is set, and when it came as the scenario says."""

from pathlib import Path

import pytest
from aicr_pipeline.model.config import load_cluster_config

from local import demo
from local.__main__ import main
from local.argocd import Scenario
from local.argocd.scenario import names

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "clusters" / "demo.yaml"


def test_a_scenario_that_is_not_there_is_refused_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--scenario", "no-such"])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "there is no no-such" in said
    assert all(name in said for name in names())


def test_a_place_that_cannot_take_the_results_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/x")):
        with pytest.raises(SystemExit) as caught:
            main(["--out", str(out)])
        assert caught.value.code == 2
        assert "cannot be a folder for the results" in capsys.readouterr().err


@pytest.mark.parametrize("name", names())
def test_a_scenario_s_settings_are_a_configuration(tmp_path: Path, name: str) -> None:
    made = demo.options(
        DEMO, bundle=None, charts=None, approver="sam", work=tmp_path, runtime=Path("r"), scenario=name
    )
    assert made.scenario == Scenario.named(name)
    found, before = load_cluster_config(made.cluster_file), load_cluster_config(DEMO)
    assert found.cluster == before.cluster
    if made.scenario is not None and made.scenario.settings:
        assert found.engine.graces != before.engine.graces


@pytest.mark.parametrize(
    ("reason", "message", "came"),
    [
        ("RolloutFailed", "step 9/17: Degraded Deployment x", True),
        ("RolloutFailed", "step 9/17: something else", False),
        ("RolledOut", "17 releases", False),
        ("RolloutFailed", None, False),
    ],
)
def test_it_came_as_told_when_reason_and_words_are_the_scenario_s(
    reason: str, message: str | None, came: bool
) -> None:
    scenario = Scenario(title="t", reason="RolloutFailed", said="Degraded Deployment")
    found = demo._came_as_told(scenario, {"outcome": "Failed", "reason": reason, "message": message})
    assert found == {"title": "t", "reason": "RolloutFailed", "asExpected": came}


@pytest.mark.parametrize("outcome", ["Succeeded", "Failed"])
@pytest.mark.parametrize("reason", ["RolledOut", "ValidationDisabled"])
def test_a_rollout_that_goes_through_does_so_with_and_without_validation(outcome: str, reason: str) -> None:
    found = demo._came_as_told(Scenario(), {"outcome": outcome, "reason": reason, "message": "m"})
    assert found["asExpected"] is (outcome == "Succeeded")
