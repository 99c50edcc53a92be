"""OAuth 2.0 on the wire, as its RFCs spell it."""

from common.api.fields import Text, Texts, Whole, Word
from common.api.shapes import Input, Shape
from nhi.api.shapes import examples


class TokenRequest(Input):
    strict = False  # RFC 6749, 3.2: unrecognized parameters are ignored

    grant_type = Text(help_text="client_credentials")
    client_id = Text(required=False, help_text="The credential's public id; or in HTTP Basic.")
    client_secret = Text(required=False, help_text="The whole credential; or in HTTP Basic.")
    scope = Text(required=False, help_text="Capability patterns, one space apart, that narrow the token.")
    resource = Text(required=False, help_text="What the token is for (RFC 8707); everything here when left out.")

    example = {
        "grant_type": "client_credentials",
        "client_id": examples.PUBLIC_ID,
        "client_secret": examples.TOKEN,
        "scope": "github.*",
    }


class TokenShape(Shape):
    access_token = Text()
    token_type = Word(choices=["Bearer"])
    expires_in = Whole(help_text="Seconds, at most 900 and never past the credential's own end.")
    scope = Text()

    example = {"access_token": "nhi_tok_…", "token_type": "Bearer", "expires_in": 900, "scope": "github.*"}


class RefusedShape(Shape):
    """RFC 6749, 5.2."""

    error = Text()
    error_description = Text()

    example = {"error": "invalid_client", "error_description": "The client is not known, or its secret is wrong."}


class ServerMetadataShape(Shape):
    """RFC 8414."""

    issuer = Text()
    token_endpoint = Text()
    grant_types_supported = Texts()
    response_types_supported = Texts()
    token_endpoint_auth_methods_supported = Texts()
    service_documentation = Text()

    example = {
        "issuer": examples.HOUSE,
        "token_endpoint": f"{examples.HOUSE}/oauth/token",
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "service_documentation": f"{examples.HOUSE}/api/redoc/",
    }


class ResourceMetadataShape(Shape):
    """RFC 9728."""

    resource = Text()
    authorization_servers = Texts()
    bearer_methods_supported = Texts()
    resource_name = Text()
    resource_documentation = Text()

    example = {
        "resource": f"{examples.HOUSE}/api/nhi",
        "authorization_servers": [examples.HOUSE],
        "bearer_methods_supported": ["header"],
        "resource_name": "Gatehouse",
        "resource_documentation": f"{examples.HOUSE}/api/redoc/",
    }
