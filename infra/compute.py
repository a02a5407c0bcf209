"""The functions with their layers, roles and log groups."""

from collections.abc import Mapping

from aicr_pipeline.model.config import ClusterConfig, Vpc
from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.assets import configuration_layer
from infra.findings import Right, acknowledge, give
from infra.functions import FUNCTIONS, FunctionSpec
from infra.names import function_name, metrics_namespace
from infra.rights import Grants
from infra.sources import NOT_SOURCE, PROGRAM, Sources

_TRACES = Right(
    ("xray:PutTraceSegments", "xray:PutTelemetryRecords"), ("*",), "X-Ray's write actions have no resource."
)
_INTERFACES = Right(
    (
        "ec2:CreateNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:DeleteNetworkInterface",
        "ec2:AssignPrivateIpAddresses",
        "ec2:UnassignPrivateIpAddresses",
    ),
    ("*",),
    "Lambda makes its network interfaces with the function's role; their names are not known in advance.",
)


class Roles(Construct):
    """One role a function, made first: keys, topics and access entries speak of them."""

    def __init__(self, scope: Construct, id: str, *, cluster: str) -> None:
        super().__init__(scope, id)
        self.by_function = {
            function.name: iam.Role(
                self,
                function.name,
                role_name=function_name(cluster, function.name),
                description=f"{function.purpose} ({function.name})",
                assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            )
            for function in FUNCTIONS
        }


class Functions(Construct):
    """All functions of one cluster. ``environment`` holds every variable that any of them may ask for."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        config: ClusterConfig,
        sources: Sources,
        roles: Roles,
        grants: Grants,
        environment: Mapping[str, str],
        dead_letters: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id)
        self._config = config
        self._sources = sources
        self._environment = environment
        self._dead_letters = dead_letters
        self._layers = _layers(self, config, sources)
        self.by_name: dict[str, lambda_.Function] = {}
        for function in FUNCTIONS:
            role = roles.by_function[function.name]
            give(role, grants.of(function.name))
            self.by_name[function.name] = self._function(function, role)

    def _function(self, spec: FunctionSpec, role: iam.Role) -> lambda_.Function:
        cluster = self._config.cluster
        log_group = logs.LogGroup(
            self,
            f"{spec.name}-logs",
            log_group_name=f"/aicr-pipeline/{cluster.name}/{spec.name}",
            retention=LOG_RETENTION[self._config.retention.log_days],
            # What must be kept is in the ledger; a group left behind would block the next stack.
            removal_policy=RemovalPolicy.DESTROY,
        )
        self._basic_rights(spec, role, log_group)
        function = lambda_.Function(
            self,
            spec.name,
            function_name=function_name(cluster.name, spec.name),
            description=spec.purpose,
            code=lambda_.Code.from_asset(str(self._sources.function(spec.name)), exclude=list(NOT_SOURCE)),
            handler="handler.handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.X86_64,
            layers=self._layers,
            role=role,
            log_group=log_group,
            memory_size=spec.memory_mb,
            timeout=Duration.seconds(spec.timeout_seconds),
            tracing=lambda_.Tracing.ACTIVE,
            environment=self._variables(spec),
        )
        acknowledge(
            function,
            "AwsSolutions-L1",
            "3.13 is what the dependency layer is built and tested for; it moves together with the layer.",
        )
        if spec.async_retries is not None:
            self._asynchronous(spec, function)
        if spec.faces_kubernetes and cluster.vpc is not None:
            _enter(function, cluster.vpc)
        return function

    def _basic_rights(self, spec: FunctionSpec, role: iam.Role, log_group: logs.LogGroup) -> None:
        stack = Stack.of(self)
        streams = stack.format_arn(
            service="logs",
            resource=f"log-group:/aicr-pipeline/{self._config.cluster.name}/{spec.name}:*",
        )
        give(
            role,
            (
                Right(
                    ("logs:CreateLogStream", "logs:PutLogEvents"),
                    (streams,),
                    "Lambda names the streams in the function's own log group.",
                ),
                _TRACES,
            ),
        )
        if not spec.faces_kubernetes:
            return
        cluster = self._config.cluster
        if cluster.endpoint is None or cluster.certificate_authority is None:
            eks = stack.format_arn(
                service="eks",
                resource="cluster",
                resource_name=cluster.known_as,
                region=cluster.region,
                account=cluster.account,
            )
            give(role, (Right(("eks:DescribeCluster",), (eks,)),))
        if cluster.vpc is not None:
            give(role, (_INTERFACES,))

    def _variables(self, spec: FunctionSpec) -> dict[str, str]:
        return {
            "POWERTOOLS_SERVICE_NAME": spec.name,
            "POWERTOOLS_METRICS_NAMESPACE": metrics_namespace(self._config.cluster.name),
            "CLUSTER_CONFIG": "/opt/cluster/cluster.json",
            **{name: self._environment[name] for name in spec.environment},
        }

    def _asynchronous(self, spec: FunctionSpec, function: lambda_.Function) -> None:
        """What becomes of an event whose invocation failed."""
        age = Duration.seconds(60) if spec.async_retries == 0 else Duration.hours(1)
        lambda_.CfnEventInvokeConfig(
            self,
            f"{spec.name}-events",
            function_name=function.function_name,
            qualifier="$LATEST",
            maximum_retry_attempts=spec.async_retries,
            maximum_event_age_in_seconds=age.to_seconds(),
            # A missed sweep is made good by the next one, so only what is retried leaves a letter.
            destination_config=None if spec.async_retries == 0 else self._failures(function),
        )

    def _failures(self, function: lambda_.Function) -> lambda_.CfnEventInvokeConfig.DestinationConfigProperty:
        self._dead_letters.grant_send_messages(function)
        return lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
            on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(
                destination=self._dead_letters.queue_arn
            )
        )


def _layers(scope: Construct, config: ClusterConfig, sources: Sources) -> list[lambda_.ILayerVersion]:
    folders = {
        "dependencies": str(sources.dependencies),
        "program": str(PROGRAM),
        "configuration": str(configuration_layer(config, sources)),
    }
    return [
        lambda_.LayerVersion(
            scope,
            f"{name}-layer",
            description=f"aicr-pipeline {config.cluster.name}: {name}",
            # Compiled files of the dependencies are wanted; the program's are this machine's leftovers.
            code=lambda_.Code.from_asset(folder, exclude=[] if name == "dependencies" else list(NOT_SOURCE)),
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[lambda_.Architecture.X86_64],
            removal_policy=RemovalPolicy.DESTROY,
        )
        for name, folder in folders.items()
    ]


def _enter(function: lambda_.Function, vpc: Vpc) -> None:
    """Into the configured subnets. By identifiers: an imported VPC would ask AWS at synthesis."""
    resource = function.node.default_child
    assert isinstance(resource, lambda_.CfnFunction)
    resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
        subnet_ids=list(vpc.subnet_ids), security_group_ids=list(vpc.security_group_ids)
    )


LOG_RETENTION = {
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}
