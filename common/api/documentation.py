"""The description as a file, and two pages that show it, both from this house alone."""

import functools
from typing import Any

from csp.decorators import csp_update
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer

#: Redoc puts its styles in by script: into elements that begin empty (the hash of nothing), and one that does not.
REDOC_STYLES = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
    "'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='",
)


@functools.cache
def described() -> bytes:
    """One description a process: it does not change while the code runs."""
    document: Any = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]  # the framework's
    return OpenApiJsonRenderer().render(document, renderer_context={})


@require_safe
def schema(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(described(), content_type="application/vnd.oai.openapi+json")


@require_safe
def swagger(request: HttpRequest) -> HttpResponse:
    return render(request, "api/swagger.html")


@csp_update({"style-src": list(REDOC_STYLES)})
@require_safe
def redoc(request: HttpRequest) -> HttpResponse:
    return render(request, "api/redoc.html")
