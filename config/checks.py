"""System checks of the settings, for `manage.py check --deploy`."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Info, Warning  # noqa: A004 - Django's name for it

from common.asgi.client_address import DEFAULT_TRUSTED_NETWORKS

COUNTS = ("TRUSTED_PROXIES", "GRPC_TRUSTED_PROXIES")
DEFAULT_PROXY_NETWORKS, OPEN_METRICS = "config.W001", "config.I001"


def proxies_are_named(**_kwargs: Any) -> list[CheckMessage]:
    """With the default networks every host of the private network may say which address a caller has."""
    counts = [name for name in COUNTS if getattr(settings, name)]
    networks = {str(network) for network in settings.TRUSTED_PROXY_NETWORKS}
    if not counts or networks != set(DEFAULT_TRUSTED_NETWORKS):
        return []
    message = (
        f"{' and '.join(counts)} {'is' if len(counts) == 1 else 'are'} set, and TRUSTED_PROXY_NETWORKS is the default: "
        "any host with a loopback or private address may claim to be any caller."
    )
    hint = "Set TRUSTED_PROXY_NETWORKS to the addresses of your proxies, such as 10.0.3.7/32."
    return [Warning(message, hint=hint, id=DEFAULT_PROXY_NETWORKS)]


def metrics_are_guarded(**_kwargs: Any) -> list[CheckMessage]:
    """A proxy that forwards every path publishes them. No warning: a private port is as good as a token."""
    if settings.METRICS_TOKEN:
        return []
    message = "METRICS_TOKEN is not set: everybody who reaches the web port reads /metrics."
    hint = "Set METRICS_TOKEN to a secret of at least 32 characters, and send it from Prometheus as a bearer token."
    return [Info(message, hint=hint, id=OPEN_METRICS)]
