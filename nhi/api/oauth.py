"""The token endpoint and its metadata. Refusals are RFC 6749's, not our envelope."""

from typing import Any

from django.conf import settings
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.response import Response
from rest_framework.views import APIView

from common.api import errors
from common.api.operations import Operation, operation
from common.errors import GatehouseError, InvalidInput
from nhi.api import oauth_form
from nhi.api.shapes.oauth import RefusedShape, ResourceMetadataShape, ServerMetadataShape, TokenRequest, TokenShape
from nhi.authorization import oauth
from nhi.authorization.authentication import Unauthenticated

#: Where RFC 6749 has a word of its own; whatever else a client sends wrong is an `invalid_request`.
WORDS = ("invalid_scope", "invalid_target", "unauthorized_client", "unsupported_grant_type")


GRANT_TYPE = "client_credentials"


class UnsupportedGrant(InvalidInput):
    code = "unsupported_grant_type"


class OpenView(APIView):
    """Open to everybody: what is asked here is how to get in."""

    authentication_classes = ()
    permission_classes = ()
    http_method_names = ["get", "head", "post"]

    def require(self, _operation: Operation) -> None:
        """Nothing: nobody is known here."""


class Token(OpenView):
    parser_classes = (oauth_form.Form,)
    #: Its refusals have another shape than everything else's.
    refused = RefusedShape

    @operation(takes=TokenRequest, gives=TokenShape)
    def post(self, given: dict[str, Any]) -> dict[str, Any]:
        """Exchange a credential for a short-lived token

        The client credentials grant of RFC 6749: the token lives at most 15 minutes, never longer than the credential,
        and can be narrowed to a scope of capability patterns. A narrowed token carries no console rights."""
        if given["grant_type"] != GRANT_TYPE:
            raise UnsupportedGrant(f"Only {GRANT_TYPE} is served here.")
        client = oauth_form.client(self.request.META.get("HTTP_AUTHORIZATION"), given)
        granted = oauth.exchange(
            client_id=client.id,
            secret=client.secret,
            scope=given.get("scope", ""),
            resource=given.get("resource", ""),
        )
        return {
            "access_token": granted.token,
            "token_type": "Bearer",
            "expires_in": granted.expires_in,
            "scope": granted.scope,
        }

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, UnsupportedMediaType):
            exc = oauth_form.BadRequest("Send a form, as application/x-www-form-urlencoded.")
        error, answer, reason = errors.understood(exc)
        if answer.status >= 500:
            body = {**errors.body(error, answer, reason), "error": "server_error", "error_description": error.message}
            return Response(body, status=answer.status)
        word = _word(error)
        status = 401 if word == "invalid_client" else answer.status if answer.status in {405, 413} else 400
        refused = {"error": word, "error_description": error.message}
        headers = {"WWW-Authenticate": 'Basic realm="Gatehouse"'} if status == 401 else None
        return Response(refused, status=status, headers=headers)


class ServerMetadata(OpenView):
    @operation(gives=ServerMetadataShape)
    def get(self) -> dict[str, Any]:
        """Read how tokens are issued here

        RFC 8414."""
        return {
            "issuer": settings.PUBLIC_URL,
            "token_endpoint": f"{settings.PUBLIC_URL}/oauth/token",
            "grant_types_supported": [GRANT_TYPE],
            "response_types_supported": [],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "service_documentation": f"{settings.PUBLIC_URL}/api/redoc/",
        }


class ResourceMetadata(OpenView):
    """Of the whole house, and of its API: the path behind the well-known one is the resource's own."""

    @operation(gives=ResourceMetadataShape)
    def get(self) -> dict[str, Any]:
        """Read who issues tokens for this resource

        RFC 9728."""
        own = self.request.path.removeprefix(oauth.METADATA_PATH)
        return {
            "resource": f"{settings.PUBLIC_URL}{own}",
            "authorization_servers": [settings.PUBLIC_URL],
            "bearer_methods_supported": ["header"],
            "resource_name": "Gatehouse",
            "resource_documentation": f"{settings.PUBLIC_URL}/api/redoc/",
        }


def _word(error: GatehouseError) -> str:
    if isinstance(error, Unauthenticated):
        return "invalid_client"
    code = getattr(error, "code", "")
    return code if code in WORDS else "invalid_request"
