"""Mirror one chart the way the pipeline does it, and show what happens: for people who debug one chart.

Exit status: 0 mirrored, or there already; 1 refused: a person must act; 2 the command line is not
understood; 3 it may pass by itself: try again. Passwords come from the Docker configuration file
(DOCKER_CONFIG, HELM_REGISTRY_CONFIG), for ECR from AWS; never from the command line.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from aicr_pipeline.adapters import mirror
from aicr_pipeline.adapters.aws import AwsSettingsError
from aicr_pipeline.adapters.http import RETRYABLE, Answer, Counters, Transport
from aicr_pipeline.adapters.mirror import Destination, MirrorResult
from aicr_pipeline.adapters.registry import Reference, parse_reference
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.addresses import is_loopback
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.registry_access import credentials_of

DONE, REFUSED, USAGE, TRY_AGAIN, INTERRUPTED = 0, 1, 2, 3, 130
#: Each reason has its section there.
PAGE = "docs/registry.md"

_CHART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    wish = _parse(arguments)
    watch = WatchedTransport(wish.plain_hosts, progress=_progress())
    try:
        code, outcome = _attempt(wish, watch)
        to = sys.stdout if wish.json or code == DONE else sys.stderr
        try:
            _print(outcome, wish, to)
        except BrokenPipeError:
            # Nobody listens. Python would flush once more at its end, fail, and exit with 120.
            os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())
        return code
    except KeyboardInterrupt:
        print("interrupted: a tag is written last, so nothing is half there; run it again", file=sys.stderr)
        return INTERRUPTED
    finally:
        watch.close()


class WatchedTransport(Transport):
    """A transport that writes down what goes over the wire, and says it as it goes.

    Parameters
    ----------
    progress:
        Given a line at each step.
    """

    def __init__(self, plain_hosts: frozenset[str], progress: Callable[[str], None]) -> None:
        super().__init__(plain_hosts, on_exchange=self._note)
        self.progress = progress
        self.exchanges: list[tuple[str, str, int]] = []
        #: Of the operation under way.
        self.counters = Counters()
        self._doing = ""

    def send(self, method: str, url: str, **options: Any) -> Answer:
        self.counters = options["counters"]
        if options["doing"] != self._doing:
            self._doing = options["doing"]
            self.progress(f"{self._doing} ({self.counters.sent + self.counters.received:,} bytes so far)")
        return super().send(method, url, **options)

    def _note(self, method: str, address: str, status: int) -> None:
        self.exchanges.append((method, address, status))
        if not status or status in RETRYABLE:
            self.progress(f"  {method} {address}: {status or 'no answer'}")


@dataclass(frozen=True)
class _Wish:
    """The command line, understood."""

    source: UpstreamSource | Path
    chart: str
    version: str
    to: Reference
    plain_hosts: frozenset[str]
    json: bool
    verbose: bool


class _Parser(argparse.ArgumentParser):
    def parse_known(self, arguments: list[str] | None) -> argparse.Namespace:
        """Parse; what is not known is named without its value, which may be a password."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            names = ", ".join(one.partition("=")[0] for one in unknown if one.startswith("--"))
            self.error(f"there is no option {names}" if names else "there are arguments without an option")
        return options

    def error(self, message: str) -> NoReturn:
        # argparse's own words for a flag that is given a value quote that value.
        super().error(message.partition(": ignored explicit argument")[0])


