"""How callers prove who they are, said to the schema."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class Bearer(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers by subclassing
    target_class = "nhi.api.authentication.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:  # noqa: ARG002 - the framework's signature
        said = "`Authorization: Bearer nhi_…`: an identity's credential, a short-lived token, or a person's own token."
        return {"type": "http", "scheme": "bearer", "description": said}


class Session(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the same
    target_class = "nhi.api.authentication.ConsoleSession"
    name = "console"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:  # noqa: ARG002 - the framework's signature
        said = "The console's session; unsafe methods send the CSRF cookie's value as `X-CSRFToken` too."
        return {"type": "apiKey", "in": "cookie", "name": "gatehouse", "description": said}
