"""The Kubernetes API as an adapter: tokens that die, answers nobody expected, the cluster's own region."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from aicr_pipeline.adapters import cluster as adapter
from aicr_pipeline.adapters.cluster import Cluster, UnexpectedAnswerError, connect
from aicr_pipeline.model.reasons import Reason

from local.kube import Identity, KubeServer
from tests.unit.samples import config, refused

GOOD: set[str] = set()


@pytest.fixture
def server() -> Iterator[KubeServer]:
    """Takes the tokens in ``GOOD``; answers 401 to all others."""
    GOOD.clear()
    with KubeServer(
        authenticate=lambda token: Identity("x", ("system:masters",)) if token in GOOD else None
    ) as running:
        yield running


class Mint:
    """Tokens t1, t2, ..."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"t{self.count}"


def test_a_token_that_died_early_is_renewed_once(server: KubeServer) -> None:
    mint = Mint()
    found = Cluster(server.url, None, mint)
    GOOD.add("t1")
    found.get("/version")
    found.get("/version")
    assert mint.count == 1, "kept"
    GOOD.clear()
    GOOD.add("t2")
    assert found.get("/version") is not None
    assert mint.count == 2
    found.create("/api/v1/namespaces", {"metadata": {"name": "made"}})
    assert mint.count == 2


def test_a_write_is_tried_again_with_the_new_token(server: KubeServer) -> None:
    GOOD.add("t2")
    found = Cluster(server.url, None, Mint())
    assert found.create("/api/v1/namespaces", {"metadata": {"name": "made"}})["metadata"]["name"] == "made"


def test_a_refused_role_is_not_asked_for_tokens_for_ever(server: KubeServer) -> None:
    mint = Mint()
    with refused(Reason.Unauthorized, "access entry") as caught:
        Cluster(server.url, None, mint).get("/version")
    assert not caught.info.value.retry
    assert mint.count == 2


def test_tokens_live_by_the_wall_clock(server: KubeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """While Lambda freezes a process its monotonic clock may stand still."""
    GOOD.update({"t1", "t2"})
    mint, now = Mint(), [1_000_000.0]
    monkeypatch.setattr(adapter.time, "time", lambda: now[0])
    found = Cluster(server.url, None, mint)
    found.get("/version")
    now[0] += 599
    found.get("/version")
    assert mint.count == 1
    now[0] += 1
    found.get("/version")
    assert mint.count == 2


def test_an_answer_nobody_expected_is_no_decision_of_the_domain(server: KubeServer) -> None:
    GOOD.add("t1")
    found = Cluster(server.url, None, Mint())
    with pytest.raises(UnexpectedAnswerError, match="422 to POST"):
        found.create("/api/v1/namespaces", {"metadata": {"name": "Not_A_Name"}})


def test_the_adapter_deletes_nothing() -> None:
    assert not hasattr(Cluster, "delete")


class Eks:
    """DescribeCluster, and which region was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, region: str) -> Any:
        self.asked.append(region)
        return self

    def describe_cluster(self, name: str) -> dict[str, Any]:
        self.asked.append(name)
        return {"cluster": {"endpoint": "https://e.example/", "certificateAuthority": {"data": PEM}}}


PEM = base64.b64encode(b"pem").decode()


def test_the_cluster_is_looked_up_in_its_own_region(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(adapter, "Cluster", lambda *given: made.append(given))
    eks = Eks()
    connect(config(**{"cluster.region": "eu-central-1", "cluster.eksName": "other"}), eks)
    assert eks.asked == ["eu-central-1", "other"]
    assert made[0][:2] == ("https://e.example/", b"pem")


def test_an_endpoint_that_is_configured_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "Cluster", lambda *given: given)
    eks = Eks()
    connect(config(**{"cluster.endpoint": "https://x.example", "cluster.certificateAuthority": PEM}), eks)
    assert eks.asked == []
