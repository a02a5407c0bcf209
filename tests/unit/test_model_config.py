"""``clusters/<name>.yaml``: every rule refuses and names the path; what is left out has a default."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import load_cluster_config, parse_cluster_config
from aicr_pipeline.model.fields import seconds
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import CONFIG, IMAGE, changed, config, refused

ROOT = Path(__file__).parents[2]


def message(path: str, *value: Any) -> str:
    with refused(Reason.InvalidConfiguration) as caught:
        parse_cluster_config(changed(CONFIG, path, *value), "configuration demo.yaml")
    return str(caught.info.value.message)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("clusters", 1, "clusters: unknown field"),
        ("cluster.nmae", "x", "cluster.nmae: unknown field"),
        ("registry.auth.secretARN", "x", "registry.auth.secretARN: unknown field"),
        ("approvals.approvers.1.mail", "x", "approvals.approvers[1].mail: unknown field"),
        ("namespaces.components.0.psa", "x", "namespaces.components[0].psa: unknown field"),
        ("cluster.name", "Demo", "cluster.name: "),
        ("cluster.name", "d" * 41, "cluster.name: "),
        ("cluster.name", "-demo", "cluster.name: "),
        ("cluster.region", "us-west", "cluster.region: "),
        ("cluster.account", 111122223333, "cluster.account: "),
        ("cluster.account", "1111", "cluster.account: "),
        ("cluster.eksName", "a/b", "cluster.eksName: "),
        ("cluster.endpoint", "http://10.0.0.1", "endpoint: plain http is for loopback only"),
        ("cluster.endpoint", "http://127.0.0.1:80@example.com", "endpoint: plain http is for loopback only"),
        ("cluster.endpoint", "http://localhost.example.com", "endpoint: plain http is for loopback only"),
        ("cluster.endpoint", "ftp://127.0.0.1", "cluster.endpoint: "),
        ("cluster.vpc", {"vpcId": "vpc-1", "subnetIds": [], "securityGroupIds": ["sg-1"]}, "vpc.subnetIds"),
        ("cluster.vpc", {"vpcId": "x", "subnetIds": ["subnet-1"], "securityGroupIds": ["sg-1"]}, "vpc.vpcId"),
        ("registry.repository", "oci://public.ecr.aws/aicr/demo", "public.ecr.aws is refused"),
        ("registry.repository", "oci://public.ecr.aws:443/aicr/demo", "public.ecr.aws is refused"),
        ("registry.repository", "oci://public.ecr.aws./aicr/demo", "public.ecr.aws is refused"),
        ("registry.repository", "https://ghcr.io/aicr", "registry.repository: "),
        ("registry.repository", "oci://ghcr.io", "registry.repository: "),
        ("registry.repository", "oci://ghcr.io/Aicr", "registry.repository: "),
        ("registry.repository", "oci://ghcr.io/aicr/../x", "registry.repository: "),
        ("registry.repository", "oci://ghcr.io/" + "a" * 200, "registry.repository: "),
        ("registry.plainHttp", True, "plainHttp: only for a registry on loopback"),
        ("registry.plainHttp", "true", "registry.plainHttp: "),
        ("registry.auth", {"provider": "static"}, "secretArn: required with provider 'static'"),
        ("registry.auth", {"secretArn": "arn:aws:secretsmanager:x"}, "secretArn: required with provider"),
        ("registry.auth", {"provider": "gcp"}, "registry.auth.provider: "),
        ("registry.auth", {"provider": "static", "secretArn": "arn:aws:s3:::b"}, "registry.auth.secretArn: "),
        ("engine", {"kind": "flux"}, "engine.kind: "),
        ("engine", {"namespace": "Argo"}, "engine.namespace: "),
        ("aicr.image", "ghcr.io/nvidia/aicr:v1.1.2", "aicr.image: "),
        ("aicr.image", IMAGE[:-1], "aicr.image: "),
        ("aicr.version", "latest", "aicr.version: "),
        ("aicr.version", "1.1", "aicr.version: "),
        ("aicr.validatorImages", ["x:y"], "aicr.validatorImages[0]: "),
        ("namespaces.components", [], "namespaces.components: "),
        ("namespaces.components", [{"name": "a"}, {"name": "a"}], "named twice: a"),
        ("namespaces.components", [{"name": "a", "podSecurity": "none"}], "components[0].podSecurity: "),
        ("namespaces.components", [{"name": "a" * 64}], "namespaces.components[0].name: "),
        ("approvals.approvers", [], "approvals.approvers: "),
        ("approvals.approvers", [{"name": "a"}, {"name": "a"}], "each name may stand once"),
        ("approvals.approvers", [{"name": "A"}], "approvals.approvers[0].name: "),
        ("approvals.approvers", [{"name": "a", "email": "not a mail"}], "approvals.approvers[0].email: "),
        ("approvals.approvers", [{"name": f"p{n}"} for n in range(21)], "approvals.approvers: "),
        ("approvals.minApprovals", 3, "minApprovals: more than there are approvers"),
        ("approvals.minApprovals", 0, "approvals.minApprovals: "),
        ("approvals.minApprovals", "2", "approvals.minApprovals: "),
        ("approvals.deadline", "9s", "deadline: between 10s and 30d"),
        ("approvals.deadline", "31d", "deadline: between 10s and 30d"),
        ("approvals.deadline", "soon", "expected a duration"),
        ("approvals.deadline", "-1h", "expected a duration"),
        ("approvals.identity", "signed-in", "alex, kim cannot be told from others"),
        (
            "approvals.oidc",
            {"issuer": "https://x.example", "clientId": "c"},
            "only with identity 'signed-in'",
        ),
        (
            "approvals.approvers",
            [{"name": "a", "email": "Both@x.example"}, {"name": "b", "email": "both@x.example"}],
            "two names would count twice",
        ),
        ("approvals.groups", ["platform"], "only with identity 'signed-in'"),
        ("approvals.identity", "nobody", "approvals.identity: "),
        ("approvals.identityReason", "", "approvals.identityReason: "),
        ("approvals.identityReason", " \n ", "approvals.identityReason: "),
        ("stabilizationWindow", "10", "stabilizationWindow: expected a duration"),
        ("stabilizationWindow", 600, "stabilizationWindow: "),
        ("sweepInterval", "1 s", "sweepInterval: expected a duration"),
        ("retention", {"mode": "none"}, "retention.mode: "),
        ("retention", {"ledgerDays": 0}, "retention.ledgerDays: "),
        ("retention", {"logDays": 31}, "retention.logDays: "),
        ("development", "yes", "development: "),
        ("validation", {"enabled": 1}, "validation.enabled: "),
    ],
)
def test_refused_with_its_path(path: str, value: Any, said: str) -> None:
    assert said in message(path, value)


@pytest.mark.parametrize("path", ["cluster", "registry", "aicr", "namespaces", "approvals", "aicr.image"])
def test_required(path: str) -> None:
    assert f"{path}: required, but missing" in message(path)


SIGNED_IN: dict[str, Any] = {
    "approvers": [{"name": "alex", "email": "alex@example.com"}, {"name": "kim", "subject": "00u1"}],
    "oidc": {"issuer": "https://login.example.com/tenant", "clientId": "pages"},
    "groups": ["platform"],
    "minApprovals": 3,
}


def test_signed_in_is_the_default_and_needs_no_reason() -> None:
    config = parse_cluster_config({**CONFIG, "approvals": SIGNED_IN}, "x")
    assert config.approvals.identity == "signed-in" and config.approvals.oidc is not None
    assert config.approvals.oidc.email_claim == "email" and not config.approvals.oidc.client_secret_arn


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"oidc": {"issuer": "http://login.example.com", "clientId": "c"}},
            "plain http is for loopback only",
        ),
        ({"oidc": {"issuer": "https://user@x.example", "clientId": "c"}}, "approvals.oidc.issuer: "),
        ({"oidc": {"issuer": "https://x.example?a=b", "clientId": "c"}}, "approvals.oidc.issuer: "),
        ({"oidc": {"issuer": "https://x.example", "clientId": ""}}, "approvals.oidc.clientId: "),
        ({"oidc": {"issuer": "https://x.example"}}, "approvals.oidc.clientId: required"),
        ({"oidc": {"issuer": "https://x.example", "clientId": "c", "clientSecret": "s"}}, "unknown field"),
        (
            {"approvers": [{"name": "a", "email": "a@x.example"}, {"name": "b", "email": "A@x.example"}]},
            "twice",
        ),
        ({"approvers": [{"name": "a", "subject": "s"}, {"name": "b", "subject": "s"}]}, "twice"),
        ({"groups": []}, "minApprovals: more than there are approvers"),
    ],
)
def test_signing_in_is_refused_where_it_proves_nothing(change: dict[str, Any], said: str) -> None:
    with refused(Reason.InvalidConfiguration, said):
        parse_cluster_config({**CONFIG, "approvals": {**SIGNED_IN, **change}}, "x")


IAM = "arn:aws:iam::111122223333:user/alex"


def test_a_member_is_not_counted_again_by_name() -> None:
    """At a terminal somebody is an approver by name; signed in, perhaps a member of a group by subject."""
    alex = {"name": "alex", "email": "alex@example.com", "iam": IAM}
    wanted = {**SIGNED_IN, "approvers": [alex]}
    with refused(Reason.InvalidConfiguration, "approvers[0].subject: with groups, minApprovals above 1"):
        parse_cluster_config({**CONFIG, "approvals": wanted}, "x")
    for fine in (
        {"approvers": [{**alex, "subject": "00u0"}]},
        {"minApprovals": 1},
        {"groups": [], "minApprovals": 2, "approvers": [alex, {"name": "kim", "subject": "00u1"}]},
    ):
        assert parse_cluster_config({**CONFIG, "approvals": {**wanted, **fine}}, "x").approvals.approvers


def test_a_plain_issuer_only_on_loopback_and_a_pool_only_where_cognito_has_some() -> None:
    local = {**SIGNED_IN, "oidc": {"issuer": "http://127.0.0.1:9400", "clientId": "c"}}
    assert parse_cluster_config({**CONFIG, "approvals": local}, "x").approvals.oidc is not None
    china = changed(CONFIG, "cluster.region", "cn-north-1")
    pool = {name: value for name, value in SIGNED_IN.items() if name != "oidc"}
    with refused(Reason.InvalidConfiguration, "approvals.oidc: required in China"):
        parse_cluster_config({**china, "approvals": pool}, "x")


def test_link_identity_needs_a_reason_or_a_development_cluster() -> None:
    bare = changed(CONFIG, "approvals.identityReason")
    with refused(Reason.InvalidConfiguration, "identityReason: required with identity 'link'"):
        parse_cluster_config(bare, "x")
    assert parse_cluster_config({**bare, "development": True}, "x").development is True


def test_values_are_never_repeated_and_many_problems_are_counted() -> None:
    secret = {f"key{n}": "hunter2" for n in range(12)}
    said = message("registry.auth", secret)
    assert "hunter2" not in said
    assert said.count("unknown field") == 10
    assert "and 2 more" in said


@pytest.mark.parametrize(
    ("endpoint", "repository"),
    [
        ("http://127.0.0.1:8080", "oci://127.0.0.1:5000/aicr/demo"),
        ("http://localhost", "oci://localhost/aicr/demo"),
        ("https://10.0.0.1", "oci://127.0.0.1/aicr"),
    ],
)
def test_plain_http_is_taken_on_loopback(endpoint: str, repository: str) -> None:
    made = config(
        **{"cluster.endpoint": endpoint, "registry.repository": repository, "registry.plainHttp": True}
    )
    assert made.registry.plain_http
    assert f"oci://{made.registry.host}/{made.registry.prefix}" == repository


def test_defaults() -> None:
    made = config()
    assert made.engine.wire() == {
        "namespace": "argocd",
        "project": "aicr",
        "repoCredsSecret": "aicr-registry",
        "helmRepoCreds": False,
        "helmRepoCredsSecret": "aicr-registry-helm",
        "kind": "self-managed",
        "destination": "https://kubernetes.default.svc",
        "graces": {"degraded": "15m", "errors": "10m", "suspended": "10m"},
        "notifications": False,
    }
    assert (made.stabilization_window, made.approvals.deadline, made.approvals.min_approvals) == (
        "10m",
        "24h",
        1,
    )
    assert made.approvals.always
    assert made.registry.auth.provider == "aws"
    assert not made.validation.enabled
    assert made.cluster.known_as == "demo"
    assert config(**{"cluster.eksName": "prod_1"}).cluster.known_as == "prod_1"


@pytest.mark.parametrize(
    ("text", "found"), [("200ms", 0.2), ("90s", 90), ("10m", 600), ("6h", 21600), ("2d", 172800), ("0s", 0)]
)
def test_durations(text: str, found: float) -> None:
    assert seconds(text) == pytest.approx(found)


@pytest.mark.parametrize("text", ["", "10", "m", "1w", "1.5h", "1h30m", "10M", " 10m", "+1s"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(text)


def test_yaml_and_json_files_read_the_same(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(yaml.safe_dump(CONFIG))
    (tmp_path / "cluster.json").write_text(json.dumps(config().wire()))
    assert load_cluster_config(tmp_path / "demo.yaml") == load_cluster_config(tmp_path / "cluster.json")
    (tmp_path / "bad.yaml").write_text("cluster: {name: a, name: b}")
    with pytest.raises(PipelineError, match=r"bad\.yaml.*stands twice"):
        load_cluster_config(tmp_path / "bad.yaml")


@pytest.mark.parametrize("file", sorted((ROOT / "clusters").glob("*.yaml")), ids=lambda file: file.name)
def test_the_projects_own_clusters_are_valid(file: Path) -> None:
    assert load_cluster_config(file).cluster.name == file.stem


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_another_type_is_refused(document: Any) -> None:
    with refused(Reason.InvalidConfiguration, "is not a mapping"):
        parse_cluster_config(document, "x")


def test_one_slack_user_has_one_link() -> None:
    slack = {"botTokenSecretArn": "arn:aws:secretsmanager:us-west-2:111122223333:secret:slack-AbCdEf"}
    people = [{"name": name, "slack": "U012ABC"} for name in ("alex", "kim")]
    approvals = {**CONFIG["approvals"], "slack": slack, "approvers": people}
    with refused(Reason.InvalidConfiguration, "two names would count twice"):
        parse_cluster_config({**CONFIG, "approvals": approvals}, "x")
