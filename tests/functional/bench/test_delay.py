"""The bench's far end of the line: as far as it says, with nothing lost or changed on the way."""

import hashlib
import random
import socket
import statistics
import threading
import time
from collections.abc import Iterator

import pytest

from tests.bench.servers import delayed

EACH_WAY = 0.015


@pytest.fixture(scope="module")
def far() -> Iterator[tuple[str, int]]:
    """An echo, 15 ms away in each direction."""
    listener = socket.create_server(("127.0.0.1", 0))

    def echo(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    with delayed(EACH_WAY * 1000, f"127.0.0.1:{listener.getsockname()[1]}") as (address,):
        host, _, port = address.partition(":")
        yield host, int(port)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(timeout=5)


def seconds(connection: socket.socket) -> float:
    began = time.perf_counter()
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    return time.perf_counter() - began


def test_a_connection_and_each_question_cost_a_round_trip(far: tuple[str, int]) -> None:
    with socket.create_connection(far) as connection:
        first = seconds(connection)
        later = [seconds(connection) for _ in range(5)]
    assert first >= 4 * EACH_WAY - 0.001
    assert min(later) >= 2 * EACH_WAY - 0.001
    assert statistics.median(later) < 4 * EACH_WAY  # a busy machine adds to it


def test_bytes_pass_unchanged_and_unhindered(far: tuple[str, int]) -> None:
    sent = random.Random(1).randbytes(8_000_000)
    received = hashlib.sha256()
    began = time.perf_counter()
    with socket.create_connection(far) as connection:
        sender = threading.Thread(
            target=lambda: (connection.sendall(sent), connection.shutdown(socket.SHUT_WR))
        )
        sender.start()
        left = len(sent)
        while left and (data := connection.recv(1 << 16)):
            received.update(data)
            left -= len(data)
        sender.join(timeout=5)
    assert (left, received.digest()) == (0, hashlib.sha256(sent).digest())
    assert time.perf_counter() - began < 3.5  # 64 KB a round trip would take 4 s
