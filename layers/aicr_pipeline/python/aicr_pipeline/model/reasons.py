"""The closed set of reasons a condition, an outcome or an error may carry.

The names are the operator's own where it has one, so that people find in its troubleshooting
pages what our pages say. Each has a line in ``docs/runbook.md``; a test compares the two.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why something is as it is. The value is the name."""

    # Ready
    RolledOut = "RolledOut"
    ValidationDisabled = "ValidationDisabled"
    RollingOut = "RollingOut"
    NotReady = "NotReady"
    NoActivePlan = "NoActivePlan"
    Paused = "Paused"
    EngineSuspended = "EngineSuspended"
    EngineSuspensionRefused = "EngineSuspensionRefused"
    PlanUnreadable = "PlanUnreadable"
    Deleting = "Deleting"
    # Discovery
    NodeGroupEmpty = "NodeGroupEmpty"
    PlacementOverlap = "PlacementOverlap"
    AcceleratedGroupHeterogeneous = "AcceleratedGroupHeterogeneous"
    SnapshotIncomplete = "SnapshotIncomplete"
    CriteriaConflict = "CriteriaConflict"
    # Render and registry content
    OverridePathUnknown = "OverridePathUnknown"
    InvalidOverride = "InvalidOverride"
    InvalidPlacement = "InvalidPlacement"
    NamespaceNotAllowed = "NamespaceNotAllowed"
    ChartSourceUnsupported = "ChartSourceUnsupported"
    ContentTooLarge = "ContentTooLarge"
    Conflict = "Conflict"
    # AICR Jobs
    AICRInvalidRequest = "AICRInvalidRequest"
    AICRNotFound = "AICRNotFound"
    AICRUnauthorized = "AICRUnauthorized"
    AICRTimeout = "AICRTimeout"
    AICRInternal = "AICRInternal"
    # Versions
    AICRVersionMismatch = "AICRVersionMismatch"
    AICRArtifactUnsupported = "AICRArtifactUnsupported"
    # Credentials
    RegistryCredentialsUnavailable = "RegistryCredentialsUnavailable"
    RegistryCredentialsStale = "RegistryCredentialsStale"
    Unauthorized = "Unauthorized"
    # Engine
    EngineMissing = "EngineMissing"
    ProjectMissing = "ProjectMissing"
    # Waiting
    AwaitingApproval = "AwaitingApproval"
    AwaitingAcknowledgement = "AwaitingAcknowledgement"
    # Gates
    TransitionBlocked = "TransitionBlocked"
    ValidationUnavailable = "ValidationUnavailable"
    # Rollout
    InventoryDrift = "InventoryDrift"
    StepUnknown = "StepUnknown"
    MovedReleaseMissing = "MovedReleaseMissing"
    ForeignObject = "ForeignObject"
    RolloutFailed = "RolloutFailed"
    RolloutExpired = "RolloutExpired"
    RolloutRevoked = "RolloutRevoked"
    # Ours: the source documents have no name for these
    Resolving = "Resolving"
    InvalidRuntime = "InvalidRuntime"
    InvalidConfiguration = "InvalidConfiguration"
    BundleInvalid = "BundleInvalid"
    ChartInvalid = "ChartInvalid"
    ClusterUnreachable = "ClusterUnreachable"
    JobNotStarted = "JobNotStarted"
    KubernetesUnsupported = "KubernetesUnsupported"
    NamespaceMissing = "NamespaceMissing"
    RegistryUnreachable = "RegistryUnreachable"
    RolloutRejected = "RolloutRejected"
    SigningKeyUnavailable = "SigningKeyUnavailable"
    RolloutSuperseded = "RolloutSuperseded"
    ResolveSuperseded = "ResolveSuperseded"


#: What an item of "Roll out releases" may end with. The Map catches exactly these by name, so an
#: infrastructure error never looks like the domain's decision.
ROLLOUT_REASONS: tuple[Reason, ...] = (
    Reason.RolloutFailed,
    Reason.RolloutExpired,
    Reason.RolloutRevoked,
    Reason.RolloutRejected,
    Reason.RolloutSuperseded,
    Reason.Paused,
    Reason.EngineMissing,
    Reason.ProjectMissing,
    Reason.EngineSuspended,
    Reason.EngineSuspensionRefused,
    Reason.Deleting,
    Reason.ForeignObject,
    Reason.InventoryDrift,
    Reason.StepUnknown,
    Reason.MovedReleaseMissing,
    Reason.AwaitingAcknowledgement,
    Reason.PlanUnreadable,
    Reason.RegistryCredentialsStale,
    Reason.RegistryCredentialsUnavailable,
    Reason.Unauthorized,
    Reason.Conflict,
)

#: Of definitions of the rollout machine, counted up when its Map learns to catch another reason. An execution
#: keeps the definition it started with, a function does not: it must end a step as that one can catch.
GENERATION = 2
#: What the first one catches instead.
CAUGHT_BEFORE: dict[Reason, Reason] = {
    Reason.Deleting: Reason.RolloutFailed,
    Reason.EngineSuspensionRefused: Reason.EngineSuspended,
}
