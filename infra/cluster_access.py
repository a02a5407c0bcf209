"""The functions' way into the cluster: one access entry a role, mapped to one group."""

from aicr_pipeline.model.config import Cluster
from aws_cdk import aws_eks as eks
from constructs import Construct

from infra.compute import Roles
from infra.functions import FUNCTIONS
from infra.names import kubernetes_group


class ClusterAccess(Construct):
    """Entries for a cluster in the stack's own account and region.

    For another account's cluster, ``python -m infra.cluster_manifests`` prints the commands to run there.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: Cluster, roles: Roles) -> None:
        super().__init__(scope, id)
        for function in FUNCTIONS:
            if not function.faces_kubernetes:
                continue
            eks.CfnAccessEntry(
                self,
                function.name,
                cluster_name=cluster.known_as,
                principal_arn=roles.by_function[function.name].role_arn,
                type="STANDARD",
                kubernetes_groups=[kubernetes_group(function.name)],
            )
