"""HTTP API routes with AWS_IAM: for commands. Event, body and reason are never logged."""

import base64
import binascii
import json
from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.operators_desk import Caller, Desk, Reply
from aicr_pipeline.actions.serve_operators import decide, describe, list_rollouts, submit_runtime
from aicr_pipeline.actions.serve_status import renew_status, tell_running, tell_status
from aicr_pipeline.adapters.lookup import ROLLOUT_NAME
from aicr_pipeline.clock import now
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()
metrics = Metrics()
# Debug would print events; said here, the environment cannot turn it on.
app = APIGatewayHttpResolver(debug=False)

ROLLOUTS = "/operators/rollouts"


@app.get(ROLLOUTS)
def rollouts() -> Response[str]:
    """The newest rollouts."""
    return _response(list_rollouts(_caller(), _desk()))


@app.get(f"{ROLLOUTS}/<rollout>")
def rollout(rollout: str) -> Response[str]:
    """One rollout."""
    if not ROLLOUT_NAME.fullmatch(rollout):
        return _response(_NOTHING)
    return _response(describe(_caller(), rollout, _desk()))


@app.post(f"{ROLLOUTS}/<rollout>/decision")
def decision(rollout: str) -> Response[str]:
    """Approve, reject, revoke."""
    if not ROLLOUT_NAME.fullmatch(rollout):
        return _response(_NOTHING)
    reply = decide(_caller(), rollout, _body(), _desk())
    if reply.name.startswith("recorded-"):
        logger.info("decided", extra={"rollout": rollout, "decision": reply.name})
    return _response(reply)


@app.get("/operators/status")
def status() -> Response[str]:
    """The status that was kept last."""
    return _response(tell_status(_caller(), wiring.coordination()))


@app.post("/operators/status")
def fresh_status() -> Response[str]:
    """A fresh one is wanted."""
    return _response(renew_status(_caller(), wiring.bus(), now))


@app.get("/operators/running")
def running() -> Response[str]:
    """What is deployed."""
    return _response(tell_running(_caller(), wiring.config(), wiring.pipeline()))


@app.post("/operators/runtime")
def runtime() -> Response[str]:
    """Submit a runtime."""
    return _response(submit_runtime(_caller(), _body(), _desk()))


@app.not_found
def not_found(_: NotFoundError) -> Response[str]:
    """No route of ours."""
    return _response(_NOTHING)


@app.exception_handler(PipelineError)  # type: ignore[untyped-decorator]
def unreadable(error: PipelineError) -> Response[str]:
    """What no route expects, such as a record that cannot be read: its own words, and no traceback."""
    transient = isinstance(error, TransientError)
    status, word = (503, "transient") if transient else (500, "refused")
    body = {"status": word, "reason": str(error.reason), "message": error.message}
    return _response(Reply(status, body, "failed"))


@logger.inject_lambda_context(log_event=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Payload 2.0 in, payload 2.0 out."""
    return app.resolve(event, context)


_NOTHING = Reply(
    404,
    {"status": "refused", "reason": str(Reason.PlanUnreadable), "message": "There is nothing here."},
    "not-found",
)


def _desk() -> Desk:
    return Desk(wiring.config(), wiring.remembering_ledger(), wiring.inbox(), now)


def _caller() -> Caller:
    """Whom API Gateway authenticated. Without an authorizer's word nobody is anybody."""
    authorizer = app.current_event.raw_event.get("requestContext", {}).get("authorizer") or {}
    iam = authorizer.get("iam") or {}
    return Caller(str(iam.get("userArn") or ""), str(iam.get("userId") or "").partition(":")[0])


def _body() -> bytes:
    body = app.current_event.body or ""
    if not app.current_event.is_base64_encoded:
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error:
        return b""


def _response(reply: Reply) -> Response[str]:
    metrics.add_metric(name="OperatorRequests", unit=MetricUnit.Count, value=1)
    if reply.name.startswith("recorded-"):
        metrics.add_metric(name="DecisionsRecorded", unit=MetricUnit.Count, value=1)
    logger.info("answered", extra={"status": reply.status, "page": reply.name})
    return Response(
        status_code=reply.status,
        content_type="application/json",
        body=json.dumps(reply.body),
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )
