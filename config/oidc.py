"""Single sign-on with OpenID Connect, from OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET and OIDC_NAME."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from config import environment as env

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True)
class Oidc:
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str
    #: In the address that the provider sends people back to: /admin/sso/oidc/login/callback/
    provider_id: str = "oidc"

    @property
    def app(self) -> dict[str, object]:
        """The provider as allauth's settings know it."""
        return {
            "provider_id": self.provider_id,
            "name": self.name,
            "client_id": self.client_id,
            "secret": self.client_secret,
            "settings": {"server_url": self.issuer, "oauth_pkce_enabled": True},
        }


def from_environment() -> Oidc | None:
    """None when OIDC_ISSUER is empty; half of the values is a mistake that stops the start."""
    issuer, client_id, secret = (env.text(f"OIDC_{name}") for name in ("ISSUER", "CLIENT_ID", "CLIENT_SECRET"))
    if not issuer:
        for name, value in (
            ("OIDC_CLIENT_ID", client_id),
            ("OIDC_CLIENT_SECRET", secret),
            ("OIDC_NAME", env.text("OIDC_NAME")),
        ):
            if value:
                raise ImproperlyConfigured(f"{name} is set but OIDC_ISSUER is not; set both or neither.")
        return None
    check_issuer(issuer)
    for name, value in (("OIDC_CLIENT_ID", client_id), ("OIDC_CLIENT_SECRET", secret)):
        if not value:
            raise ImproperlyConfigured(f"{name} must be set when OIDC_ISSUER is.")
    name = env.text("OIDC_NAME", "single sign-on") or "single sign-on"
    if len(name) > 40 or not name.isprintable():
        raise ImproperlyConfigured("OIDC_NAME must be at most 40 printable characters; it stands on the button.")
    return Oidc(issuer.rstrip("/"), client_id, secret, name)


def check_issuer(issuer: str) -> None:
    try:
        parts = urlsplit(issuer)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    fine = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    if not (fine and host) or parts.username or parts.query or parts.fragment:
        raise ImproperlyConfigured(
            "OIDC_ISSUER must be an https address like https://login.example.org/realms/acme; http is for loopback."
        )