def _parse(arguments: list[str] | None) -> _Wish:
    parser = _Parser(prog="python -m aicr_pipeline.mirror", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--from", dest="source", required=True, metavar="SOURCE",
        help="https://… of a Helm repository, oci://host/path[/chart], or a folder of *.tgz archives",
    )  # fmt: skip
    parser.add_argument(
        "--chart", default="", metavar="NAME", help="the chart; not needed in an oci:// address"
    )
    parser.add_argument("--version", required=True, metavar="V", help="the exact version")
    parser.add_argument("--to", required=True, metavar="oci://HOST/PREFIX", help="goes to PREFIX/charts/NAME")
    parser.add_argument("--plain-http", action="store_true", help="no TLS with hosts on loopback")
    parser.add_argument("--json", action="store_true", help="print one JSON object, refused or not")
    parser.add_argument("--verbose", action="store_true", help="print the requests that were made")
    options = parser.parse_known(arguments)
    if options.chart and not _CHART.fullmatch(options.chart):
        parser.error("--chart is not the name of a chart")
    if not options.version:
        parser.error("--version is empty")
    to = _reference(options.to)
    if to is None:
        parser.error("--to is not an address like oci://host/prefix, without tag, user or password")
    source, host = _source(parser, options)
    plain = frozenset(one for one in (host, to.host) if one and is_loopback(one))
    if options.plain_http and not plain:
        parser.error("--plain-http is for hosts on loopback, and neither side is")
    if options.source.startswith("http://") and not (options.plain_http and host in plain):
        parser.error("--from is plain http, which is for hosts on loopback with --plain-http; use https")
    hosts = plain if options.plain_http else frozenset()
    return _Wish(source, options.chart, options.version, to, hosts, options.json, options.verbose)


def _source(parser: _Parser, options: argparse.Namespace) -> tuple[UpstreamSource | Path, str]:
    """The source and its host. Nothing of a wrong address is quoted: people paste passwords into them."""
    given = str(options.source)
    if given.startswith("oci://"):
        address = "/".join([given.rstrip("/"), *([options.chart] if options.chart else [])])
        reference = _reference(address)
        if reference is None:
            parser.error("--from is not like oci://host/path/chart, without tag, digest, user or password")
        return UpstreamSource(chart=address, repo="", version=options.version), reference.host
    if not options.chart:
        parser.error("--chart is needed with a Helm repository or a folder")
    if given.startswith(("https://", "http://")):
        host = _host(given)
        if host is None:
            parser.error("--from is not an https address without user, password, query or fragment")
        return UpstreamSource(chart=options.chart, repo=given.rstrip("/"), version=options.version), host
    if not _is_folder(given):
        parser.error("--from is neither an https:// or oci:// address nor a folder that is there")
    return Path(given), ""


def _reference(text: str) -> Reference | None:
    if not text.startswith("oci://") or _host(text.replace("oci:", "https:", 1)) is None:
        return None
    try:
        return parse_reference(text)
    except PipelineError:
        return None


def _host(address: str) -> str | None:
    """``host[:port]`` of an address that holds that and a path only."""
    try:
        url = urlsplit(address)
        port = url.port  # checks it
    except ValueError:
        return None
    plain = url.hostname and "@" not in url.netloc and not url.query and not url.fragment and port != 0
    sound = all(" " < character < "\x7f" for character in address)
    return url.netloc if plain and sound else None


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:  # a name too long to be one
        return False


def _attempt(wish: _Wish, watch: WatchedTransport) -> tuple[int, dict[str, Any]]:
    """Mirror, or say why not: exit status and what ``--json`` prints."""
    try:
        result = _mirror(wish, watch)
    except AwsSettingsError as error:
        return USAGE, _refusal(error) | _cost(watch)
    except PipelineError as error:
        refused = REFUSED if not error.retry else TRY_AGAIN
        return refused, _refusal(error) | _cost(watch)
    except Exception as error:  # noqa: BLE001 - outermost: people get a sentence, scripts their exit status
        name = f"{type(error).__name__}{f': {error.strerror}' if isinstance(error, OSError) else ''}"
        message = f"Mirroring stopped unexpectedly ({name}); nothing was overwritten, please report it."
        unknown = {"status": "refused", "reason": None, "kind": None, "message": message, "see": PAGE}
        return REFUSED, unknown | _cost(watch)
    return DONE, _success(result, wish, watch) | _cost(watch)


