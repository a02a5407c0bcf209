"""A TCP proxy that is far away: each direction takes a fixed time, at any bandwidth.

``python -m tests.bench.delay --milliseconds 15 HOST:PORT...`` prints one loopback address for each target and
runs until it is terminated. On a real path a connection costs one round trip before its first byte can be
sent; here ``connect`` returns at once, so that round trip is added to the first bytes instead. Slow start
and loss are not modelled.
"""

import argparse
import asyncio
import selectors
from collections import deque
from functools import partial


class _Way:
    """One direction: what arrives now is written one delay later, in order.

    Empty bytes are the end of what is sent, None the end of the connection.
    """

    def __init__(self, delay: float, earliest: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._delay = delay
        self._earliest = earliest
        self._waiting: deque[bytes | None] = deque()
        self._due = 0
        self._sink: asyncio.Transport | None = None

    def put(self, data: bytes | None) -> None:
        self._waiting.append(data)
        self._loop.call_at(max(self._loop.time(), self._earliest) + self._delay, self._one_is_due)

    def open(self, sink: asyncio.Transport) -> None:
        self._sink = sink
        self._write()

    def _one_is_due(self) -> None:
        # Each timer stands for one piece, whichever timer it is: the order is the queue's.
        self._due += 1
        self._write()

    def _write(self) -> None:
        while self._sink is not None and self._due:
            self._due -= 1
            data = self._waiting.popleft()
            if data is None:
                self._sink.close()
            elif not data:
                self._sink.write_eof()
            else:
                self._sink.write(data)


class _End(asyncio.Protocol):
    """One end of a connection; what it receives goes the given way."""

    def __init__(self, out: _Way, back: _Way) -> None:
        self._out = out
        self._back = back

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._back.open(transport)

    def data_received(self, data: bytes) -> None:
        self._out.put(data)

    def eof_received(self) -> bool:
        self._out.put(b"")
        return True  # the other direction goes on

    def connection_lost(self, exc: Exception | None) -> None:
        self._out.put(None)


async def _serve(targets: list[str], delay: float) -> None:
    loop = asyncio.get_running_loop()
    dialling: set[asyncio.Task[object]] = set()

    def accepted(host: str, port: int) -> asyncio.Protocol:
        there = _Way(delay, loop.time() + 2 * delay)
        back = _Way(delay, 0.0)
        dial = loop.create_task(loop.create_connection(lambda: _End(back, there), host, port))
        dialling.add(dial)
        dial.add_done_callback(dialling.discard)
        return _End(there, back)

    for target in targets:
        host, _, port = target.rpartition(":")
        server = await loop.create_server(partial(accepted, host, int(port)), "127.0.0.1", 0, backlog=256)
        print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Proxy until terminated."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.delay", description=__doc__)
    parser.add_argument("--milliseconds", type=float, required=True, help="each direction")
    parser.add_argument("target", nargs="+", help="host:port")
    asked = parser.parse_args()
    # epoll rounds a wait up to whole milliseconds, select does not.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(_serve(asked.target, asked.milliseconds / 1000))


if __name__ == "__main__":
    main()
