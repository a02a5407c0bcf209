"""The charts of the bench: 17 of 10 KB to 2 MB, the same bytes in every run on one machine.

Their text is drawn from few words, so that they shrink under gzip about as much as published charts do
(five times): a mirror that looks into archives pays for what is inside.
"""

import gzip
import random
from dataclasses import dataclass

from aicr_pipeline.decide.chart_package import digest_of, helm_config, helm_manifest, pack

#: Kilobytes, packed. The largest is the one with the CRDs.
SIZES = (10, 12, 15, 20, 28, 40, 55, 75, 100, 130, 170, 220, 290, 335, 380, 520, 2000)
CRDS = 446
#: Kilobytes of text that pack to one; measured on what is written here.
_SHRINK = 4.9
_TEMPLATE_KB = 12

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class BenchChart:
    """A packed chart and what a registry stores of it."""

    name: str
    version: str
    archive: bytes
    config: bytes

    @property
    def manifest(self) -> bytes:
        """As our own mirror would write it; the publisher's would only be longer."""
        parts = ((digest_of(blob), len(blob)) for blob in (self.config, self.archive))
        return helm_manifest(*parts)


def bench_charts() -> list[BenchChart]:
    """The set, the largest in its middle: last, it would be all that counts, and first it would hide."""
    rng = random.Random(17)
    words = ["".join(rng.choices(_ALPHABET, k=rng.randint(3, 11))) for _ in range(800)]
    charts = [_chart(f"bench-{at:02}", size, rng, words) for at, size in enumerate(SIZES)]
    return charts[::2] + charts[1::2][::-1]


def large_chart(megabytes: int) -> BenchChart:
    """One chart of that size that does not shrink."""
    rng = random.Random(50)
    files = {f"files/{at:02}.bin": rng.randbytes(4_000_000) for at in range(megabytes // 4)}
    files["files/rest.bin"] = rng.randbytes((megabytes % 4) * 1_000_000)
    config = {"apiVersion": "v2", "name": "bench-large", "version": "1.0.0"}
    files["Chart.yaml"] = _yaml(config)
    return BenchChart("bench-large", "1.0.0", pack("bench-large", files), helm_config(config))


def large_index(megabytes: int) -> bytes:
    """A repository's index of that size; the last entry is ``bench-00`` of the set, listed last."""
    rng = random.Random(15)
    lines, size, at = ["apiVersion: v1\nentries:\n"], 0, 0
    while size < megabytes * 1_000_000:
        at += 1
        block = [f"  chart-{at:03}:\n"]
        block += [_item(f"chart-{at:03}", f"1.{minor}.0", rng) for minor in range(400)]
        lines += block
        size += sum(map(len, block))
    lines += ["  zz-last:\n", *(_item("zz-last", f"1.{minor}.0", rng) for minor in reversed(range(400)))]
    return "".join(lines).encode()


def _chart(name: str, kilobytes: int, rng: random.Random, words: list[str]) -> BenchChart:
    crds = CRDS if kilobytes == max(SIZES) else 0
    config = {"apiVersion": "v2", "name": name, "version": "1.2.3", "description": "A chart of the bench"}
    raw = int(kilobytes * 1000 * _SHRINK)
    count = crds or max(2, raw // (_TEMPLATE_KB * 1000))
    folder, kind = ("crds", "CustomResourceDefinition") if crds else ("templates", "ConfigMap")
    files = {f"{folder}/{at:03}.yaml": _text(kind, raw // count, rng, words) for at in range(count)}
    files |= {"Chart.yaml": _yaml(config), "values.yaml": b"{}\n"}
    archive = gzip.compress(gzip.decompress(pack(name, files)), mtime=0)
    return BenchChart(name, "1.2.3", archive, helm_config(config))


def _text(kind: str, size: int, rng: random.Random, words: list[str]) -> bytes:
    lines, left = [f"apiVersion: v1\nkind: {kind}\nproperties:\n"], size
    while left > 0:
        drawn = rng.choices(words, k=8)
        line = (
            f"  {drawn[0]}:\n    description: {' '.join(drawn[1:])}\n    type: string\n    nullable: true\n"
        )
        lines.append(line)
        left -= len(line)
    return "".join(lines).encode()


def _item(name: str, version: str, rng: random.Random) -> str:
    return (
        f"  - apiVersion: v2\n    appVersion: {version}\n    created: '2026-01-02T03:04:05.678901234Z'\n"
        f"    dependencies:\n    - condition: sub.enabled\n      name: sub\n      version: {version}\n"
        f"    description: A chart that stands in an index\n    digest: {rng.randbytes(32).hex()}\n"
        f"    keywords:\n    - gpu\n    - operator\n    name: {name}\n    type: application\n"
        f"    urls:\n    - https://charts.invalid/{name}-{version}.tgz\n    version: {version}\n"
    )


def _yaml(fields: dict[str, str]) -> bytes:
    return "".join(f"{key}: {value}\n" for key, value in fields.items()).encode()
