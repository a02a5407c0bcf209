"""Whether a validation can run at all: from the configuration, and from what the cluster has for it.

AICR's two generations need different identities (``model.aicr_generation``). Both are as good as
cluster-admin: an administrator makes them, the pipeline only looks whether they are there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.aicr_job import VALIDATION_NAMESPACE
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.aicr_generation import Generation, generation
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason

#: Who runs `aicr validate`; and who its validators run as, from 1.1.0 on.
LAUNCHER, VALIDATOR = "aicr-validation", "aicr-validator"
_ADMIN = "cluster-admin"


@dataclass(frozen=True)
class WantedBinding:
    """``account`` of the validation namespace is bound to ``role``; in the namespace, or in the cluster."""

    kind: str
    name: str
    account: str
    role: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.account} to {self.role})"


@dataclass(frozen=True)
class WantedAccess:
    """What a generation needs in the cluster."""

    accounts: tuple[str, ...]
    bindings: tuple[WantedBinding, ...]


WANTED: Mapping[Generation, WantedAccess] = {
    # It binds the account of each run to cluster-admin, which only cluster-admin may.
    Generation.OWN_BINDING: WantedAccess(
        (LAUNCHER,), (WantedBinding("ClusterRoleBinding", LAUNCHER, LAUNCHER, _ADMIN),)
    ),
    Generation.NAMED_ACCOUNT: WantedAccess(
        (LAUNCHER, VALIDATOR),
        (
            WantedBinding("RoleBinding", LAUNCHER, LAUNCHER, LAUNCHER),
            WantedBinding("ClusterRoleBinding", VALIDATOR, VALIDATOR, _ADMIN),
        ),
    ),
}


def check_configured(mode: str, config: ClusterConfig, aicr_version: str) -> None:
    """What the configuration alone says about the validation of a runtime or a plan.

    Raises
    ------
    PipelineError
        ``ValidationUnavailable``, when ``mode`` is ``Required``.
    """
    if mode != "Required":
        return
    if not config.validation.enabled:
        raise PipelineError(
            Reason.ValidationUnavailable,
            "spec.validation.deployment is Required, but validation.enabled is false in the configuration. "
            "Enable it, or set spec.validation.deployment: Disabled.",
        )
    if config.validation.signing_key is not None and not generation(aicr_version).signs:
        raise PipelineError(
            Reason.ValidationUnavailable,
            f"validation.signingKey is set, but AICR {aicr_version}, which this runtime is pinned to, cannot "
            "sign with a key; that takes 1.1.0 or later. Correct spec.aicr.version, or take the key out of "
            "the configuration.",
        )


def check_access(
    config: ClusterConfig,
    aicr_version: str,
    accounts: Mapping[str, Any],
    bindings: Mapping[WantedBinding, Mapping[str, Any] | None],
) -> None:
    """Whether the cluster has what the validation of this AICR version runs with.

    Parameters
    ----------
    accounts
        The ServiceAccounts of the validation namespace by name, None for one that is missing.
    bindings
        What is there under each wanted binding's name.

    Raises
    ------
    PipelineError
        ``ValidationUnavailable`` naming all that is missing, and the command that prints it.
    """
    wanted = WANTED[generation(aicr_version)]
    missing = [
        f"ServiceAccount {VALIDATION_NAMESPACE}/{name}"
        for name in wanted.accounts
        if accounts.get(name) is None
    ]
    missing += [str(item) for item in wanted.bindings if not _binds(bindings.get(item), item)]
    if not missing:
        return
    command = f"make cluster-manifests CLUSTER={config.cluster.name}"
    if generation(config.aicr.version) is not generation(aicr_version):
        command += (
            f" (it prints them for the configuration's aicr.version, which is {config.aicr.version}: set "
            "that first)"
        )
    raise PipelineError(
        Reason.ValidationUnavailable,
        f"The cluster lacks what the validation of AICR {aicr_version} runs with: {', '.join(missing)}. "
        f"Apply what this prints: {command}. Then start a fresh run.",
    )


def _binds(found: Mapping[str, Any] | None, wanted: WantedBinding) -> bool:
    role = (found or {}).get("roleRef") or {}
    kind = "Role" if wanted.kind == "RoleBinding" else "ClusterRole"
    return (
        role.get("kind") == kind
        and role.get("name") == wanted.role
        and any(
            subject.get("kind") == "ServiceAccount"
            and subject.get("name") == wanted.account
            and subject.get("namespace") == VALIDATION_NAMESPACE
            for subject in (found or {}).get("subjects") or []
        )
    )
