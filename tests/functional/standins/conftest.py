"""A registry and a cluster store for the stand-ins."""

from collections.abc import Iterator

import pytest

from local.registry import LocalRegistry, TokenIssuer
from tests.functional.standins.support import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    with LocalRegistry(TokenIssuer()) as server:
        yield Registry(server)
