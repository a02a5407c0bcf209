"""The AWS of one machine: the synthesized template and the real handlers, without an account.

`LocalAws` loads one stack of a `cdk.out` folder into moto (in this process, on a free loopback port) and runs
it: state machines in moto's ASL interpreter, handlers in child processes under AWS's own runtime interface
client, EventBridge rules, schedules, SNS, and the HTTP API. One engine at a time per process, because moto's
state is global to it.

    with LocalAws(Path("cdk.out"), "AicrPipeline-demo", workdir=Path("out"), opt_overrides={...}) as aws:
        aws.client("s3").put_object(...)
        aws.wait_execution(arn, timeout=60)

Public surface (`from local.aws import ...`):

LocalAws(cdk_out: Path, stack: str, *, workdir: Path,
         opt_overrides: Mapping[str, Path] = {},       "/opt/cluster" -> folder that takes its place
         env_overrides: Mapping[str, str] = {},        set in every function after the template's own
         function_env: Mapping[str, Mapping[str, str]] = {},   the same by function name or logical id
         ecr_token: Callable[[str], EcrToken] | None = None,   role ARN -> what GetAuthorizationToken answers
         max_processes: int = 6, soft_processes: int = 3, idle_seconds: float = 5.0,
         preload: Sequence[str] = PRELOAD,             modules each child has imported already (forked)
         schedule_scale: float = 1.0,                  2.0: rate() twice as often, 0: only by fire()
         retry_delays: Sequence[float] = (0.5, 1.0),   between attempts of asynchronous invocations
         allow_unknown: Collection[str] = ())          resource types to record although unknown
    .start() / .stop() / context manager
    .endpoint: str                   for AWS_ENDPOINT_URL
    .region: str; .account: str
    .client(service) -> boto3 client (cached)
    .environment() -> dict[str, str]           AWS_* variables for a child process that is a person or a CLI
    .outputs: dict[str, str]                   stack outputs
    .resources: dict[str, Resource]            logical id -> type, physical id (Ref), attributes
    .physical(logical_id_or_path) -> str       Ref, by logical id, construct path or its last parts
    .report: LoadReport                        logical id -> type: .loaded .recorded .unknown; .skipped_layers
    .api_url: str                              of the only HTTP API; .api_urls by API id
    .functions: dict[str, FunctionSpec]        by function name
    .invoke(function, event: str | bytes)         -> InvokeResult(payload, error, request_id, duration_ms)
    .logs(function) -> str
    .credentials_of(role_arn) -> Credentials(access_key, secret_key, token)
    .identity_of(access_key) -> str | None     role ARN; also sessions made by AssumeRole
    .access_entries: dict[str, list[str]]      principal ARN -> Kubernetes groups
    .executions(machine=None) -> list[ExecutionView]      newest last; of a name, ARN or logical id
    .execution(arn) -> ExecutionView; .history(arn) -> list[dict]
    .wait_execution(arn, *, timeout) -> ExecutionView     until it ended
    .messages: list[Message]                   SNS outbox: topic_arn, subject, message, subscriptions, time
    .events: list[dict]                        every event that reached the bus, oldest first
    .put_event(source, detail_type, detail) -> str
    .emit(event)                               a whole event, for instance one of .events a second time
    .fire(schedule_name)                       fires a schedule now
    .problems: list[str]                       deliveries that were refused or gave up; empty in a healthy run
    .wait_until(condition, *, timeout, what) -> None
    .quiet(timeout=10.0)                       returns when no delivery, async invocation or retry is pending
    .processes() -> list[ProcessView]          pid, function, busy, resident memory

EcrToken(user, password, proxy_endpoint, expires_at: datetime)

What is not as in AWS, so that nobody looks for it here:

- Third-party packages come from this machine's environment and its Python: a layer with `*.dist-info` folders
  is built for Lambda's Python and stays unused (`report.skipped_layers`). Function memory is not limited.
- A path under /opt is replaced where an environment variable of the function names it, nowhere else.
- IAM policies, key, topic and queue policies are not evaluated. Function permissions are (a service without
  one is refused), and Deny statements of bucket policies.
- Retries of deliveries and asynchronous invocations come after fractions of a second; a rule gives up after
  six attempts. Waits, timeouts and retries of state machines are real time.
- Events arrive once and in order; `emit` repeats one. DynamoDB's TTL and S3's life cycle delete nothing.
- A stopped execution's history has the interrupted task's time-out before `ExecutionAborted`.
- `quiet` waits for running asynchronous invocations too: a sweep that loops for a minute counts.
"""

from local.aws.engine import LocalAws
from local.aws.lambdas import PRELOAD
from local.aws.model import (
    Credentials,
    EcrToken,
    EngineError,
    ExecutionView,
    FunctionSpec,
    InvokeResult,
    LoadReport,
    Message,
    ProcessView,
    Resource,
)

__all__ = [
    "PRELOAD",
    "Credentials",
    "EcrToken",
    "EngineError",
    "ExecutionView",
    "FunctionSpec",
    "InvokeResult",
    "LoadReport",
    "LocalAws",
    "Message",
    "ProcessView",
    "Resource",
]
