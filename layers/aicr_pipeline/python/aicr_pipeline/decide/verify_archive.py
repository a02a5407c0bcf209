"""Verifying the archive of a rollout's evidence, offline: the signature, then every file that it speaks of.

In this order: what the folder says of itself, the key and the signature, and from there only what is signed.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.aicr_evidence import (
    AicrEvidence,
    check_made_by,
    check_same_report,
    read_aicr_evidence,
)
from aicr_pipeline.decide.aicr_signature import verify_key_signature
from aicr_pipeline.decide.archive_files import check_documents, check_known
from aicr_pipeline.decide.archive_readme import readme
from aicr_pipeline.decide.bound_records import BoundRecords, check_records, check_same_recipe
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.deployed import ANEW, deployed_problem
from aicr_pipeline.decide.dsse import as_der, envelope, fingerprint, once, pae, public_der, read_key
from aicr_pipeline.decide.unpack import only_layer, unpack
from aicr_pipeline.decide.validation import judge, read_report
from aicr_pipeline.decide.validators_record import read_validators_record
from aicr_pipeline.decide.verify import (
    Looks,
    SignedStatement,
    Stop,
    Verdict,
    check_plan,
    pem,
    signed_statement,
)
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import DocumentT, parse
from aicr_pipeline.model.evidence import BoundAicrEvidence, BoundApproval
from aicr_pipeline.model.plan import Plan, plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    Acknowledgement,
    ApprovalRequest,
    Decision,
    Deployed,
    Outcome,
    Report,
    Rollout,
    RolloutOutcome,
    StepStarted,
    acknowledgement_key,
    rollout_key,
    step_key,
)

Files = Mapping[str, bytes]


def verify_archive(
    files: Files,
    *,
    require_qualifying: bool,
    fingerprints: Collection[str] = (),
    key: bytes | None = None,
) -> Verdict:
    """Verify an archive's files.

    Parameters
    ----------
    fingerprints, key:
        What the key that signed has to be, from elsewhere. Without either the result is ``incomplete``: an
        archive that brings its own key proves nothing about who signed.
    """
    looks = Looks()
    try:
        signed = look_at_archive(looks, files, fingerprints=fingerprints, key=key)
    except Stop:
        return looks.verdict(None)
    looks.enough(signed.statement.predicate, require_qualifying)
    return looks.verdict(signed.statement.predicate)


def look_at_archive(
    looks: Looks, files: Files, *, fingerprints: Collection[str], key: bytes | None
) -> SignedStatement:
    """The checks of an archive. Raises Stop at the first that fails."""
    looks.at("sums", lambda: (None, f"{layout.check_sums(files)} files are what {layout.SUMS} says"))
    if key is None and not fingerprints:
        looks.unseen("pin", "no key was named: pass --fingerprint or --key, from a source you trust")
    sealed, own = files.get(layout.ENVELOPE, b""), files.get(layout.PUBLIC_KEY, b"")
    signed = signed_statement(looks, sealed, own if key is None else key, fingerprints)
    _Look(files, signed, looks).all()
    return signed


class _Look:
    """Everything that is checked once the signature holds."""

    def __init__(self, files: Files, signed: SignedStatement, looks: Looks) -> None:
        self.files, self.signed, self.looks = files, signed, looks
        self.binding = signed.statement.predicate
        self.name = self.binding.rollout.name

    def all(self) -> None:
        """Every check, in order."""
        looks, binding = self.looks, self.binding
        looks.at("files", lambda: (None, check_known(self.files, binding)))
        looks.at("split", lambda: (None, self._split()))
        self._readme()
        key = plan_key(binding.plan.digest)
        if binding.documents is None:
            looks.at("plan", lambda: check_plan(self.signed.statement, self._record(key)))
            looks.unseen("documents", "evidence of an earlier version, which names no records")
            return
        looks.at("documents", lambda: (None, f"{check_documents(self.files, binding)} records are as signed"))
        plan = looks.at("plan", lambda: check_plan(self.signed.statement, self._record(key)))
        looks.at("records", lambda: (None, self._records(plan)))
        if binding.validation.mode == "Required":
            looks.at("validation", lambda: (None, self._validation()))
            evidence = looks.at("aicr-evidence", lambda: self._aicr(plan))
            looks.at("aicr-signature", lambda: (None, self._aicr_signature(evidence)))
        looks.at("pointer", lambda: (None, self._pointer()))
        self._end()

    def _split(self) -> str:
        signed = self.signed
        kind, payload = signed.envelope.payload_type, signed.envelope.payload
        wanted = {
            layout.PAYLOAD: payload,
            layout.SIGNATURE: signed.signature,
            layout.PAE: pae(kind, payload),
        }
        for name, content in wanted.items():
            if self.files.get(name) != content:
                raise ValueError(f"{name} is not what the envelope holds")
        # The README's lines read it as text, and whatever else it held would be nobody's word.
        if self.files[layout.ENVELOPE] != envelope(kind, payload, signed.fingerprint, signed.signature):
            raise ValueError(f"{layout.ENVELOPE} holds more than the statement and its signature")
        own = self._file(layout.PUBLIC_KEY)
        if own != pem(as_der(read_key(own))) or fingerprint(as_der(read_key(own))) != self.signed.fingerprint:
            raise ValueError(f"{layout.PUBLIC_KEY} is not the key that signed, as PEM")
        return f"{', '.join(wanted)} are what the envelope holds"

    def _readme(self) -> None:
        """Whoever follows a README that somebody changed checks nothing.

        Not invalid: another version of this program writes other words, and the evidence is what it is.
        """
        names = [name for name in self.files if name not in (layout.README, layout.SUMS)]
        if self.files.get(layout.README) == readme(self.binding, self.signed.fingerprint, names):
            self.looks.at("readme", lambda: (None, f"{layout.README} is what this version writes"))
        else:
            self.looks.unseen(
                "readme",
                f"{layout.README} is not what this version writes: somebody changed it, or another version "
                "packed it. Do not follow it; the lines are in docs/evidence.md",
            )

    def _records(self, plan: Plan) -> str:
        binding, approval = self.binding, self.binding.approval
        rollout = self._parsed(rollout_key(self.name, "rollout"), Rollout)
        report = self._parsed(rollout_key(self.name, "report"), Report)
        request_key = rollout_key(self.name, "request")
        decisions = self._decisions(approval)
        records = BoundRecords(
            rollout=rollout,
            plan=plan,
            report=report,
            request=self._parsed(request_key, ApprovalRequest) if self._has(request_key) else None,
            decision=self._decision(approval),
            decisions=decisions,
            acknowledgements={
                one.release: self._parsed(acknowledgement_key(self.name, one.release), Acknowledgement)
                for one in binding.acknowledgements or ()
            },
        )
        check_records(records, self.name, binding.cluster)
        if approval is not None:
            link = records.request if approval.identity == "link" else None
            if approval.identity_reason != (link.identity_reason if link is not None else None):
                raise ValueError(
                    "request.json does not say why a link was proof enough, as the statement does"
                )
        said = (binding.runtime_version, binding.submitter, binding.plan.from_digest, binding.created_at)
        if said != (rollout.runtime_version, rollout.submitter, rollout.from_plan, rollout.created_at):
            raise ValueError("rollout.json does not say what the statement says of the rollout")
        snapshot = (binding.documents or {}).get(f"rollouts/{self.name}/snapshot.yaml")
        if snapshot != binding.post_install_snapshot_digest:
            raise ValueError("the statement names two post-install snapshots, or none")
        self._same_pipeline(report)
        for one in binding.acknowledgements or ():
            if one.wire().items() - records.acknowledgements[one.release].wire().items():
                raise ValueError(f"the acknowledgement of {one.release} is not what the statement says")
        if approval is None:
            return "rollout, report and plan fit; nobody had to be asked"
        return f"rollout, report, request and plan fit; {_approved(approval)}"

    def _same_pipeline(self, report: Report) -> None:
        """A statement that qualifies says that one pipeline did it all; the records say so, too, or not."""
        if not self.binding.qualifying:
            return
        began, steps = rollout_key(self.name, "deployed"), []
        for step in report.steps:
            key = step_key(self.name, step.index)
            steps.append(self._parsed(key, StepStarted).pipeline if self._has(key) else None)
        start = self._parsed(began, Deployed) if self._has(began) else None
        problem = deployed_problem(self.binding.pipeline, start, steps)
        # Nothing was recorded under earlier versions: such a statement holds, and counts no longer.
        if problem == ANEW or (start is not None and start.development):
            raise ValueError(f"it qualifies, but {problem or 'the cluster was marked development: true'}")

    def _decision(self, approval: BoundApproval | None) -> Decision | None:
        if approval is None:
            return None
        kind = "bypass" if approval.identity == "bypass" else "decision"
        key = rollout_key(approval.inherited_from or self.name, kind)
        decision = self._parsed(key, Decision)
        if approval.digest != sha256(self._record(key)):
            raise ValueError(f"{key} is not the decision that the statement names")
        fields = ("by", "identity", "issuer", "principals", "decision", "reason", "at", "expires_at")
        for field in (*fields, "request_digest"):
            if getattr(approval, field) != getattr(decision, field):
                raise ValueError(f"the statement and {key} differ about the approval's {field}")
        return decision

    def _decisions(self, approval: BoundApproval | None) -> tuple[Decision, ...]:
        """Each person's own record, found by its digest: the names of the files are digests of people."""
        if approval is None or approval.decisions is None:
            return ()
        folder = f"{layout.LEDGER}rollouts/{approval.inherited_from or self.name}/decisions/"
        by_digest = {sha256(self.files[path]): path for path in self.files if path.startswith(folder)}
        found = []
        for one in approval.decisions:
            path = by_digest.get(one.digest)
            if path is None:
                raise ValueError(f"the record of {one.by}'s approval is missing or another")
            own = self._parsed(path.removeprefix(layout.LEDGER), Decision)
            principal = own.principals[0] if own.principals else None
            if (own.by, own.identity, own.issuer, principal, own.reason, own.at, own.expires_at) != (
                (one.by,), one.identity, one.issuer, one.principal, one.reason, one.at, one.expires_at
            ):  # fmt: skip
                raise ValueError(f"the statement and the record of {one.by}'s approval differ")
            found.append(own)
        return tuple(found)

    def _validation(self) -> str:
        """The report says what the statement says, and so does the record of validators."""
        binding = self.binding
        text = self._record(rollout_key(self.name, "validation"))
        result, problem = judge(text)
        if problem is not None and binding.outcome == "Succeeded":
            raise ValueError(problem)
        if result != binding.validation:
            raise ValueError("validation.json does not say what the statement says of the validation")
        key = rollout_key(self.name, "validators")
        ran = read_validators_record(self._record(key), read_report(text)) if self._has(key) else None
        if ran != binding.validators:
            raise ValueError("validators.json does not say what the statement says of the validators")
        return f"{result.passed} of {result.tests} checks passed; {len(ran or ())} validators are recorded"

    def _aicr(self, plan: Plan) -> tuple[AicrEvidence, str]:
        bound = self._bound_aicr()
        manifest, layer = self._file(layout.AICR_MANIFEST), self._file(layout.AICR_LAYER)
        if sha256(manifest) != bound.digest:
            raise ValueError(f"{layout.AICR_MANIFEST} is not the artifact that the statement names")
        if _layer_of(manifest) != (sha256(layer), len(layer)):
            raise ValueError(f"{layout.AICR_LAYER} is not the layer that {layout.AICR_MANIFEST} names")
        inside = unpack(layer, "AICR's evidence")
        prefix = layout.AICR_FILES
        if inside != {p.removeprefix(prefix): self.files[p] for p in self.files if p.startswith(prefix)}:
            raise ValueError(f"{prefix} is not what {layout.AICR_LAYER} holds")
        evidence = read_aicr_evidence(inside)
        said = (bound.statement_digest, bound.manifest_digest, bound.attested_at)
        if said != (evidence.statement_digest, evidence.manifest_digest, evidence.attested_at):
            raise ValueError("AICR's evidence is not what the statement says of it")
        check_same_report(evidence, self._record(rollout_key(self.name, "validation")))
        ran = [one.image for one in self.binding.validators or ()]
        check_made_by(evidence, self.binding.aicr_version, ran)
        own = self._record(f"resolves/{plan.recorded.run}/recipe.yaml")
        check_same_recipe(inside["recipe.yaml"], own, plan)
        return evidence, f"{bound.digest}, {len(inside)} files; its report and recipe are this rollout's"

    def _aicr_signature(self, evidence: AicrEvidence) -> str:
        bound = self._bound_aicr()
        if not bound.signed:
            return (
                "UNSIGNED: AICR did not sign its evidence; the registry's access control and the digest in "
                "the statement are its boundary"
            )
        der = public_der(self._file(layout.AICR_KEY))
        if self._file(layout.AICR_KEY) != pem(der):
            raise ValueError(f"{layout.AICR_KEY} is not a key as PEM")
        bundle = self._file(layout.AICR_SIGNATURE)
        mark = _signed_mark(bundle, evidence.statement, der, bound.digest)
        if mark != bound.key_fingerprint:
            raise ValueError(f"AICR's evidence is signed by {mark}, not by {bound.key_fingerprint}")
        return f"AICR signed it with the key with fingerprint {mark}"

    def _pointer(self) -> str:
        key = rollout_key(self.name, "binding")
        pointer = _json(self._record(key), key)
        hexes = sha256(self.files[layout.ENVELOPE]).removeprefix("sha256:")
        want = f"evidence/{self.binding.cluster}/{self.name}/{hexes}.intoto.json"
        if pointer.get("key") != want:
            raise ValueError(f"{key} names another statement than this one")
        if pointer.get("fingerprint") != self.signed.fingerprint:
            raise ValueError(f"{key} names another key than the one that signed")
        if pointer.get("qualifying") != self.binding.qualifying:
            raise ValueError(f"{key} and the statement differ about whether it qualifies")
        aicr = self.binding.aicr_evidence
        if pointer.get("aicrSigned") != (aicr.signed if aicr is not None else None):
            raise ValueError(f"{key} and the statement differ about AICR's signature")
        return f"this is the rollout's binding: {want}"

    def _end(self) -> None:
        """What happened after it was bound. Nothing of that is signed, only written once."""
        key = rollout_key(self.name, "outcome")
        if self._has(rollout_key(self.name, "revocation")):
            self.looks.lacking("revocation", "somebody stopped the rollout while its evidence was bound")
        if not self._has(key):
            self.looks.unseen("end", f"{key} is not in the archive: packed before the rollout ended")
            return
        outcome = self.looks.at("end", lambda: self._outcome(key))
        if outcome.outcome is not Outcome.Succeeded:
            self.looks.lacking("end", f"the rollout ended as {outcome.outcome}: {outcome.reason}")

    def _outcome(self, key: str) -> tuple[RolloutOutcome, str]:
        outcome = self._parsed(key, RolloutOutcome)
        pointer = _json(self._record(rollout_key(self.name, "binding")), "binding.json")
        if outcome.rollout != self.name:
            raise ValueError(f"{key} is of rollout {outcome.rollout}")
        if outcome.outcome is Outcome.Succeeded and outcome.evidence != pointer.get("key"):
            raise ValueError(f"{key} names other evidence")
        return outcome, f"{outcome.outcome} at {outcome.finished_at}"

    def _bound_aicr(self) -> BoundAicrEvidence:
        if self.binding.aicr_evidence is None:
            raise ValueError("the statement names no evidence of AICR's")
        return self.binding.aicr_evidence

    def _has(self, key: str) -> bool:
        return layout.LEDGER + key in self.files

    def _record(self, key: str) -> bytes:
        return self._file(layout.LEDGER + key)

    def _file(self, name: str) -> bytes:
        if name not in self.files:
            raise ValueError(f"{name} is missing")
        return self.files[name]

    def _parsed(self, key: str, model: type[DocumentT]) -> DocumentT:
        return parse(model, _json(self._record(key), key), Reason.PlanUnreadable, key)


def _signed_mark(bundle: bytes, statement: bytes, der: bytes, artifact: str) -> str:
    """Of a bundle attached to the artifact; else of one that AICR wrote before, about the recipe."""
    try:
        return verify_key_signature(bundle, statement, der, artifact)
    except PipelineError:
        return verify_key_signature(bundle, statement, der, None)


def _approved(approval: BoundApproval) -> str:
    if approval.identity == "bypass":
        return "approval was bypassed"
    return f"approved by {', '.join(approval.by)} ({approval.identity}) at {approval.at}"


def _layer_of(manifest: bytes) -> tuple[str, int]:
    try:
        return only_layer(manifest)
    except ValueError:
        raise ValueError(f"{layout.AICR_MANIFEST} is no manifest of one layer") from None


def _json(text: bytes, key: str) -> Any:
    try:
        # With a name twice, a person may read one of the two and this program the other.
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{key} is no JSON object, or has a name twice in one")
    return found
