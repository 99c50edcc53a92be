"""Every path of the REST API, its description, and the token endpoint."""

from django.urls import include, path, re_path

from a2a.api import urls as tasks
from common.api import documentation
from mcp.api import urls as gateway
from nhi.api import oauth as endpoints
from nhi.api import openapi  # noqa: F401 - its classes register themselves
from nhi.api.views import NoSuchPath
from nhi.authorization import oauth

urlpatterns = [
    path("api/nhi/", include("nhi.api.urls")),
    path("api/nhi/", include("mcp.api.urls")),
    path("api/nhi/", include("supervisor.api.urls")),
    path("api/nhi/", include("a2a.api.urls")),
    path("", include(tasks.bare)),
    path("", include(tasks.open_to_all)),
    path("", include(gateway.bare)),
    path("oauth/token", endpoints.Token.as_view()),
    path(".well-known/oauth-authorization-server", endpoints.ServerMetadata.as_view()),
    path(oauth.METADATA_PATH[1:], endpoints.ResourceMetadata.as_view()),
    path(oauth.REST_METADATA_PATH[1:], endpoints.ResourceMetadata.as_view()),
    path(oauth.MCP_METADATA_PATH[1:], endpoints.ResourceMetadata.as_view()),
    path("api/schema/", documentation.schema),
    path("api/docs/", documentation.swagger),
    path("api/redoc/", documentation.redoc),
    re_path("^(api/|mcp/(tools|calls)/|a2a/)", NoSuchPath.as_view()),
]
