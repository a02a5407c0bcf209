"""A rollout that has passed everything, ready to be bound: its records, its registry, its key, in memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import yaml
from aicr_pipeline.actions.bind_evidence import Binder, bind_evidence
from aicr_pipeline.adapters.aicr_artifact import RegistryArtifacts
from aicr_pipeline.adapters.approvals import approval_record_key
from aicr_pipeline.adapters.http import Counters, Transport
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.order import place_key
from aicr_pipeline.adapters.registry import Repository, parse_reference
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.adapters.signer import Signer
from aicr_pipeline.clock import after, rfc3339
from aicr_pipeline.decide.aicr_signature import BUNDLE_TYPE
from aicr_pipeline.decide.assess import assess, request_digest
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.deployed import deployed_digest
from aicr_pipeline.decide.dsse import envelope, pae
from aicr_pipeline.model.evidence import PAYLOAD_TYPE, BoundPipeline
from aicr_pipeline.model.plan import Plan, PlannedRelease, plan_key
from aicr_pipeline.model.rollout import Report, Rollout, Validated, rollout_key, step_key, validated_key
from aicr_pipeline.model.step import StepEvent
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from local.aicr import artifact, evidence
from local.aicr.artifact import Files
from local.aicr.signing import about
from local.registry import LocalRegistry
from tests.evidence_stores import Kms, MemoryS3, der_of
from tests.keys import rsa_key
from tests.unit.samples import ASSETS, VALIDATOR, config, plan, release, sha

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEADLINE = after(BEGAN, 6 * 3600)
ROLLOUT = "demo-12345678-1"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CHECKS = ("operator-health", "expected-resources")
RECIPE: dict[str, Any] = {
    "apiVersion": "aicr.run/v1",
    "kind": "RecipeResult",
    "metadata": {"version": "v1.1.2", "appliedOverlays": ["h100-eks-ubuntu-training-kubeflow"]},
    "criteria": {"service": "eks", "accelerator": "h100", "os": "ubuntu"},
    "componentRefs": [],
}
RUNTIME_CHART: Files = {
    "kubeflow-trainer-post/Chart.yaml": (b"name: kubeflow-trainer-post\nversion: 0.1.0\n", 0o644),
    "kubeflow-trainer-post/templates/runtime.yaml": (
        yaml.safe_dump(
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "ClusterTrainingRuntime",
                "spec": {"template": {"containers": [{"image": "pytorch/pytorch@" + sha("torch")}]}},
            }
        ).encode(),
        0o644,
    ),
}


@cache
def _aicr_key(kind: str) -> Any:
    if kind == "RSA":
        return rsa_key()
    return ec.derive_private_key(0xA1C4, ec.SECP256R1())


@dataclass(frozen=True)
class Wish:
    """What the rollout is like."""

    releases: int = 3
    approvers: tuple[str, ...] = ("alex",)
    validation: str = "Required"
    bypass: bool = False
    local_engine: bool = False
    #: Of the key that AICR signs its evidence with: ``EC`` or ``RSA``; empty, and it is unsigned.
    aicr_key: str = ""
    #: Whether the charts are in the registry, which only looking there needs.
    charts: bool = False
    #: Whether the recipe is as large as AICR's: about 6 KB for each release.
    large_recipe: bool = False
    #: What is deployed, from the start to the end.
    pipeline: BoundPipeline = ASSETS


class EvidenceWorld:
    """Everything that "Bind evidence" reads, and a key to sign with."""

    def __init__(self, server: LocalRegistry, prefix: str, wish: Wish | None = None) -> None:
        self.wish, self.prefix = wish or Wish(), prefix
        user, password, _ = server.issuer.issue()
        self.registry = Destination(
            server.host, prefix, Transport(frozenset({server.host})), FixedCredentials(user, password)
        )
        self.s3, self.kms = MemoryS3(BEGAN), Kms()
        self.ledger = Ledger(self.s3, "ledger")
        self.config = config(
            **{"registry.repository": f"oci://{server.host}/{prefix}", "registry.plainHttp": True}
        )
        if self.wish.bypass:
            self.config = config(development=True, **{"approvals.bypass": True})
        self.aicr_key = _aicr_key(self.wish.aicr_key) if self.wish.aicr_key else None
        if self.aicr_key is not None:
            signing = {"validation.enabled": True, "validation.signingKey": "awskms:///alias/aicr"}
            self.config = config(**signing, **{"aicr.validatorImages": [f"{VALIDATOR}@{sha('validator')}"]})
        self.now = BEGAN
        #: Of the execution's input, where it is not what it should be.
        self.state: dict[str, Any] = {}
        self.plan = self._plan()
        self._records()
        if self.wish.validation == "Required":
            self._validated()

    # Binding

    def binder(self, **changes: Any) -> Binder:
        made: dict[str, Any] = {
            "config": self.config,
            "ledger": self.ledger,
            "registry": self.registry,
            "signer": Signer(self.kms, "alias/evidence"),
            "pipeline": self.wish.pipeline,
            "public_key_of": lambda uri: der_of(self.aicr_key),
            "clock": lambda: self.now,
            "local_engine": self.wish.local_engine,
        }
        return Binder(**(made | changes))

    def step(self) -> StepEvent:
        state: dict[str, Any] = {
            "rollout": ROLLOUT,
            "cluster": "demo",
            "deadline": DEADLINE,
            "toPlan": self.plan.desired_state_digest,
            "validation": {"repository": f"{ROLLOUT}-1"},
        }
        return StepEvent.model_validate(
            {
                "state": "Bind evidence",
                "execution": ROLLOUT,
                "machineVersion": "abcdef012345",
                "enteredAt": rfc3339(BEGAN),
                "retries": 0,
                "input": state | self.state,
                "token": None,
            }
        )

    def bind(self, **changes: Any) -> dict[str, Any]:
        return bind_evidence(self.step(), self.binder(**changes))

    def finish(self, bound: Mapping[str, Any]) -> None:
        """The outcome, as "Record outcome" writes it."""
        self.put(
            rollout_key(ROLLOUT, "outcome"),
            {
                "rollout": ROLLOUT,
                "outcome": "Succeeded",
                "reason": "RolledOut",
                "message": "all ready",
                "finishedAt": rfc3339(self.now),
                "evidence": bound["key"],
            },
        )

    # What stands in the stores

    def put(self, key: str, value: Any) -> None:
        self.ledger.put_once(key, json.dumps(value, sort_keys=True).encode())

    def change(self, key: str, /, **fields: Any) -> None:
        """Somebody put other content there, by means that the pipeline does not have."""
        self.s3.objects[key] = json.dumps(json.loads(self.s3.objects[key]) | fields, sort_keys=True).encode()

    def push(self, files: Files, folder: str, tag: str) -> str:
        """Push an artifact as AICR does; returns its digest."""
        made = artifact.pack(files, "AICR Recipe Evidence")
        repository = self.registry.repository(*folder.split("/"), Counters())
        for blob in (b"{}", made.layer):
            repository.push_blob(sha256(blob), len(blob), blob)
        return repository.push_manifest(made.manifest, MANIFEST, tag)

    @property
    def recipe(self) -> dict[str, Any]:
        if not self.wish.large_recipe:
            return RECIPE
        health = {f"check-{n}": {"kind": "Deployment", "ready": True, "text": "x" * 40} for n in range(60)}
        return {
            **RECIPE,
            "componentRefs": [
                {"name": f"component-{n}", "health": {key: dict(value) for key, value in health.items()}}
                for n in range(self.wish.releases)
            ],
        }

    def aicr_files(self, recipe: Mapping[str, Any] | None = None, report: bytes | None = None) -> Files:
        document = json.loads(report or self.report())
        snapshot = yaml.safe_load(self.snapshot())
        built = evidence.build(dict(recipe or self.recipe), snapshot, document, "2026-01-01T11:50:00Z")
        return {name: (content, 0o600) for name, content in built.files.items()}

    def report(self, checks: tuple[str, ...] = CHECKS) -> bytes:
        tests = [{"name": name, "status": "passed", "duration": 1, "message": "ok"} for name in checks]
        summary = {
            "tests": len(tests), "passed": len(tests), "failed": 0, "skipped": 0, "pending": 0, "other": 0,
            "start": 1, "stop": 2,
        }  # fmt: skip
        tool = {"name": "aicr", "version": "v1.1.2"}
        results = {"tool": tool, "summary": summary, "tests": tests}
        return json.dumps({"reportFormat": "CTRF", "specVersion": "0.0.1", "results": results}).encode()

    def snapshot(self) -> bytes:
        labels = [("pool", "gpu"), ("node.kubernetes.io/instance-type", "p5.48xlarge")]
        labels.append(("nvidia.com/cuda.driver-version.full", "580.173.02"))
        labels.append(("eks.amazonaws.com/nodegroup-image", "ami-0123456789abcdef0"))
        data = {"node-count": 1, "node-list": "gpu-1", "truncated": False}
        items = [{"context": {"key": key, "value": value}, "data": dict(data)} for key, value in labels]
        node = {"source-node": "gpu-1", "kernel-version": "6.17.0", "os-image": "Ubuntu 24.04.3 LTS"}
        return yaml.safe_dump(
            {
                "apiVersion": "aicr.run/v1",
                "kind": "Snapshot",
                "metadata": {"version": "v1.1.2"},
                "fingerprint": {
                    "service": {"value": "eks"},
                    "accelerator": {"value": "h100"},
                    "os": {"value": "ubuntu"},
                    "k8sVersion": {"value": "1.34.2"},
                    "nodeCount": {"value": 1},
                },
                "measurements": [
                    {"type": "NodeTopology", "subtypes": [{"subtype": "label", "items": items}]},
                    {"type": "K8s", "subtypes": [{"subtype": "node", "data": node}]},
                ],
            }
        ).encode()

    def _plan(self) -> Plan:
        digest = self.push(RUNTIME_CHART, "wrappers/kubeflow-trainer-post", "0.1.0")
        trainer = release(
            "kubeflow-trainer-post",
            "0.1.0",
            kind="wrapper",
            component="kubeflow-trainer",
            namespace="kubeflow",
        )
        trainer = trainer.model_copy(
            update={"chart": trainer.chart.model_copy(update={"manifest_digest": digest})}
        )
        more = [release(f"component-{number}") for number in range(self.wish.releases - 3)]
        charts = [release("aws-efa", "0.5.29"), release("gpu-operator"), *more]
        if self.wish.charts:
            charts = [self._mirrored(chart) for chart in charts]
        made = plan(
            *charts,
            trainer,
            **{
                "validation": self.wish.validation,
                "validatorImages": [f"{VALIDATOR}@{sha('validator')}"],
                "placement.accelerated": {"nodeSelector": {"pool": "gpu"}},
            },
        )
        recipe = yaml.safe_dump(self.recipe).encode()
        recorded = made.recorded.model_copy(
            update={"recipe_digest": sha256(recipe), "runtime_digest": sha("runtime")}
        )
        self.ledger.put_once(f"resolves/{made.recorded.run}/recipe.yaml", recipe)
        return made.model_copy(update={"recorded": recorded})

    def _mirrored(self, chart: PlannedRelease) -> PlannedRelease:
        files: Files = {f"{chart.name}/Chart.yaml": (f"name: {chart.name}\n".encode(), 0o644)}
        digest = self.push(files, chart.repository, chart.chart.version)
        return chart.model_copy(update={"chart": chart.chart.model_copy(update={"manifest_digest": digest})})

    def _records(self) -> None:
        self.put(plan_key(self.plan.desired_state_digest), self.plan.wire())
        rollout = Rollout(
            name=ROLLOUT, cluster="demo", to_plan=self.plan.desired_state_digest, number=1,
            created_at=rfc3339(BEGAN), deadline=DEADLINE, runtime_version="v1",
            submitter="arn:aws:iam::111122223333:user/lee",
        )  # fmt: skip
        self.put(place_key(1), {"rollout": ROLLOUT})
        self.put(rollout_key(ROLLOUT, "rollout"), rollout.wire())
        report = assess(None, self.plan, always_ask=True, from_is_whole=True)
        self.put(rollout_key(ROLLOUT, "report"), report.wire())
        self._approved(request_digest(report, DEADLINE))
        self._ran(report)
        self.ledger.put_once(f"rollouts/{ROLLOUT}/snapshot.yaml", self.snapshot())

    def _ran(self, report: Report) -> None:
        ran = {"rollout": ROLLOUT, "pipeline": deployed_digest(self.wish.pipeline), "at": rfc3339(BEGAN)}
        self.put(rollout_key(ROLLOUT, "deployed"), ran | {"development": self.wish.bypass})
        for one in report.steps:
            self.put(step_key(ROLLOUT, one.index), ran | {"index": one.index, "release": one.release})

    def _approved(self, digest: str) -> None:
        identity = "bypass" if self.wish.bypass else "signed-in"
        by = ("nobody",) if self.wish.bypass else self.wish.approvers
        self.put(
            rollout_key(ROLLOUT, "request"),
            {
                "rollout": ROLLOUT, "shortName": "demo-1", "digest": digest, "deadline": DEADLINE,
                "asked": list(by), "askedAt": rfc3339(BEGAN), "minApprovals": len(by), "identity": identity,
            },
        )  # fmt: skip
        whole = {
            "rollout": ROLLOUT, "decision": "Approved", "requestDigest": digest, "by": list(by),
            "identity": identity, "issuer": "https://issuer.example.com", "reason": "Looks right",
            "at": rfc3339(BEGAN), "expiresAt": DEADLINE,
        }  # fmt: skip
        if not self.wish.bypass:
            whole["principals"] = [f"sub-{name}" for name in by]
        self.put(rollout_key(ROLLOUT, "bypass" if self.wish.bypass else "decision"), whole)
        if len(by) > 1:
            for number, name in enumerate(by):
                own = {"by": [name], "principals": [f"sub-{name}"], "at": after(BEGAN, number)}
                self.put(approval_record_key(ROLLOUT, name), whole | own)

    def _validated(self) -> None:
        self.ledger.put_once(f"rollouts/{ROLLOUT}/validation.json", self.report())
        seen = [
            {
                "check": name,
                "image": f"{VALIDATOR}:v1.1.2",
                "digest": sha("validator"),
                "pod": f"{name}-x",
                "run": "r",
            }
            for name in CHECKS
        ]
        self.put(f"rollouts/{ROLLOUT}/validators.json", seen)
        files, repository = self.aicr_files(), f"evidence/{ROLLOUT}-1"
        self.evidence_digest = self.push(files, repository, "recipe-0123456789ab")
        if self.aicr_key is not None:
            self.attach(self.signature(files["statement.intoto.json"][0], self.aicr_key), repository)

    def attempt(
        self, signing_key: str | None = None, public_key: bytes | None = None, report: bytes | None = None
    ) -> None:
        """What the sweeper writes down of the attempt."""
        kept = Validated(
            rollout=ROLLOUT,
            repository=f"{ROLLOUT}-1",
            report=sha256(report or self.report()),
            signing_key=signing_key,
            public_key=base64.b64encode(public_key).decode() if public_key else None,
        )
        self.put(validated_key(ROLLOUT, f"{ROLLOUT}-1"), kept.wire())

    def signature(self, statement: bytes, key: Any) -> bytes:
        """A Sigstore bundle about the pushed evidence, as AICR writes it with a key."""
        payload = about(statement, self.evidence_digest)
        signed = pae(PAYLOAD_TYPE, payload)
        if isinstance(key, rsa.RSAPrivateKey):
            signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        else:
            signature = key.sign(signed, ec.ECDSA(hashes.SHA256()))
        sealed = json.loads(envelope(PAYLOAD_TYPE, payload, "", signature))
        material = {"publicKey": {"hint": "x"}, "tlogEntries": []}
        bundle = {"mediaType": BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": sealed}
        return json.dumps(bundle).encode()

    def attach(self, bundle: bytes, repository: str) -> None:
        """As an OCI referrer of the evidence."""
        there = self.registry.repository(*repository.split("/"), Counters())
        for blob in (b"{}", bundle):
            there.push_blob(sha256(blob), len(blob), blob)
        empty = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": sha256(b"{}"), "size": 2}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": BUNDLE_TYPE,
            "config": empty,
            "layers": [{"mediaType": BUNDLE_TYPE, "digest": sha256(bundle), "size": len(bundle)}],
            "subject": {"mediaType": MANIFEST, "digest": self.evidence_digest, "size": 1},
        }
        text = json.dumps(manifest).encode()
        there.push_manifest(text, MANIFEST, sha256(text))


def repository_of(world: EvidenceWorld) -> Callable[[str], Repository]:
    """Opens a repository of the world's registry by its whole address."""
    registry = world.registry
    return lambda address: Repository(registry.transport, parse_reference(address), registry.credentials)


def artifacts_of(world: EvidenceWorld) -> RegistryArtifacts:
    """AICR's evidence in the world's registry."""
    return RegistryArtifacts(repository_of(world))
