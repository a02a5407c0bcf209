"""A registry and a cluster store for the stand-ins."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.aicr import AICR_VERSION
from local.kube import KubeServer
from local.registry import LocalRegistry, TokenIssuer
from tests.functional.standins.cluster import Cluster
from tests.functional.standins.support import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    with LocalRegistry(TokenIssuer()) as server:
        yield Registry(server)


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Of the stand-in's own version, or of the one that a test names indirectly."""
    with KubeServer(authenticate=lambda token: None) as server:  # Pods have tokens of their own
        made = Cluster(server, tmp_path, getattr(request, "param", AICR_VERSION))
        made.kubelet.start()
        yield made
        made.kubelet.stop()
        assert not any((tmp_path).iterdir()), "a Pod's folder was left behind"
