"""The description as a file, and two pages that show it, both from this house alone."""

import functools
from typing import Any

from csp.decorators import csp_update
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer

#: Redoc's styles are put in by script, into style elements that begin empty: this is the hash of nothing.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"


@functools.cache
def described() -> bytes:
    """One description a process: it does not change while the code runs."""
    made: Any = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]  # the framework's
    return OpenApiJsonRenderer().render(made, renderer_context={})


@require_safe
def schema(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(described(), content_type="application/vnd.oai.openapi+json")


@require_safe
def swagger(request: HttpRequest) -> HttpResponse:
    return render(request, "api/swagger.html")


@csp_update({"style-src": [EMPTY_STYLE]})
@require_safe
def redoc(request: HttpRequest) -> HttpResponse:
    return render(request, "api/redoc.html")
