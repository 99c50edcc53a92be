"""The security headers of responses that Django does not build."""

from django.conf import settings

HeaderPairs = tuple[tuple[bytes, bytes], ...]


def security_headers() -> tuple[tuple[bytes, bytes], ...]:
    """Return the security headers that Django's middleware would set on an API response."""
    always = (
        (b"cache-control", b"no-store, private"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", settings.SECURE_REFERRER_POLICY.encode()),
    )
    if not settings.SECURE_HSTS_SECONDS:
        return always
    words = ["includeSubDomains"] if settings.SECURE_HSTS_INCLUDE_SUBDOMAINS else []
    words += ["preload"] if settings.SECURE_HSTS_PRELOAD else []
    value = "; ".join([f"max-age={settings.SECURE_HSTS_SECONDS}", *words])
    return (*always, (b"strict-transport-security", value.encode()))
