"""What A2A clients read before they know anybody here: cards at their well-known places, and the keys of those."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.utils.cache import get_conditional_response, patch_vary_headers
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from a2a import card_keys, cards, endpoints
from a2a.cards import Served
from nhi.api.authentication import BearerAuthentication
from nhi.authorization import authentication, oauth
from nhi.authorization.authentication import AuthenticatedActor, Unauthenticated
from nhi.choices import Kind
from nhi.models import Identity

VERSION = "A2A-Version"
#: Seconds. What an agent's owner takes back is gone from caches after that.
FRESH = 60


class Open(APIView):
    """For strangers too; whoever shows a token is somebody."""

    authentication_classes: tuple[type[BaseAuthentication], ...] = (BearerAuthentication,)
    permission_classes = ()
    http_method_names = ["get", "head"]
    schema = None

    @property
    def known(self) -> Any:
        return self.request.user


class WellKnownCard(Open):
    def get(self, request: Request, name: str) -> HttpResponseBase:
        version = request.headers.get(VERSION) or request.query_params.get(VERSION, "")
        caller = self.known or _by_api_key(request, name)
        return _answer(request._request, cards.served(name, version, caller))


class UsualCard(WellKnownCard):
    """Of the agent that this house was told to be known for, if any: many a client looks nowhere else."""

    def get(self, request: Request) -> HttpResponseBase:  # type: ignore[override]  # its path names nobody
        return super().get(request, settings.USUAL_AGENT)


class ContractCard(Open):
    def get(self, _request: Request, identity_id: UUID) -> Response:
        return Response(cards.of_contract(identity_id, self.known))


class Keys(Open):
    authentication_classes = ()

    def get(self, _request: Request) -> Response:
        return Response(card_keys.published(), headers={"Cache-Control": f"public, max-age={FRESH * 5}"})


def _answer(request: HttpRequest, found: Served) -> HttpResponseBase:
    answer = JsonResponse(found.card)
    kept = f"public, max-age={FRESH}" if found.is_public else "private, no-cache"
    answer.headers["ETag"], answer.headers["Cache-Control"] = found.etag, kept
    answer.headers["Last-Modified"] = found.modified.strftime("%a, %d %b %Y %H:%M:%S GMT")
    patch_vary_headers(answer, [VERSION, "Authorization"])
    at = int(found.modified.timestamp())
    return get_conditional_response(request, found.etag, at, answer) or answer


def _by_api_key(request: Request, name: str) -> AuthenticatedActor | None:
    """Who calls by a header of the agent's own; a key that is none is no other answer than none at all."""
    agent = Identity.objects.filter(kind=Kind.AGENT, name=name).first() if name.isprintable() else None
    token = endpoints.bearer_of(endpoints.of(agent), request.headers) if agent else None
    if not token:
        return None
    try:
        return authentication.authenticate(token, audience=oauth.rest_resource())
    except Unauthenticated:
        return None