def _mirror(wish: _Wish, watch: WatchedTransport) -> MirrorResult:
    destination = Destination(
        wish.to.host, wish.to.repository, watch, credentials_of(wish.to.host), publishers=credentials_of
    )
    if isinstance(wish.source, Path):
        return mirror.mirror_folder(wish.source, wish.chart, wish.version, destination)
    return mirror.mirror_chart(wish.source, destination)


def _success(result: MirrorResult, wish: _Wish, watch: WatchedTransport) -> dict[str, Any]:
    written = [address for method, address, status in watch.exchanges if method == "PUT" and status < 300]
    blobs = sum("/manifests/" not in address for address in written)
    return {
        "status": "mirrored" if result.pushed else "unchanged",
        "repository": f"oci://{wish.to.host}/{result.repository}",
        "tag": result.tag,
        "chart": result.chart_name,
        "version": result.chart_version,
        "manifestDigest": result.manifest_digest,
        "contentDigest": result.content_digest,
        "mediaType": result.media_type,
        "pushed": [*([f"{blobs} blobs"] if blobs else []), *(["manifest"] if result.pushed else [])],
        "skipped": [*([] if blobs else ["blobs"]), *([] if result.pushed else ["manifest"])],
    }


def _refusal(error: PipelineError) -> dict[str, Any]:
    plain = type(error) in (PipelineError, TransientError)
    return {
        "status": "transient" if error.retry else "refused",
        "reason": str(error.reason),
        "kind": None if plain else type(error).__name__.removesuffix("Error"),
        "message": error.message,
        "see": f"{PAGE}#{error.reason.lower()}",
    }


def _cost(watch: WatchedTransport) -> dict[str, Any]:
    names = ("method", "address", "status")
    return {
        "requests": [dict(zip(names, exchange, strict=True)) for exchange in watch.exchanges],
        "sent": watch.counters.sent,
        "received": watch.counters.received,
        "retries": watch.counters.retries,
    }


def _print(outcome: dict[str, Any], wish: _Wish, to: Any) -> None:
    if wish.json:
        print(json.dumps(outcome, indent=2), file=to, flush=True)
        return
    lines = _told(outcome) if "tag" in outcome else _refused(outcome)
    lines.append(
        f"requests {len(outcome['requests'])}, retries {outcome['retries']}, "
        f"bytes sent {outcome['sent']:,}, received {outcome['received']:,}"
    )
    if wish.verbose:
        lines += [
            f"  {one['status'] or '---'} {one['method']:4} {one['address']}" for one in outcome["requests"]
        ]
    print("\n".join(map(_shown, lines)), file=to, flush=True)


def _told(outcome: dict[str, Any]) -> list[str]:
    words = {
        "pushed": " and ".join(outcome["pushed"]) or "nothing",
        "skipped": f"{' and '.join(outcome['skipped'])}: there already" if outcome["skipped"] else "nothing",
    }
    return [
        f"{outcome['status']}: {outcome['chart']} {outcome['version']}",
        f"  at        {outcome['repository']}:{outcome['tag']}",
        f"  manifest  {outcome['manifestDigest']}",
        f"  content   {outcome['contentDigest']}",
        f"  pushed    {words['pushed']}",
        f"  skipped   {words['skipped']}",
    ]


def _refused(outcome: dict[str, Any]) -> list[str]:
    kind = f" ({outcome['kind']})" if outcome["kind"] else ""
    word = "try again" if outcome["status"] == "transient" else "refused"
    return [
        f"{word}: {outcome['reason'] or 'unknown'}{kind}",
        f"  {outcome['message']}",
        f"  see {outcome['see']}",
    ]


def _progress() -> Callable[[str], None]:
    """Lines on a terminal; silence for scripts."""
    if sys.stderr is None or not sys.stderr.isatty():
        return lambda line: None
    return lambda line: print(_shown(line), file=sys.stderr, flush=True)


def _shown(line: str) -> str:
    """A line for a terminal: what strangers' servers say may hold its control characters."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


if __name__ == "__main__":
    sys.exit(main())
