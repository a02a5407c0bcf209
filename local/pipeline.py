"""Everything of one cluster on one machine: AWS, cluster, Argo CD, kubelet, registry and publishers."""

import json
import os
import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aicr_pipeline.decide.bundle import parse_upstream_env
from aicr_pipeline.decide.running import running_of
from aicr_pipeline.env import ASSETS
from aicr_pipeline.model.config import ClusterConfig, load_cluster_config
from aicr_pipeline.model.evidence import BoundPipeline
from aicr_pipeline.model.qualification import Running

from infra.cluster_manifests import manifests
from infra.synth import synthesize
from local.aicr import bundle as sample
from local.aicr import profile
from local.argocd import ArgoCdSettings, ArgoCdStandin, Scenario
from local.argocd.installed import controller
from local.aws import LocalAws
from local.helm import helm_binary
from local.identity import EcrTokens, Identities
from local.kube import KubeServer, argocd_crds
from local.kubelet import Kubelet, KubeletSettings
from local.kubelet.settings import default_environment
from local.nodes import add_nodes
from local.real_aicr import fitted, real_aicr
from local.registry import LocalRegistry, TokenIssuer
from local.upstream import UpstreamCharts

_SAMPLE = Path(__file__).parent / "samples" / "clusterruntime.yaml"


@dataclass(frozen=True)
class Options:
    """What one run is told.

    ``approver`` takes the place of the first configured approver; ``bundle`` is a folder that AICR
    rendered, ``charts`` a folder of real archives, ``snapshot`` a file that AICR took.
    """

    cluster_file: Path
    workdir: Path
    bundle: Path | None = None
    #: Upgrade records that go into the sample's bundle; as ``upgrades.yaml`` in a bundle.
    upgrades: Path | None = None
    charts: Path | None = None
    approver: str | None = None
    scenario: Scenario | None = None
    snapshot: Path | None = None
    #: The wish that a real AICR is tried with.
    runtime: Path = _SAMPLE
    #: Function processes that are kept for the next call, and how long: memory for time.
    kept_processes: int = 3
    idle_seconds: float = 5.0


