"""Argo CD's registry token: written, tried with the Secret's own content, and healed when it is wrong."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS, Keeper
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import Json
from aicr_pipeline.clock import after
from aicr_pipeline.decide.credentials import (
    EXPIRES_AT,
    REFUSED,
    SECONDS_LEFT,
    SECRET_TYPE,
    TROUBLES,
    encoded,
    probe_of,
)
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.reasons import Reason

from local.kube import SECRETS
from local.registry import LocalRegistry, Scope, TokenIssuer
from tests.functional.actions.credentials import HELM, OCI, PULL, Kept
from tests.functional.actions.support import BEGAN, Place
from tests.functional.registry.fake import Fake, Reply, faking
from tests.unit.samples import refused, sha


@pytest.fixture
def fake() -> Iterator[Fake]:
    with faking() as started:
        yield started


# What is written


def test_both_forms_are_written_in_one_go_and_nothing_else(kept: Kept) -> None:
    other = {"metadata": {"name": "argocd-secret"}, "data": {"admin.password": "eA=="}}
    kept.place.store.create(SECRETS, other, namespace="argocd")
    before = kept.secret("argocd-secret")
    found = kept.keeper.refresh()
    host = kept.config.registry.host
    token = {name: kept.data()[name] for name in ("username", "password")}
    plain = {"insecureOCIForceHttp": "true"}
    assert kept.data() == {"type": "oci", "url": f"oci://{host}/aicr/demo", **token, **plain}
    assert kept.data(HELM) == {
        "type": "helm", "enableOCI": "true", "url": f"{host}/aicr/demo", **token, **plain,
    }  # fmt: skip
    for name in (OCI, HELM):
        metadata = kept.secret(name)["metadata"]
        assert metadata["labels"][SECRET_TYPE] == "repo-creds"
        assert metadata["annotations"] == {EXPIRES_AT: after(BEGAN, 12 * 3600)}
        assert kept.works(name)
    assert found == {"written": True, "expiresAt": after(BEGAN, 12 * 3600)}
    assert kept.secret("argocd-secret") == before
    assert len(kept.place.store.list(SECRETS, namespace="argocd")) == 3
    assert kept.ecr.calls == 1
    assert kept.measured == [(SECONDS_LEFT, 12 * 3600)]
    assert token["password"] not in str([kept.known, kept.trouble, found])


def test_without_the_helm_form_there_is_one_secret(place: Place, issuer: TokenIssuer) -> None:
    with LocalRegistry(issuer) as registry:
        kept = Kept(place, registry.host, issuer, **{"engine.helmRepoCreds": False})
        kept.keeper.refresh()
        assert [found["metadata"]["name"] for found in place.store.list(SECRETS, namespace="argocd")] == [OCI]
        assert kept.works()


def test_a_run_that_died_half_way_ends_the_same_when_run_again(kept: Kept) -> None:
    real, kept.argocd = kept.argocd, kept.argocd

    class Dying(ArgoCd):
        def write_repo_creds(self, name: str, patch: Any) -> Json:
            if name == HELM:
                raise TransientError(Reason.ClusterUnreachable, "gone in between")
            return real.write_repo_creds(name, patch)

    dying = Dying(kept.place.cluster, kept.config.engine)
    half = Keeper(**{**kept.keeper.__dict__, "argocd": dying})
    with refused(Reason.ClusterUnreachable):
        half.refresh()
    assert kept.works(OCI)
    assert not kept.works(HELM)
    assert kept.known is None, "a token counts once all Secrets hold it"
    kept.place.later(60)
    kept.keeper.refresh()
    kept.keeper.refresh()
    assert kept.data(OCI)["password"] == kept.data(HELM)["password"]
    assert kept.works(HELM)
    assert kept.known is not None
    assert kept.known["expiresAt"] == after(BEGAN, 12 * 3600 + 60)


@pytest.mark.parametrize(
    "changes",
    [
        {"engine.kind": "eks-capability"},
        {"registry.auth": {"provider": "static", "secretArn": "arn:aws:secretsmanager:x"}},
    ],
)
def test_credentials_that_somebody_else_keeps_are_left_alone(
    place: Place, fake: Fake, issuer: TokenIssuer, changes: dict[str, Any]
) -> None:
    theirs = {"metadata": {"name": OCI}, "data": {"password": "eA=="}}
    place.store.create(SECRETS, theirs, namespace="argocd")
    before = place.store.get(SECRETS, OCI, "argocd")
    kept = Kept(place, fake.host, issuer, **changes)
    assert kept.keeper.refresh() == kept.keeper.check(None) == {"written": False}
    assert place.store.list(SECRETS, namespace="argocd") == [before]
    assert (kept.ecr.calls, fake.seen, kept.known, kept.measured) == (0, [], None, [])


def test_a_secret_that_the_manifests_did_not_make(kept: Kept) -> None:
    kept.place.store.delete(SECRETS, HELM, namespace="argocd")
    with refused(Reason.RegistryCredentialsUnavailable, HELM, "apply the cluster manifests"):
        kept.keeper.refresh()
    assert kept.known is None


# What goes wrong: reasons, and what is known to be good stays


@pytest.mark.parametrize(
    ("code", "transient"),
    [("ThrottlingException", True), ("ServerException", False), ("AccessDeniedException", False)],
)
def test_no_token_to_be_had(kept: Kept, code: str, *, transient: bool) -> None:
    kept.keeper.refresh()
    good, password = kept.known, kept.data()["password"]
    kept.place.later(3600)
    kept.ecr.errors = [code]
    with refused(Reason.RegistryCredentialsUnavailable, code) as caught:
        kept.keeper.refresh()
    assert caught.info.value.retry is transient
    assert (kept.known, kept.data()["password"]) == (good, password)
    assert kept.trouble is not None
    assert kept.trouble["reason"] == "RegistryCredentialsUnavailable"
    assert kept.measured[1:] == [(TROUBLES, 1), (SECONDS_LEFT, 11 * 3600)], "life is measured all the same"


def test_a_token_for_another_registry_is_never_written(kept: Kept) -> None:
    kept.keeper.refresh()
    good, data = kept.known, kept.data()
    kept.ecr.endpoint = "https://999988887777.dkr.ecr.eu-west-1.amazonaws.com"
    with refused(Reason.RegistryCredentialsUnavailable, "999988887777", kept.config.registry.host):
        kept.keeper.refresh()
    assert (kept.known, kept.data()) == (good, data)


def test_rights_that_were_lost_are_seen_by_what_the_secret_holds(kept: Kept) -> None:
    kept.keeper.refresh()
    good = kept.known
    kept.ecr.scopes = (Scope("aicr/other", PULL),)
    with refused(Reason.Unauthorized, f"Argo CD's Secret {OCI}", "403", "not authorized") as caught:
        kept.keeper.refresh()
    assert not caught.info.value.retry
    assert kept.known == good
    assert kept.trouble is not None
    assert kept.trouble["reason"] == "Unauthorized"
    assert (kept.count(REFUSED), kept.count(TROUBLES)) == (1, 1)


def test_what_is_tried_is_what_kubernetes_returned(kept: Kept) -> None:
    """Something between us and the store changes the password: the token in hand would work."""

    class Changing(ArgoCd):
        def write_repo_creds(self, name: str, patch: Any) -> Json:
            secret = super().write_repo_creds(name, patch)
            return {**secret, "data": {**secret["data"], **encoded({"password": "another"})}}

    changing = Changing(kept.place.cluster, kept.config.engine)
    with refused(Reason.Unauthorized, "401"):
        Keeper(**{**kept.keeper.__dict__, "argocd": changing}).refresh()
    assert kept.known is None


NOT_FOUND = b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"Requested image not found"}]}'
NO_NAME = b'{"errors":[{"code":"NAME_UNKNOWN","message":"The repository does not exist"}]}'
EXPIRED = b'{"errors":[{"code":"DENIED","message":"Your authorization token has expired."}]}'
DENIED = b'{"errors":[{"code":"DENIED","message":"User is not authorized to perform: ecr:BatchGetImage"}]}'


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(404, NOT_FOUND), None),
        (Reply(404, NO_NAME), None),
        (Reply(200, b'{"schemaVersion":2}'), None),
        (Reply(401), Reason.Unauthorized),
        (Reply(403, DENIED), Reason.Unauthorized),
        (Reply(403, EXPIRED), Reason.RegistryCredentialsStale),
        (Reply(503), Reason.RegistryUnreachable),
        (Reply(405), Reason.ChartSourceUnsupported),
    ],
    ids=lambda value: str(value) if isinstance(value, Reason) else None,
)
def test_what_the_registrys_answer_means(
    place: Place, fake: Fake, issuer: TokenIssuer, reply: Reply, reason: Reason | None
) -> None:
    fake.on("GET .*", reply)
    kept = Kept(place, fake.host, issuer, **{"engine.helmRepoCreds": False})
    if reason is None:
        assert kept.keeper.refresh()["written"]
    else:
        with refused(reason) as caught:
            kept.keeper.refresh()
        assert caught.info.value.retry is (reason is Reason.RegistryUnreachable)
        assert kept.count(REFUSED) == (0 if reason is Reason.RegistryUnreachable else 1)
    assert set(fake.lines()) == {"GET /v2/aicr/demo/charts/canary/manifests/canary"}


def test_the_chart_that_comes_next_is_asked_for_and_remembered(
    place: Place, fake: Fake, issuer: TokenIssuer
) -> None:
    kept = Kept(place, fake.host, issuer, **{"engine.helmRepoCreds": False})
    digest = sha("chart")
    kept.keeper.check(f"charts/gpu-operator@{digest}")
    kept.keeper.check(None)
    kept.keeper.refresh()
    assert fake.lines() == [f"GET /v2/aicr/demo/charts/gpu-operator/manifests/{digest}"] * 3
    (password,) = {one.headers["Authorization"] for one in fake.seen[2:]}
    pair = f"AWS:{kept.data()['password']}".encode()
    assert password == f"Basic {base64.b64encode(pair).decode()}"


@pytest.mark.parametrize(
    "detail",
    [
        {},
        {"repository": "bundles/demo", "digest": sha("x")},
        {"repository": "charts/../../other", "digest": sha("x")},
        {"repository": "charts/a", "digest": "latest"},
    ],
)
def test_an_event_names_our_charts_by_digest_or_nothing(detail: dict[str, Any]) -> None:
    assert probe_of({"detail": detail}) is None


# A look at what the Secrets hold now


def test_a_look_at_what_works_writes_nothing(kept: Kept) -> None:
    kept.keeper.refresh()
    before = kept.secret()
    kept.place.later(3600)
    assert kept.keeper.check(None) == {"written": False, "expiresAt": after(BEGAN, 12 * 3600)}
    assert kept.secret() == before
    assert kept.ecr.calls == 1
    assert kept.known is not None
    assert kept.known["checkedAt"] == after(BEGAN, 3600)
    assert kept.measured[-1] == (SECONDS_LEFT, 11 * 3600)


@pytest.mark.parametrize(("hours", "written"), [(5.9, False), (6.1, True), (11, True), (13, True)])
def test_a_look_renews_what_is_half_gone(kept: Kept, hours: float, *, written: bool) -> None:
    """So a refresh that failed at six hours is made good by the next look."""
    kept.keeper.refresh()
    kept.place.later(hours * 3600)
    assert kept.keeper.check(None)["written"] is written
    assert kept.works(OCI)
    assert kept.works(HELM)


def test_what_works_counts_although_no_newer_token_is_to_be_had(kept: Kept) -> None:
    kept.keeper.refresh()
    kept.place.later(7 * 3600)
    kept.ecr.errors = ["AccessDeniedException"]
    with refused(Reason.RegistryCredentialsUnavailable):
        kept.keeper.check(None)
    assert kept.known is not None
    assert (kept.known["expiresAt"], kept.known["checkedAt"]) == (
        after(BEGAN, 12 * 3600),
        after(BEGAN, 7 * 3600),
    )
    assert kept.trouble is not None
    assert kept.trouble["proven"] is True
    assert (kept.count(REFUSED), kept.measured[-1]) == (0, (SECONDS_LEFT, 5 * 3600))


@pytest.mark.parametrize("name", [OCI, HELM])
@pytest.mark.parametrize(
    ("change", "because", "refusals"),
    [
        ({"password": "wrong"}, "Unauthorized", 1),
        ({"password": ""}, "RegistryCredentialsUnavailable", 0),
        ({"url": "oci://elsewhere.example/aicr"}, "RegistryCredentialsUnavailable", 0),
        ({"type": "git"}, "RegistryCredentialsUnavailable", 0),
        ({"project": "theirs"}, "RegistryCredentialsUnavailable", 0),
    ],
    ids=["wrong password", "no password", "another registry", "another type", "somebody was there"],
)
def test_what_somebody_changed_is_noticed_and_written_again(
    kept: Kept, name: str, change: dict[str, str], because: str, refusals: int
) -> None:
    kept.keeper.refresh()
    kept.place.later(60)
    kept.overwrite(name, **change)
    assert kept.keeper.check(None) == {
        "written": True, "expiresAt": after(BEGAN, 12 * 3600 + 60), "because": because,
    }  # fmt: skip
    assert kept.works(OCI)
    assert kept.works(HELM)
    assert kept.count(REFUSED) == refusals
    assert kept.keeper.check(None)["written"] is False


def test_another_accounts_token_that_works_is_replaced_by_ours(kept: Kept) -> None:
    kept.keeper.refresh()
    _, password, _ = kept.issuer.issue(None)
    kept.overwrite(password=password)
    assert kept.keeper.check(None)["written"] is True
    assert kept.data()["password"] != password, "with more rights than ours, too"


def test_a_label_that_was_taken_off_comes_back(kept: Kept) -> None:
    kept.keeper.refresh()
    patch = {"metadata": {"labels": {SECRET_TYPE: None}}}
    kept.place.store.merge(SECRETS, OCI, patch, "argocd")
    kept.keeper.check(None)
    assert kept.secret()["metadata"]["labels"][SECRET_TYPE] == "repo-creds"


def test_an_old_secret_that_was_restored_is_stale(kept: Kept) -> None:
    kept.keeper.refresh()
    old = kept.secret()
    kept.place.later(11 * 3600)
    kept.keeper.refresh()
    kept.place.later(2 * 3600)
    restored = {"data": old["data"], "metadata": {"annotations": old["metadata"]["annotations"]}}
    kept.place.store.merge(SECRETS, OCI, restored, "argocd")
    assert kept.keeper.check(None)["because"] == "RegistryCredentialsStale"
    assert kept.works()


def test_the_table_may_be_lost(kept: Kept) -> None:
    kept.keeper.refresh()
    kept.place.dynamodb.delete_item(
        TableName="coordination", Key={"pk": {"S": "FACT"}, "sk": {"S": CREDENTIALS}}
    )
    kept.keeper.check(None)
    assert kept.known is not None
