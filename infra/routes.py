"""The routes of the public front, by the names of their resources. Plain: read without the CDK."""

_PAGE = "/approvals/{rollout}/{approver}"
_SIGNED_IN = "/approvals/{rollout}"
#: HTTP APIs do not answer HEAD by the GET route.
LINK_ROUTES = {method.capitalize(): f"{method} {_PAGE}" for method in ("GET", "HEAD", "POST")}
SIGNED_IN_ROUTES = {
    **{method.capitalize(): f"{method} {_SIGNED_IN}" for method in ("GET", "HEAD", "POST")},
    "Login": "GET /login/{rollout}",
    "Callback": "GET /callback",
    "SignOut": "POST /sign-out",
}
#: Signed with the caller's AWS credentials (SigV4); API Gateway refuses everything else.
SIGNED = {
    "ListRollouts": "GET /operators/rollouts",
    "DescribeRollout": "GET /operators/rollouts/{rollout}",
    "DecideRollout": "POST /operators/rollouts/{rollout}/decision",
    "SubmitRuntime": "POST /operators/runtime",
    "TellStatus": "GET /operators/status",
    "RenewStatus": "POST /operators/status",
    "TellRunning": "GET /operators/running",
}
#: Argo CD's notifications; it has no way to sign what it sends.
NOTIFICATIONS = {"Notification": "POST /argocd"}