class LocalPipeline:
    """A context manager; everything it starts is ended with it, also when this process is killed."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.config: ClusterConfig = load_cluster_config(options.cluster_file)
        self._stack = ExitStack()
        self.aws: LocalAws
        self.kube: KubeServer
        self.registry: LocalRegistry
        self.argocd: ArgoCdStandin
        self.assets: BoundPipeline

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        options, workdir = self.options, self.options.workdir
        real = real_aicr(options.runtime, workdir / "rendered")
        rendered = real.bundle if real else options.bundle
        assembly = synthesize(options.cluster_file)
        stack = f"aicr-pipeline-{self.config.cluster.name}"
        template = json.loads((assembly / f"{stack}.template.json").read_text())
        issuer = TokenIssuer()
        self.registry = self._stack.enter_context(LocalRegistry(issuer))
        upstream = self._stack.enter_context(UpstreamCharts(wanted_charts(rendered), options.charts))
        identities = Identities()
        self.kube = self._stack.enter_context(KubeServer(authenticate=identities.authenticate))
        self.config = localized(
            self.config, options.approver, self.registry.host, upstream.upstreams, self.kube.url
        )
        if real is not None:
            self.config = ClusterConfig.model_validate_json(json.dumps(fitted(self.config.wire(), real)))
        settings = workdir / "cluster"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "cluster.json").write_text(json.dumps(self.config.wire()))
        (deployed,) = assembly.glob(f"asset.*/cluster/{ASSETS}")
        shutil.copy(deployed, settings)
        self.assets = BoundPipeline.model_validate_json(deployed.read_bytes())
        self._prepare_cluster()
        self.aws = identities.aws = LocalAws(
            assembly,
            stack,
            workdir=workdir / "aws",
            opt_overrides={"/opt/cluster": settings},
            ecr_token=EcrTokens(issuer, f"http://{self.registry.host}", template),
            max_processes=options.kept_processes + 3,
            soft_processes=options.kept_processes,
            idle_seconds=options.idle_seconds,
        )
        self._stack.enter_context(self.aws)
        if options.approver is not None:
            self._stand_in(options.approver)
        self._start_controllers()

    def _prepare_cluster(self) -> None:
        """What a person does once: nodes, Argo CD, and ``make cluster-manifests | kubectl apply``."""
        argocd_crds.install(self.kube.store)
        add_nodes(self.kube.store)
        engine = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.config.engine.namespace}}
        self.kube.store.apply(engine)
        self.kube.store.apply(controller(self.config.engine.namespace), self.config.engine.namespace)
        for manifest in manifests(self.config):
            self.kube.store.apply(manifest, (manifest["metadata"] or {}).get("namespace"))

    def _start_controllers(self) -> None:
        options = self.options
        workdir = options.workdir
        self.argocd = ArgoCdStandin(
            self.kube.store,
            helm=helm_binary(),
            workdir=workdir / "argocd",
            settings=ArgoCdSettings(
                namespace=self.config.engine.namespace, scenario=options.scenario or Scenario()
            ),
        )
        environment = default_environment() | {"AICR_STANDIN_VERSION": self.config.aicr.version}
        if options.bundle is not None:
            environment["AICR_SAMPLE_BUNDLE"] = str(options.bundle.resolve())
        if options.upgrades is not None:
            environment["AICR_SAMPLE_UPGRADES"] = str(options.upgrades.resolve())
        if options.snapshot is not None:
            environment["AICR_SAMPLE_SNAPSHOT"] = str(options.snapshot.resolve())
        if self.config.validation.signing_key is not None:
            environment |= self._kms()
        kubelet = Kubelet(
            self.kube.store,
            workdir=workdir / "kubelet",
            settings=KubeletSettings(
                server=self.kube.url,
                token=self.kube.service_account_token,
                images=frozenset(pullable(self.config)),
                tags=dict(tagged(self.config)),
                environment=environment,
            ),
        )
        for part in (self.argocd, kubelet):
            part.start()
            self._stack.callback(part.stop)

    def _kms(self) -> dict[str, str]:
        """What a person does once, a key and its alias; and what Pod Identity gives the Job's pod."""
        name = str(self.config.validation.signing_key).removeprefix("awskms:///")
        kms = self.aws.client("kms")
        if name.startswith("alias/") and name not in {
            item["AliasName"] for item in kms.list_aliases()["Aliases"]
        }:
            made = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"]
            kms.create_alias(AliasName=name, TargetKeyId=made["KeyId"])
        return {
            "AWS_ENDPOINT_URL": self.aws.endpoint,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
        }

    def _stand_in(self, approver: str) -> None:
        """The named person answers in place of the first approver, on that one's topic."""
        topics = json.loads(self.aws.outputs["ApproverTopics"])
        first = next(iter(topics))
        topics = {approver if name == first else name: arn for name, arn in topics.items()}
        for spec in self.aws.functions.values():
            if "APPROVER_TOPICS" in spec.environment:
                self.aws.set_environment(spec.name, {"APPROVER_TOPICS": json.dumps(topics)})

    def submit(self, runtime: bytes) -> None:
        """Put the runtime into the inbox, as ``aws s3 cp`` does."""
        self.aws.client("s3").put_object(
            Bucket=self.aws.outputs["InboxBucket"], Key="runtimes/cluster.yaml", Body=runtime
        )

    def ledger(self, key: str) -> bytes | None:
        """A document of the ledger, None when it is not there."""
        s3 = self.aws.client("s3")
        try:
            body: bytes = s3.get_object(Bucket=self.aws.outputs["LedgerBucket"], Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return None
        return body

    def running(self) -> Running:
        """What the pipeline says of itself: the answer of ``GET /operators/running``."""
        return running_of(self.config, self.assets)

    def machine(self, name: str) -> str:
        """ARN of a state machine: ``resolve`` or ``rollout``."""
        return self.aws.outputs[f"{name.capitalize()}Machine"].rpartition(":")[0]


def localized(
    config: ClusterConfig, approver: str | None, registry: str, upstreams: dict[str, str], endpoint: str
) -> ClusterConfig:
    """The configuration with the addresses of this machine; nothing else of it changes."""
    wire: dict[str, Any] = config.wire()
    wire["registry"] |= {
        "repository": f"oci://{registry}/{config.registry.prefix}",
        "plainHttp": True,
        "upstreams": upstreams,
    }
    wire["cluster"]["endpoint"] = endpoint
    if approver is not None:
        wire["approvals"]["approvers"][0]["name"] = approver
    return ClusterConfig.model_validate_json(json.dumps(wire))


def pullable(config: ClusterConfig) -> Iterable[str]:
    """Images the stand-in kubelet can pull: the pinned one, and validators by the tag AICR names."""
    yield config.aicr.image
    for image in config.aicr.validator_images:
        yield image
        yield f"{image.partition('@')[0]}:{config.aicr.version}"


def tagged(config: ClusterConfig) -> Iterable[tuple[str, str]]:
    """What the tags of AICR's validators stand for, as the configuration pins them."""
    for image in config.aicr.validator_images:
        repository, _, digest = image.partition("@")
        yield repository, digest


def wanted_charts(bundle: Path | None) -> Iterable[tuple[str, str, str]]:
    """(repository, chart, version) of every chart that will be asked for."""
    if bundle is None:
        texts = {part.name: sample.upstream_env(part) for part in profile.COMPONENTS if part.chart}
    else:
        texts = {file.parent.name: file.read_text() for file in sorted(bundle.glob("*/upstream.env"))}
    for folder, text in texts.items():
        source = parse_upstream_env(text, folder)
        yield source.repo, source.chart, source.version


def fresh_workdir(root: Path) -> Path:
    """A folder for this process under ``root``; those of processes that are gone are removed."""
    root.mkdir(parents=True, exist_ok=True)
    for folder in root.glob("run-*"):
        pid = folder.name.removeprefix("run-")
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)
    workdir = root.resolve() / f"run-{os.getpid()}"
    shutil.rmtree(workdir, ignore_errors=True)
    workdir.mkdir()
    return workdir
