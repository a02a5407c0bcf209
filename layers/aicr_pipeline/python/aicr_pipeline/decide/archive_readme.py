"""The README of an evidence archive: what is in it, and the lines that check it with tools everybody has."""

from collections.abc import Mapping

from aicr_pipeline.decide.evidence_archive import (
    AICR_FILES,
    AICR_KEY,
    AICR_LAYER,
    AICR_MANIFEST,
    AICR_SIGNATURE,
    ENVELOPE,
    LEDGER,
    PAE,
    PAYLOAD,
    PUBLIC_KEY,
    SIGNATURE,
    SUMS,
)
from aicr_pipeline.model.evidence import PAYLOAD_TYPE, Binding

_TITLE = """\
# Evidence of rollout {rollout}

Cluster {cluster}, plan {plan}.
Bound at {bound_at}; signed with the key whose fingerprint is
{fingerprint}.

{standing}

To trust it you need one thing that is not in this folder: the fingerprint, from whoever runs the pipeline,
over a way that you trust. Everything else is here, and is checked with `sha256sum`, `openssl` and a shell.

## Check it

Whoever changed this folder may have changed these lines, too: take them from docs/evidence.md of the
pipeline's release, which has the same. Run them in this folder as one script, in `bash`; the first that fails
stops and says `DOES NOT HOLD`. Nothing here reaches a network, and no program of ours runs.

1. Nothing in this folder has changed since its sums were written, and nothing was added. Nobody signs the
   sums: they find damage; whoever wrote new ones is found below.

```sh
set -e -o pipefail
trap 'echo "DOES NOT HOLD: $BASH_COMMAND" >&2' ERR
sha256sum --quiet -c {sums}
find . ! -type d ! -path ./{sums} | cut -c 3- | LC_ALL=C sort | cmp - <(cut -c 67- {sums})
```

2. The key. Compare what this prints with the fingerprint that you were told:

```sh
openssl pkey -pubin -in {key} -outform DER | sha256sum
```

3. `{payload}`, `{signature}` and `{pae}` are what the envelope holds. The last is the DSSE
   pre-authentication encoding, which is what is signed:

```sh
sed 's/.*"payload":"\\([^"]*\\)".*/\\1/' {envelope} | openssl base64 -d -A | cmp - {payload}
sed 's/.*"sig":"\\([^"]*\\)".*/\\1/' {envelope} | openssl base64 -d -A | cmp - {signature}
{{ printf 'DSSEv1 {kind_length} {kind} %d ' "$(wc -c < {payload})"; cat {payload}; }} | cmp - {pae}
```

4. The signature. It prints `Verified OK`:

```sh
openssl dgst -sha256 -verify {key} -signature {signature} {pae}
```

5. The records are the ones that the statement names, each by its SHA-256. Snapshots are named too, but not
   in here: they hold the names of nodes.

```sh
grep -o '"\\(plans\\|rollouts\\|resolves\\)/[^"]*":"sha256:[0-9a-f]*"' {payload} | grep -v 'snapshot\\.yaml' |
  sed 's|^"\\(.*\\)":"sha256:\\(.*\\)"$|\\2  {ledger}\\1|' | sha256sum --quiet -c
```
"""

_AICR = """
6. AICR's own evidence is the one that the statement names: its manifest, the one layer that this names, and
   the files in that layer:

```sh
test "$(grep -o '"aicrEvidence":{{[^}}]*}}' {payload} | grep -o '"digest":"sha256:[0-9a-f]*"')" = \\
  "\\"digest\\":\\"sha256:$(sha256sum < {manifest} | cut -c 1-64)\\""
grep -q "sha256:$(sha256sum < {layer} | cut -c 1-64)" {manifest}
folder=$(mktemp -d)
tar -xzf {layer} -C "$folder"
diff -r "$folder" {files}
rm -r "$folder"
```

   Its chain goes on by itself: `{files}statement.intoto.json` names the digest of
   `{files}manifest.json`, which names that of every other file. The deployment report is
   `{files}ctrf/deployment.json`.
"""

_UNSIGNED = """
   **AICR's evidence is not signed by AICR.** Its boundary is the registry's access control and the digest
   that our statement binds.
"""

_SIGNED = """
   AICR signed it with the key whose fingerprint is
   {fingerprint}
   (`aicrEvidence.keyFingerprint`). What it signed is about the digest of the artifact's manifest, or was
   written before there was one, and names the same `manifest.json`:

```sh
mark=$(openssl pkey -pubin -in {key} -outform DER | sha256sum | cut -c 1-64)
echo "AICR's key: $mark"
test "$(grep -o '"aicrEvidence":{{[^}}]*}}' {payload} | grep -o '"keyFingerprint":"[0-9a-f]*"')" = \\
  "\\"keyFingerprint\\":\\"$mark\\""
folder=$(mktemp -d)
tr -d '\\n' < {bundle} | sed 's/.*"payload": *"\\([^"]*\\)".*/\\1/' | openssl base64 -d -A > "$folder/payload"
tr -d '\\n' < {bundle} | sed 's/.*"sig": *"\\([^"]*\\)".*/\\1/' | openssl base64 -d -A > "$folder/signature"
{{ printf 'DSSEv1 {kind_length} {kind} %d ' "$(wc -c < "$folder/payload")"; cat "$folder/payload"; }} \
  > "$folder/pae"
openssl dgst -sha256 -verify {key} -signature "$folder/signature" "$folder/pae"
tr -d ' \\t\\r\\n' < "$folder/payload" > "$folder/signed"
test "$(grep -o '"subject":\\[[^]]*\\]' "$folder/signed" | grep -o '"sha256":"[0-9a-f]*"')" = \\
  "\\"sha256\\":\\"$(sha256sum < {manifest} | cut -c 1-64)\\"" || cmp "$folder/payload" {statement}
test "$(grep -o '"manifest":{{[^}}]*}}' "$folder/signed" | grep -o '"digest":"sha256:[0-9a-f]*"')" = \\
  "\\"digest\\":\\"sha256:$(sha256sum < {files}manifest.json | cut -c 1-64)\\""
rm -r "$folder"
```

   These lines do not compare the rest of what AICR signed with `{statement}`; the
   verifier, below, does.
"""

