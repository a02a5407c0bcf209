"""One cluster's pipeline. Only wires the constructs."""

from aicr_pipeline.decide.ecr_host import parse_ecr_host
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.runtime import RUNTIME_KEY
from aws_cdk import Annotations, ArnFormat, CfnOutput, Environment, Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra import events
from infra.alarms import Alarms
from infra.api import Api
from infra.approval_key import ApprovalKey
from infra.assets import definitions
from infra.cluster_access import ClusterAccess
from infra.compute import LOG_RETENTION, Functions, Roles
from infra.coordination import Coordination
from infra.dead_letters import DeadLetters
from infra.functions import PUBLISHERS, RESOLVE_FUNCTIONS, ROLLOUT_FUNCTIONS
from infra.machines import ALIAS, StateMachine
from infra.names import function_name, machine_name, metrics_namespace
from infra.notifications import Notifications
from infra.registry import Registry
from infra.rights import Arns, Grants
from infra.routes import LINK_ROUTES, SIGNED_IN_ROUTES
from infra.schedules import Schedules
from infra.sign_in import SignIn
from infra.signing import Signing
from infra.sources import Sources
from infra.storage import Storage
from infra.webhook_secret import WebhookSecret


class PipelineStack(Stack):
    """``aicr-pipeline-<cluster>``, in the cluster's own account unless ``account`` says otherwise."""

    def __init__(
        self,
        scope: Construct,
        config: ClusterConfig,
        sources: Sources,
        *,
        account: str,
        region: str,
        deployment_role: str | None,
    ) -> None:
        name = config.cluster.name
        super().__init__(
            scope,
            f"aicr-pipeline-{name}",
            description=f"Keeps the cluster {name} on the stack that AICR prescribes",
            env=Environment(account=account, region=region),
        )
        if not sources.dependencies_built:
            Annotations.of(self).add_warning_v2(
                "aicr-pipeline:dependencies",
                "The dependency layer is empty; run python -m infra.build_layer before a deployment.",
            )
        self._config = config
        log_retention = LOG_RETENTION[config.retention.log_days]

        self.roles = Roles(self, "Roles", cluster=name)
        by_function = self.roles.by_function
        self.storage = Storage(self, "Storage", retention=config.retention)
        self.storage.only_writers(by_function)
        self.coordination = Coordination(self, "Coordination")
        self.signing = Signing(self, "Signing", cluster=name, signer=by_function["bind_evidence"])
        self.approval_key = ApprovalKey(self, "ApprovalKey", cluster=name)
        self.webhook_secret = WebhookSecret(self, "WebhookSecret", cluster=name)
        self.notifications = Notifications(
            self,
            "Notifications",
            cluster=name,
            approvers=config.approvals.approvers,
            publishers=[by_function[function] for function in PUBLISHERS],
            subscriber=deployment_role or self._cloudformation_role(),
        )
        self.api = Api(self, "Api", cluster=name, log_retention=log_retention)
        self.sign_in = self._issuer()
        self.dead_letters = DeadLetters(self, "DeadLetters")
        ecr = parse_ecr_host(config.registry.host) if config.registry.auth.provider == "aws" else None
        if ecr is not None:
            Registry(self, "Registry", host=ecr, prefix=config.registry.prefix)
        self.functions = Functions(
            self,
            "Functions",
            config=config,
            sources=sources,
            roles=self.roles,
            grants=Grants(self._arns(), config, ecr),
            environment=self._environment(),
            dead_letters=self.dead_letters.queue,
        ).by_name
        self.resolve_machine, self.rollout_machine = self._machines(sources, log_retention)
        self._serve_pages()
        self.api.serve_signed(self.functions["serve_operators"], self._routes_arn("operators"))
        self.api.serve_notifications(
            self.functions["receive_notification"],
            self.format_arn(service="execute-api", resource=self.api.api.ref, resource_name="*/POST/argocd"),
        )
        self.schedules = Schedules(self, "Schedules", cluster=name, sweep=self.functions["sweep_waiters"])
        self.schedules.remind(self.functions["remind_approvers"])
        self.schedules.status(self.functions["update_status"])
        self._rules()
        if config.resolve.schedule is not None:
            self.schedules.resolve(
                self.functions["start_resolve"], self.dead_letters.queue, config.resolve.schedule
            )
        if (config.cluster.account, config.cluster.region) == (account, region):
            ClusterAccess(self, "ClusterAccess", cluster=config.cluster, roles=self.roles)
        self._alarms()
        self._outputs()

    def _machine_arn(self, machine: str) -> str:
        return self.format_arn(
            service="states",
            resource="stateMachine",
            resource_name=machine_name(self._config.cluster.name, machine),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _executions_arn(self, machine: str) -> str:
        return self.format_arn(
            service="states",
            resource="execution",
            resource_name=f"{machine_name(self._config.cluster.name, machine)}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _bus_arn(self) -> str:
        return self.format_arn(service="events", resource="event-bus", resource_name="default")

    def _sweep_arn(self) -> str:
        # By name: the function that wakes it is made together with it.
        return self.format_arn(
            service="lambda",
            resource="function",
            resource_name=function_name(self._config.cluster.name, "sweep_waiters"),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _serve_pages(self) -> None:
        pages = self.functions["serve_approvals"]
        if self._config.approvals.identity == "link":
            self.api.serve(pages, LINK_ROUTES, {"Permission": self._routes_arn("approvals")})
            return
        arns = {
            "Permission": self._routes_arn("approvals"),
            "LoginPermission": self._routes_arn("login"),
            "CallbackPermission": self._route_arn("GET/callback"),
            "SignOutPermission": self._route_arn("POST/sign-out"),
        }
        self.api.serve(pages, SIGNED_IN_ROUTES, arns)

    def _issuer(self) -> SignIn | None:
        """The user pool, where people sign in and no other issuer is named."""
        approvals, cluster = self._config.approvals, self._config.cluster
        if approvals.identity == "link" or approvals.oidc is not None:
            return None
        return SignIn(
            self,
            "SignIn",
            cluster=cluster.name,
            account=self.account,
            region=self.region,
            base_url=self.api.url,
        )

    def _routes_arn(self, folder: str) -> str:
        return self.format_arn(
            service="execute-api", resource=self.api.api.ref, resource_name=f"*/*/{folder}/*"
        )

    def _route_arn(self, route: str) -> str:
        return self.format_arn(service="execute-api", resource=self.api.api.ref, resource_name=f"*/{route}")

    def _cloudformation_role(self) -> str:
        """The role that CDK's bootstrap gives CloudFormation; ``-c deploymentRole=`` names another."""
        role = f"cdk-*-cfn-exec-role-{self.account}-{self.region}"
        return self.format_arn(service="iam", region="", resource="role", resource_name=role)

    def _arns(self) -> Arns:
        return Arns(
            inbox=self.storage.inbox.bucket_arn,
            ledger=self.storage.ledger.bucket_arn,
            table=self.coordination.table.table_arn,
            bus=self._bus_arn(),
            approval_key=self.approval_key.secret.secret_arn,
            webhook_secret=self.webhook_secret.secret.secret_arn,
            sweep=self._sweep_arn(),
            signing_keys=Stack.of(self).format_arn(service="kms", resource="key", resource_name="*"),
            signing_alias=self.signing.alias,
            notification_key=self.notifications.key.key_arn,
            topics=tuple(topic.topic_arn for topic in self.notifications.topics.values()),
            resolve_machine=self._machine_arn("resolve"),
            rollout_machine=self._machine_arn("rollout"),
            resolve_executions=self._executions_arn("resolve"),
            rollout_executions=self._executions_arn("rollout"),
        )

    def _environment(self) -> dict[str, str]:
        return {
            "INBOX_BUCKET": self.storage.inbox.bucket_name,
            "LEDGER_BUCKET": self.storage.ledger.bucket_name,
            "COORDINATION_TABLE": self.coordination.table.table_name,
            "EVENT_BUS": "default",
            # By name, not by reference: functions that a machine calls may speak of the machine.
            "RESOLVE_MACHINE_ARN": f"{self._machine_arn('resolve')}:{ALIAS}",
            "ROLLOUT_MACHINE_ARN": f"{self._machine_arn('rollout')}:{ALIAS}",
            "APPROVER_TOPICS": self.to_json_string(self._topic_arns()),
            "APPROVAL_KEY_ARN": self.approval_key.secret.secret_arn,
            "WEBHOOK_SECRET_ARN": self.webhook_secret.secret.secret_arn,
            "SWEEP_FUNCTION_ARN": self._sweep_arn(),
            "APPROVAL_URL": self.api.url,
            "OIDC": self.to_json_string(self.sign_in.told if self.sign_in else {}),
            "SIGNING_KEY_ARN": self.signing.alias_arn,
        }

    def _machines(self, sources: Sources, retention: logs.RetentionDays) -> tuple[StateMachine, StateMachine]:
        config = self._config
        define = definitions(config)
        resolve = StateMachine(
            self,
            "Resolve",
            cluster=config.cluster.name,
            name="resolve",
            functions=self.functions,
            callees=RESOLVE_FUNCTIONS,
            define=define["resolve"],
            version_of=lambda definition: sources.version(definition, config),
            log_retention=retention,
        )
        rollout = StateMachine(
            self,
            "Rollout",
            cluster=config.cluster.name,
            name="rollout",
            functions=self.functions,
            callees=ROLLOUT_FUNCTIONS,
            define=define["rollout"],
            version_of=lambda definition: sources.version(definition, config),
            log_retention=retention,
        )
        return resolve, rollout

    def _rules(self) -> None:
        cluster = self._config.cluster.name
        ledger = self.storage.ledger.bucket_name
        answers = [{"wildcard": f"rollouts/*/{name}.json"} for name in ("decision", "revocation")]
        answers.append({"wildcard": "rollouts/*/acknowledgements/*.json"})
        rules = {
            "RuntimeSubmitted": (
                "start_resolve",
                "A runtime was put into the inbox",
                events.object_created(self.storage.inbox.bucket_name, RUNTIME_KEY),
            ),
            "PlanReady": (
                "start_rollout",
                "A plan is ready, or a rollout ended or stalled and another may start",
                events.own(cluster, "Plan Ready", "Rollout Ended", "Execution Stalled"),
            ),
            "WaiterRegistered": (
                "sweep_waiters",
                "Something new is waited for",
                # A newer plan ends the question about an older one.
                events.own(cluster, "Waiter Registered", "Plan Ready"),
            ),
            "Decided": (
                "sweep_waiters",
                "A decision, a revocation or an acknowledgement was written",
                events.object_created(ledger, *answers),
            ),
            "WishChanged": (
                "sweep_waiters",
                "The runtime was put or deleted: a step that waits for the end of a pause may go on",
                events.object_changed(self.storage.inbox.bucket_name, RUNTIME_KEY),
            ),
            "RuntimeDeleted": (
                "update_status",
                "The runtime was deleted from the inbox",
                events.object_deleted(self.storage.inbox.bucket_name, RUNTIME_KEY),
            ),
            # What the ledger holds by then, not what is about to be written.
            "RecordWritten": (
                "update_status",
                "A resolve or a rollout ended, asks, was decided, or is held",
                events.object_created(
                    ledger,
                    {"wildcard": "resolves/*/told.json"},
                    *({"wildcard": f"rollouts/*/{name}.json"} for name in ("request", "decision", "outcome")),
                    *({"wildcard": f"rollouts/*/{name}/*.json"} for name in ("holds", "acknowledgements")),
                ),
            ),
            "StatusWanted": (
                "update_status",
                "An execution stalled, or somebody asks",
                events.own(cluster, "Execution Stalled", "Status Wanted"),
            ),
            "ExecutionEndedBadly": (
                "record_stall",
                "An execution failed, timed out or was stopped",
                events.execution_ended_badly(self._machine_arn("resolve"), self._machine_arn("rollout")),
            ),
        }
        if self._keeps_credentials:
            rules["CredentialsWanted"] = (
                "refresh_credentials",
                "A rollout is about to start",
                events.own(cluster, "Credentials Wanted"),
            )
            self.schedules.refresh(
                self.functions["refresh_credentials"], self.dead_letters.queue, self._config
            )
        made = [
            events.Rule(
                self,
                id,
                description=description,
                pattern=pattern,
                function=self.functions[function],
                dead_letters=self.dead_letters.queue,
            )
            for id, (function, description, pattern) in rules.items()
        ]
        failed = events.Kept(
            self,
            "MessageFailed",
            description="A message to somebody was not taken",
            pattern=events.own(cluster, "Message Failed"),
            dead_letters=self.dead_letters.queue,
        )
        self.dead_letters.accept_from([*(rule.arn for rule in made), failed.arn])

    @property
    def _keeps_credentials(self) -> bool:
        """Static credentials are an administrator's; the EKS capability reads ECR with its own role."""
        return self._config.mints_credentials

    def _alarms(self) -> None:
        alarms = Alarms(self, "Alarms", topic=self.notifications.alarms)
        alarms.queue(self.dead_letters.queue)
        alarms.functions(self.functions)
        alarms.machine("resolve", self.resolve_machine.arn)
        alarms.machine("rollout", self.rollout_machine.arn)
        alarms.mails(self.notifications.topics)
        alarms.sweep(self.functions["sweep_waiters"])
        alarms.own(metrics_namespace(self._config.cluster.name))
        alarms.status(metrics_namespace(self._config.cluster.name), self.functions["update_status"])
        alarms.approvals(metrics_namespace(self._config.cluster.name), self._config.approvals)
        if self._keeps_credentials:
            alarms.refresh(
                self.functions["refresh_credentials"], metrics_namespace(self._config.cluster.name)
            )

    def _outputs(self) -> None:
        for name, value, description in (
            ("InboxBucket", self.storage.inbox.bucket_name, f"Put the runtime here as {RUNTIME_KEY}"),
            ("LedgerBucket", self.storage.ledger.bucket_name, "Plans, decisions, outcomes, evidence"),
            ("CoordinationTable", self.coordination.table.table_name, "Waiters, lock, lease"),
            ("ApprovalUrl", self.api.url, "Where approval pages are served"),
            ("NotificationSecret", self.webhook_secret.secret.secret_arn, "Argo CD's notifications carry it"),
            ("SigningKey", self.signing.alias_arn, "Signs evidence"),
            ("ResolveFunction", self.functions["start_resolve"].function_name, "Invoked to resolve by hand"),
            ("ResolveMachine", self.resolve_machine.alias.ref, "Starts go through this alias"),
            ("RolloutMachine", self.rollout_machine.alias.ref, "Starts go through this alias"),
            ("AlarmTopic", self.notifications.alarms.topic_arn, "Operators subscribe here"),
            ("ApproverTopics", self.to_json_string(self._topic_arns()), "One topic an approver"),
        ):
            CfnOutput(self, name, value=value, description=description)
        if self.sign_in is not None:
            CfnOutput(
                self, "UserPool", value=self.sign_in.pool.ref, description="Create approvers here, by e-mail"
            )

    def _topic_arns(self) -> dict[str, str]:
        return {name: topic.topic_arn for name, topic in self.notifications.topics.items()}
