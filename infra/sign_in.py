"""Who signs approvers in where the configuration names no issuer: a user pool of the cluster's own.

People are created by an administrator, and come in with a passkey that verifies its user, or with a password
and a one-time code. Nobody signs up, and nobody can make an e-mail address theirs without proving it.
"""

import hashlib

from aws_cdk import RemovalPolicy
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from infra.findings import acknowledge


class SignIn(Construct):
    """A Cognito user pool with managed login and one public client."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: str, account: str, region: str, base_url: str
    ) -> None:
        super().__init__(scope, id)
        # Unique among all pools of a region, and short: a passkey's site has at most 63 characters.
        # A name of ours could hold a word that AWS keeps for itself.
        prefix = f"aicr-{hashlib.sha256(f'{account}/{region}/{cluster}'.encode()).hexdigest()[:16]}"
        front = "auth-fips" if region.startswith("us-gov-") else "auth"
        self.pool = cognito.CfnUserPool(
            self,
            "Pool",
            user_pool_name=f"aicr-pipeline-{cluster}",
            user_pool_tier="ESSENTIALS",
            deletion_protection="ACTIVE",
            username_attributes=["email"],
            username_configuration=cognito.CfnUserPool.UsernameConfigurationProperty(case_sensitive=False),
            auto_verified_attributes=["email"],
            # A new address counts once its owner answered; until then the old one stands.
            user_attribute_update_settings=cognito.CfnUserPool.UserAttributeUpdateSettingsProperty(
                attributes_require_verification_before_update=["email"]
            ),
            admin_create_user_config=cognito.CfnUserPool.AdminCreateUserConfigProperty(
                allow_admin_create_user_only=True
            ),
            account_recovery_setting=cognito.CfnUserPool.AccountRecoverySettingProperty(
                recovery_mechanisms=[
                    cognito.CfnUserPool.RecoveryOptionProperty(name="admin_only", priority=1)
                ]
            ),
            policies=cognito.CfnUserPool.PoliciesProperty(
                password_policy=cognito.CfnUserPool.PasswordPolicyProperty(
                    minimum_length=16,
                    require_lowercase=True,
                    require_uppercase=True,
                    require_numbers=True,
                    require_symbols=True,
                    temporary_password_validity_days=3,
                ),
                sign_in_policy=cognito.CfnUserPool.SignInPolicyProperty(
                    allowed_first_auth_factors=["PASSWORD", "WEB_AUTHN"]
                ),
            ),
            # A passkey that verifies its user is both factors; a password takes a one-time code besides.
            mfa_configuration="ON",
            enabled_mfas=["SOFTWARE_TOKEN_MFA"],
            web_authn_relying_party_id=f"{prefix}.{front}.{region}.amazoncognito.com",
            web_authn_user_verification="required",
            web_authn_factor_configuration="MULTI_FACTOR_WITH_USER_VERIFICATION",
        )
        self.pool.apply_removal_policy(RemovalPolicy.RETAIN)
        acknowledge(
            self.pool,
            "AwsSolutions-COG3",
            "Threat protection needs the Plus plan, and judges passwords; administrators create the people "
            "here, a second factor is required, and a session lasts 15 minutes.",
        )
        acknowledge(
            self.pool,
            "AwsSolutions-COG8",
            "The Plus plan adds threat protection for passwords and nothing that passkeys need.",
        )
        self.domain = cognito.CfnUserPoolDomain(
            self, "Domain", domain=prefix, user_pool_id=self.pool.ref, managed_login_version=2
        )
        self.client = cognito.CfnUserPoolClient(
            self,
            "Client",
            user_pool_id=self.pool.ref,
            client_name="approval-pages",
            # PKCE proves who began a sign-in; there is no secret to keep.
            generate_secret=False,
            allowed_o_auth_flows_user_pool_client=True,
            allowed_o_auth_flows=["code"],
            allowed_o_auth_scopes=["openid", "email"],
            callback_ur_ls=[f"{base_url}/callback"],
            supported_identity_providers=["COGNITO"],
            explicit_auth_flows=["ALLOW_USER_AUTH"],
            prevent_user_existence_errors="ENABLED",
            enable_token_revocation=True,
            read_attributes=["email", "email_verified"],
            # Nobody changes an address through this client.
            write_attributes=["nickname"],
            id_token_validity=5,
            access_token_validity=5,
            refresh_token_validity=60,
            token_validity_units=cognito.CfnUserPoolClient.TokenValidityUnitsProperty(
                id_token="minutes",  # noqa: S106 - a unit
                access_token="minutes",  # noqa: S106 - a unit
                refresh_token="minutes",  # noqa: S106 - a unit
            ),
        )
        cognito.CfnManagedLoginBranding(
            self,
            "Branding",
            user_pool_id=self.pool.ref,
            client_id=self.client.ref,
            use_cognito_provided_values=True,
        )
        self.issuer = self.pool.attr_provider_url

    @property
    def told(self) -> dict[str, str]:
        """What the pages must know of it."""
        return {"issuer": self.issuer, "clientId": self.client.ref, "groupsClaim": "cognito:groups"}
