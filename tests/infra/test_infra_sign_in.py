"""The user pool that the stack makes where people sign in and the configuration names no issuer."""

import json

from tests.infra.templates import Stack, as_list, plain


def test_only_where_people_sign_in(demo: Stack, private: Stack) -> None:
    assert not demo.of_type("AWS::Cognito::UserPool")
    assert private.of_type("AWS::Cognito::UserPool")
    assert demo.functions()["serve_approvals"]["Environment"]["Variables"]["OIDC"] == "{}"


def test_nobody_signs_up_and_passkeys_verify_their_user(private: Stack) -> None:
    pool = private.one("AWS::Cognito::UserPool")
    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    assert pool["Policies"]["SignInPolicy"]["AllowedFirstAuthFactors"] == ["PASSWORD", "WEB_AUTHN"]
    assert pool["WebAuthnUserVerification"] == "required"
    assert pool["WebAuthnFactorConfiguration"] == "MULTI_FACTOR_WITH_USER_VERIFICATION"
    assert pool["MfaConfiguration"] == "ON" and pool["EnabledMfas"] == ["SOFTWARE_TOKEN_MFA"]
    assert pool["UserAttributeUpdateSettings"]["AttributesRequireVerificationBeforeUpdate"] == ["email"]
    assert pool["AccountRecoverySetting"]["RecoveryMechanisms"] == [{"Name": "admin_only", "Priority": 1}]
    domain = private.one("AWS::Cognito::UserPoolDomain")
    assert domain["ManagedLoginVersion"] == 2
    host = f"{domain['Domain']}.auth-fips.us-gov-west-1.amazoncognito.com"
    assert pool["WebAuthnRelyingPartyID"] == host, "passkeys are of the host that asks for them"
    assert private.one("AWS::Cognito::ManagedLoginBranding")["UseCognitoProvidedValues"] is True


def test_the_client_is_public_and_changes_nobody(private: Stack) -> None:
    client = private.one("AWS::Cognito::UserPoolClient")
    assert client["GenerateSecret"] is False and client["AllowedOAuthFlows"] == ["code"]
    assert client["AllowedOAuthScopes"] == ["openid", "email"], "no scope to administer oneself"
    assert client["WriteAttributes"] == ["nickname"]
    (callback,) = client["CallbackURLs"]
    assert plain(callback).endswith("/callback")


def test_the_pages_are_told_and_may_keep_sessions(private: Stack) -> None:
    told = json.dumps(private.functions()["serve_approvals"]["Environment"]["Variables"]["OIDC"])
    assert "ProviderURL" in told and "clientId" in told and "cognito:groups" in told
    rows = [
        statement
        for function, statement in private.statements()
        if function == "serve_approvals" and "dynamodb:PutItem" in as_list(statement["Action"])
    ]
    assert [row["Condition"] for row in rows] == [
        {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["SESSION"]}}
    ]


def test_the_routes_of_the_pages_are_those_of_the_identity(demo: Stack, private: Stack) -> None:
    def keys(stack: Stack) -> set[str]:
        found = stack.of_type("AWS::ApiGatewayV2::Route").values()
        return {
            route["Properties"]["RouteKey"]
            for route in found
            if route["Properties"]["AuthorizationType"] == "NONE"
        }

    methods = ("GET", "HEAD", "POST")
    assert keys(demo) == {
        *(f"{method} /approvals/{{rollout}}/{{approver}}" for method in methods), "POST /argocd",
    }  # fmt: skip
    assert keys(private) == {
        *(f"{method} /approvals/{{rollout}}" for method in methods), "GET /login/{rollout}", "GET /callback",
        "POST /sign-out", "POST /argocd",
    }  # fmt: skip
