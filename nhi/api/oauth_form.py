"""The form that `/oauth/token` takes, and the client's credentials in it or beside it (RFC 6749, 2.3.1)."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import parse_qsl, unquote_plus

from rest_framework.parsers import BaseParser

from common.api import parsers
from common.errors import InvalidInput

FEW = 20


class BadRequest(InvalidInput):
    """RFC 6749's `invalid_request`."""

    code = "invalid_request"


@dataclass(frozen=True, repr=False)
class Client:
    id: str
    secret: str


class Form(BaseParser):
    """Form encoding where every name stands once."""

    media_type = "application/x-www-form-urlencoded"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002 - the framework's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002 - the same
    ) -> dict[str, str]:
        try:
            pairs = parse_qsl(
                parsers.read(stream).decode(), keep_blank_values=True, errors="strict", max_num_fields=FEW
            )
        except ValueError as error:
            raise BadRequest("The form cannot be read.") from error
        if len(dict(pairs)) != len(pairs):
            raise BadRequest("A parameter stands twice.")
        return dict(pairs)


def client(header: str | None, form: Mapping[str, str]) -> Client:
    """The client by HTTP Basic or by the form, and not by both."""
    in_form = "client_secret" in form
    if header is None:
        if not in_form or "client_id" not in form:
            raise BadRequest("Send client_id and client_secret, in the form or by HTTP Basic.")
        return Client(form["client_id"], form["client_secret"])
    if in_form:
        raise BadRequest("Send the client's credentials once: in the form or by HTTP Basic.")
    found = _basic(header)
    if form.get("client_id", found.id) != found.id:
        raise BadRequest("client_id and HTTP Basic name two clients.")
    return found


def _basic(header: str) -> Client:
    scheme, _, sent = header.strip().partition(" ")
    try:
        name, colon, secret = base64.b64decode(sent.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError) as error:
        raise BadRequest("The Authorization header cannot be read.") from error
    if scheme.lower() != "basic" or not colon:
        raise BadRequest("A client proves itself by HTTP Basic or in the form.")
    return Client(unquote_plus(name), unquote_plus(secret))
