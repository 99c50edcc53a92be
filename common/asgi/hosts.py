"""Whether a Host header is in ALLOWED_HOSTS, by Django's own rules, for interfaces outside Django."""

from functools import lru_cache

from django.conf import settings
from django.http.request import split_domain_port, validate_host


@lru_cache(maxsize=256)
def is_allowed_host(host: str) -> bool:
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)
