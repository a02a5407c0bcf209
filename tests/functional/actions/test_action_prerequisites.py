"""State "Check prerequisites" against the embedded cluster: what is missing, too old, or cannot be known."""

from typing import Any

import pytest
from aicr_pipeline.actions.check_prerequisites import check_prerequisites
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.decide.versions import argocd_version
from aicr_pipeline.model.reasons import Reason

from local.argocd.installed import controller
from local.kube import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, STATEFUL_SETS
from tests.functional.actions.support import Place, step
from tests.unit.samples import config, refused

DIGEST = "@sha256:" + "1" * 64


class Tokens:
    """A registry that gives tokens."""

    def get(self) -> tuple[str, str]:
        return "AWS", "token"

    def renew(self, refused: tuple[str, str] | None = None) -> None:
        """Nothing to do."""


@pytest.fixture
def ready(place: Place) -> Place:
    for name in ("gpu-operator", "monitoring"):
        place.store.create(NAMESPACES, {"metadata": {"name": name}})
    return place


def check(place: Place, *, engine: str = "self-managed", **spec: Any) -> dict[str, Any]:
    spec.setdefault("validation", {"deployment": "Disabled"})
    found = config(**{"engine": {"kind": engine}})
    argocd = ArgoCd(place.cluster, found.engine)
    where = step("Check prerequisites", input={"run": "r", "runtimeVersion": place.submit(**spec)})
    return check_prerequisites(where, found, place.inbox, place.cluster, argocd, Tokens())


def install(place: Place, image: str, **labels: str) -> None:
    made = controller("argocd", image)
    made["metadata"]["labels"] |= labels
    place.store.create(STATEFUL_SETS, made, namespace="argocd")


def test_all_is_there(ready: Place) -> None:
    install(ready, "quay.io/argoproj/argocd:v3.4.2")
    assert check(ready) == {"kubernetes": "v1.34.2-eks-local", "argocd": "v3.4.2", "aicr": "v1.1.2"}


def test_an_image_that_admission_would_not_let_run(ready: Place) -> None:
    mine = {"version": "v1.1.2", "image": "ghcr.io/me/aicr@sha256:" + "1" * 64}
    with refused(Reason.InvalidRuntime, "spec.aicr.image is of ghcr.io/me/aicr", "ghcr.io/nvidia/aicr only"):
        check(ready, aicr=mine)


@pytest.mark.parametrize(
    "image", ["quay.io/argoproj/argocd:v3.0.12", f"reg.example:5000/argocd:v2.14.3{DIGEST}"]
)
def test_an_argocd_that_is_too_old(ready: Place, image: str) -> None:
    install(ready, image)
    version = image.partition("@")[0].rpartition(":")[2]
    with refused(Reason.EngineMissing, f"Argo CD {version}; 3.1 or later", "Upgrade Argo CD"):
        check(ready)


def test_the_label_counts_where_the_image_is_by_digest(ready: Place) -> None:
    install(ready, f"quay.io/argoproj/argocd{DIGEST}", **{"app.kubernetes.io/version": "v3.0.1"})
    with refused(Reason.EngineMissing, "Argo CD v3.0.1"):
        check(ready)


@pytest.mark.parametrize(
    "image", [f"quay.io/argoproj/argocd{DIGEST}", "reg.example:5000/argocd", "example.com/argocd:latest"]
)
def test_a_version_that_nothing_says_is_said_to_be_unknown(ready: Place, image: str) -> None:
    install(ready, image)
    assert check(ready)["argocd"] == "unknown: neither the controller's image nor its label says it"


def test_no_controller_with_the_usual_label(ready: Place) -> None:
    assert check(ready)["argocd"].startswith("unknown: no application controller in argocd")


def test_the_eks_capability_is_not_asked(ready: Place) -> None:
    install(ready, "quay.io/argoproj/argocd:v2.14.3")
    assert check(ready, engine="eks-capability")["argocd"] == "unknown: AWS runs it"


def test_a_sidecar_has_no_say() -> None:
    made = controller("argocd")
    containers = made["spec"]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "proxy", "image": "istio/proxyv2:1.20.0"})
    assert argocd_version(made) == "v3.4.2"


def test_no_argocd(ready: Place) -> None:
    ready.store.delete(CUSTOM_RESOURCE_DEFINITIONS, "applications.argoproj.io")
    with refused(Reason.EngineMissing, "the Application CRD is missing"):
        check(ready)


@pytest.mark.parametrize(
    ("spec", "reason", "said"),
    [
        ({"overrides": {"a": {"enabled": "no"}}}, Reason.InvalidOverride, "spec.overrides.a.enabled"),
        ({"overrides": {"deployer": {"x": 1}}}, Reason.InvalidOverride, "spec.overrides.deployer"),
        (
            {
                "placement": {
                    "system": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
                    "accelerated": {"nodeSelector": {"a": "c"}},
                }
            },
            Reason.InvalidPlacement,
            "spec.placement.system.tolerations: AICR takes key=value:effect",
        ),
        ({"validation": {"deployment": "Required"}}, Reason.ValidationUnavailable, "validation.enabled"),
    ],
)
def test_what_cannot_work_is_refused_before_the_cluster_is_asked(
    place: Place, spec: dict[str, Any], reason: Reason, said: str
) -> None:
    with refused(reason, said):
        check(place, **spec)