_READ = """
## Read it

`{payload}` is one line of JSON; `python3 -m json.tool {payload}` or `jq . {payload}` shows it.

| Where | What |
| --- | --- |
| `predicate.qualifying`, `.notQualifyingBecause` | Whether it may count towards a qualification; why not |
| `predicate.approval` | Who approved, how they were identified, when, why, until when; by digest |
| `predicate.plan.digest`, `.releases` | What was installed: every chart by digest |
| `predicate.pipeline`, `.aicrImageDigest`, `.validators` | Which code ran, by digest |
| `predicate.tuple` | The hardware and software that it was validated on; an empty list was not recorded |
| `predicate.validation`, `.aicrEvidence` | How the validation went, and where AICR's evidence is |

| File | What |
| --- | --- |
{listing}

{revocation}

`python -m aicr_pipeline.verify <this folder or the archive> --fingerprint <fingerprint>` checks all of this,
and that the records fit each other.
"""

_WENT_ON = """\
There is no `revocation.json`: nobody had stopped the rollout when it was bound, and since its outcome nobody
can. Nobody signed that, nor `binding.json` and `outcome.json`, which are written after the statement: their
proof is the pipeline's ledger, which the verifier asks with `--live`."""
_STOPPED = "Somebody stopped the rollout while its evidence was bound: see `revocation.json`."

_WORDS: Mapping[str, str] = {
    ENVELOPE: "The signed statement: a DSSE envelope",
    PAYLOAD: "Out of it: the in-toto statement",
    SIGNATURE: "Out of it: the signature, ECDSA P-256 over SHA-256, DER",
    PAE: "What is signed",
    PUBLIC_KEY: "The key that signed it",
    AICR_MANIFEST: "AICR's evidence in the registry: its OCI manifest",
    AICR_LAYER: "Its layer",
    AICR_SIGNATURE: "AICR's signature: a Sigstore bundle",
    AICR_KEY: "The key that AICR signed with",
    SUMS: "SHA-256 of every other file here",
}
_RECORDS: Mapping[str, str] = {
    "rollout.json": "The rollout",
    "report.json": "What it changes, assessed before people were asked",
    "request.json": "What was asked of whom",
    "decision.json": "The approval",
    "bypass.json": "What stands in place of an approval",
    "validation.json": "The report of AICR's deployment validation (CTRF)",
    "validators.json": "Which validators ran, with the digests that the nodes pulled",
    "outcome.json": "How it ended",
    "revocation.json": "Who stopped it",
    "binding.json": "Which statement is the rollout's",
    "recipe.yaml": "The plan's recipe",
}


def readme(binding: Binding, fingerprint: str, names: list[str]) -> bytes:
    """The text. ``names`` are the archive's other files, ``fingerprint`` that of the key that signed."""
    aicr = binding.aicr_evidence
    kind = {"kind": PAYLOAD_TYPE, "kind_length": str(len(PAYLOAD_TYPE))}
    parts = [
        _TITLE.format(
            rollout=binding.rollout.name,
            cluster=binding.cluster,
            plan=binding.plan.digest,
            bound_at=binding.bound_at,
            fingerprint=fingerprint,
            standing=_standing(binding),
            sums=SUMS,
            key=PUBLIC_KEY,
            payload=PAYLOAD,
            signature=SIGNATURE,
            pae=PAE,
            envelope=ENVELOPE,
            ledger=LEDGER,
            **kind,
        )
    ]
    if aicr is not None:
        parts.append(
            _AICR.format(payload=PAYLOAD, manifest=AICR_MANIFEST, layer=AICR_LAYER, files=AICR_FILES)
        )
        if aicr.signed:
            parts.append(
                _SIGNED.format(
                    fingerprint=aicr.key_fingerprint,
                    key=AICR_KEY,
                    bundle=AICR_SIGNATURE,
                    manifest=AICR_MANIFEST,
                    files=AICR_FILES,
                    payload=PAYLOAD,
                    statement=f"{AICR_FILES}statement.intoto.json",
                    **kind,
                )
            )
        else:
            parts.append(_UNSIGNED)
    listing = "\n".join(map(_row, sorted({*names, SUMS})))
    stopped = any(name.endswith("/revocation.json") for name in names)
    parts.append(_READ.format(payload=PAYLOAD, listing=listing, revocation=_STOPPED if stopped else _WENT_ON))
    return "".join(parts).encode()


def _standing(binding: Binding) -> str:
    if binding.qualifying:
        return "It may count towards the qualification of a profile (`qualifying: true`)."
    reasons = "\n".join(f"- {reason}" for reason in binding.not_qualifying_because)
    return f"**It never counts towards the qualification of a profile:**\n\n{reasons}"


def _row(name: str) -> str:
    words = _WORDS.get(name) or _RECORDS.get(name.rpartition("/")[2])
    if words is None:
        if name.startswith(f"{LEDGER}plans/"):
            words = "The plan"
        elif "/decisions/" in name:
            words = "One person's own approval"
        elif "/acknowledgements/" in name:
            words = "Who did what a manual step asked for"
        elif name.startswith(AICR_FILES):
            words = "Out of AICR's evidence"
        else:
            words = "A record"
    return f"| `{name}` | {words} |"
