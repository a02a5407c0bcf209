"""The public front: the approval pages, and signed routes for commands. Nothing else."""

import json
from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_apigatewayv2 as apigw
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.findings import acknowledge
from infra.routes import NOTIFICATIONS, SIGNED


class Api(Construct):
    """An HTTP API. Made before the function that serves it, which must know its address."""

    def __init__(self, scope: Construct, id: str, *, cluster: str, log_retention: logs.RetentionDays) -> None:
        super().__init__(scope, id)
        self.api = apigw.CfnApi(
            self,
            "Api",
            name=f"aicr-pipeline-{cluster}",
            protocol_type="HTTP",
            description=f"Approval pages of aicr-pipeline-{cluster}",
        )
        self.log_group = logs.LogGroup(
            self,
            "AccessLog",
            log_group_name=f"/aicr-pipeline/{cluster}/api-access",
            retention=log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.stage = apigw.CfnStage(
            self,
            "Stage",
            api_id=self.api.ref,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigw.CfnStage.AccessLogSettingsProperty(
                destination_arn=self.log_group.log_group_arn,
                # Never the path: it names the approver and, with the query, carries the link's secret.
                format=json.dumps(
                    {
                        "requestId": "$context.requestId",
                        "routeKey": "$context.routeKey",
                        "status": "$context.status",
                    }
                ),
            ),
            default_route_settings=apigw.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=10, throttling_burst_limit=20
            ),
        )
        self.url = self.api.attr_api_endpoint
        self._limits: dict[str, dict[str, int]] = {}

    def serve_signed(self, function: lambda_.Function, source_arn: str) -> None:
        """Route what operators sign to ``function``, with a throttle that the public pages cannot use up."""
        for route in self._routes("SignedIntegration", function, SIGNED, "AWS_IAM"):
            # A stage takes settings of routes that exist.
            self.stage.add_dependency(route)
        self._throttle(SIGNED)
        self._permit("SignedPermission", function, source_arn)

    def serve_notifications(self, function: lambda_.Function, source_arn: str) -> None:
        """Route Argo CD's notifications to ``function``, with a throttle of their own."""
        for route in self._routes("NotificationIntegration", function, NOTIFICATIONS, "NONE"):
            self.stage.add_dependency(route)
            acknowledge(
                route,
                "AwsSolutions-APIG4",
                "Argo CD's webhook service signs nothing and knows no AWS credentials. The function compares "
                "a secret header before anything else, and can only wake the sweeper.",
            )
        self._throttle(NOTIFICATIONS)
        self._permit("NotificationPermission", function, source_arn)

    def _throttle(self, routes: Mapping[str, str]) -> None:
        """A limit of their own for some routes, so that others can not use it up."""
        limit = {"ThrottlingRateLimit": 5, "ThrottlingBurstLimit": 10}
        self._limits |= dict.fromkeys(routes.values(), limit)
        self.stage.route_settings = self._limits

    def serve(
        self, function: lambda_.Function, routes: Mapping[str, str], source_arns: Mapping[str, str]
    ) -> None:
        """Route the pages to ``function``; ``source_arns`` are the patterns of this API's routes."""
        for route in self._routes("Integration", function, routes, "NONE"):
            acknowledge(
                route,
                "AwsSolutions-APIG4",
                "People open it from a message; a browser sends no token by itself. The function checks the "
                "session (or the link's secret), form nonce and digest on every request, and reading changes "
                "nothing.",
            )
        for id, source_arn in source_arns.items():
            self._permit(id, function, source_arn)

    def _routes(
        self, integration_id: str, function: lambda_.Function, routes: Mapping[str, str], authorization: str
    ) -> list[apigw.CfnRoute]:
        """The routes (construct id to route key) of one integration with ``function``."""
        integration = apigw.CfnIntegration(
            self,
            integration_id,
            api_id=self.api.ref,
            integration_type="AWS_PROXY",
            integration_uri=function.function_arn,
            payload_format_version="2.0",
        )
        return [
            apigw.CfnRoute(
                self,
                id,
                api_id=self.api.ref,
                route_key=key,
                target=f"integrations/{integration.ref}",
                authorization_type=authorization,
            )
            for id, key in routes.items()
        ]

    def _permit(self, id: str, function: lambda_.Function, source_arn: str) -> None:
        lambda_.CfnPermission(
            self,
            id,
            action="lambda:InvokeFunction",
            function_name=function.function_arn,
            principal="apigateway.amazonaws.com",
            source_arn=source_arn,
        )
