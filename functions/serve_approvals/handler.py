"""HTTP API routes of the approval pages. Event, address and form are never logged: they hold the link."""

import secrets
import traceback
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.approval_site import FAILED, NOT_FOUND, Answer, Link, Post, Site
from aicr_pipeline.actions.serve_approvals import failed as unrecorded
from aicr_pipeline.actions.serve_approvals import show, submit
from aicr_pipeline.actions.sign_in import Desk, callback, login, show_signed_in, sign_out, submit_signed_in
from aicr_pipeline.clock import now
from aicr_pipeline.pages import render
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.shared.cookies import Cookie, SameSite

logger = Logger()
metrics = Metrics()
# Debug would print events; said here, the environment cannot turn it on.
app = APIGatewayHttpResolver(debug=False)

PAGE = "/approvals/<rollout>/<approver>"
SIGNED_IN = "/approvals/<rollout>"


@app.route(PAGE, method=["GET"])
def get(rollout: str, approver: str) -> Response[str]:
    """The page."""
    return _response(show(_link(rollout, approver), _site()))


@app.route(PAGE, method=["HEAD"])
def head(rollout: str, approver: str) -> Response[str]:
    """The page's status and headers."""
    response = _response(show(_link(rollout, approver), _site()))
    response.body = ""
    return response


@app.route(PAGE, method=["POST"])
def post(rollout: str, approver: str) -> Response[str]:
    """The decision of whoever holds the link."""
    return _decided(submit(_link(rollout, approver), _post(), _site()), rollout)


@app.route(SIGNED_IN, method=["GET"])
def get_signed_in(rollout: str) -> Response[str]:
    """The page of whoever is signed in, or the way to the issuer."""
    return _response(show_signed_in(rollout, _cookies(), _desk()))


@app.route(SIGNED_IN, method=["HEAD"])
def head_signed_in(rollout: str) -> Response[str]:
    """The page's status and headers."""
    response = _response(show_signed_in(rollout, _cookies(), _desk()))
    response.body = ""
    return response


@app.route(SIGNED_IN, method=["POST"])
def post_signed_in(rollout: str) -> Response[str]:
    """The decision of somebody who is signed in."""
    return _decided(submit_signed_in(rollout, _cookies(), _post(), _desk()), rollout)


@app.route("/login/<rollout>", method=["GET"])
def get_login(rollout: str) -> Response[str]:
    """To the issuer."""
    return _response(login(rollout, _cookies(), _desk()))


@app.route("/sign-out", method=["POST"])
def post_sign_out() -> Response[str]:
    """The end of a session."""
    return _response(sign_out(_cookies(), _post(), _desk()))


@app.route("/callback", method=["GET"])
def get_callback() -> Response[str]:
    """Back from the issuer."""
    return _response(callback(app.current_event.query_string_parameters, _cookies(), _desk()))


@app.not_found
def not_found(_: NotFoundError) -> Response[str]:
    """What no route takes looks like a wrong link."""
    return _response(NOT_FOUND)


@app.exception_handler(Exception)  # type: ignore[untyped-decorator]
def failed(error: Exception) -> Response[str]:
    """The outermost place: a page for the person; type and place for the log, never the error's words."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    where = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    reason = str(getattr(error, "reason", ""))
    logger.error("failed", extra={"error": type(error).__name__, "reason": reason, "where": where})
    return _response(unrecorded(_post()) if app.current_event.http_method == "POST" else FAILED)


@logger.inject_lambda_context(log_event=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Payload 2.0 in, payload 2.0 out."""
    return app.resolve(event, context)


def _site() -> Site:
    return Site(
        wiring.config(), wiring.remembering_ledger(), wiring.approval_key, env.text("APPROVAL_URL"), now
    )


def _link(rollout: str, approver: str) -> Link:
    return Link(rollout, approver, app.current_event.query_string_parameters.get("s", ""))


def _desk() -> Desk:
    return Desk(_site(), wiring.issuer, wiring.sessions)


def _post() -> Post:
    event = app.current_event
    headers = {name.lower(): value for name, value in event.headers.items()}
    return Post(headers, event.body, bool(event.is_base64_encoded))


def _cookies() -> dict[str, str]:
    """The browser's cookies; of two with one name the first counts, as browsers send the nearest first."""
    found: dict[str, str] = {}
    for cookie in app.current_event.raw_event.get("cookies") or ():
        name, _, value = str(cookie).partition("=")
        found.setdefault(name.strip(), value.strip())
    return found


def _decided(answer: Answer, rollout: str) -> Response[str]:
    if answer.name.startswith("recorded-"):
        logger.info("decided", extra={"rollout": rollout, "decision": answer.name})
    return _response(answer)


def _response(answer: Answer) -> Response[str]:
    metrics.add_metric(name="ApprovalPages", unit=MetricUnit.Count, value=1)
    if answer.name.startswith("recorded-"):
        metrics.add_metric(name="DecisionsRecorded", unit=MetricUnit.Count, value=1)
    elif answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        metrics.add_metric(name="ApprovalPagesFailed", unit=MetricUnit.Count, value=1)
    elif answer.status >= HTTPStatus.BAD_REQUEST:
        metrics.add_metric(name="ApprovalPagesRefused", unit=MetricUnit.Count, value=1)
    logger.info("answered", extra={"status": answer.status, "page": answer.name})
    style = secrets.token_urlsafe(16)
    headers = {
        "Content-Security-Policy": f"default-src 'none'; style-src 'nonce-{style}'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'",
        "X-Frame-Options": "DENY",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
        # Not no-referrer: with it the page's own form is sent with Origin: null.
        "Referrer-Policy": "same-origin",
    }
    body = ""
    if answer.location is not None:
        headers["Location"] = answer.location
    else:
        template = "approval" if answer.view else "signed_out" if answer.form else "notice"
        body = render(
            template,
            answer=answer,
            view=answer.view,
            form=answer.form,
            acknowledge=answer.acknowledge,
            style_nonce=style,
        )
    cookies = [
        Cookie(
            name=cookie.name,
            value=cookie.value,
            max_age=cookie.seconds,
            secure=True,
            http_only=True,
            same_site=SameSite.LAX_MODE,
            path="/",
        )
        for cookie in answer.cookies
    ]
    return Response(
        status_code=answer.status,
        content_type="text/html; charset=utf-8",
        body=body,
        headers=headers,
        cookies=cookies,
    )
