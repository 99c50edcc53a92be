"""Changing how an agent is reached and how much it takes."""

import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings as installation
from django.db import transaction

from a2a import card_rights
from a2a.choices import Authentication, Transport
from a2a.models import Endpoint
from a2a.models.endpoints import LARGEST
from a2a.wire import media, methods
from common.db import clock
from nhi.access import rights
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import Kind
from nhi.models import Identity
from nhi.validation import Problems

#: What may be said of an endpoint, and where it stands in its description.
PLACES = {
    "transports": "transport_protocols",
    "authentication": "authentication.type",
    "api_key_header": "authentication.header_name",
    "open_as": "authentication.open_as_id",
    "tasks_per_minute": "rate_limiting.tasks_per_minute",
    "tasks_per_hour": "rate_limiting.tasks_per_hour",
    "supported_methods": "capabilities.supported_methods",
    "max_input_size": "capabilities.max_input_size",
    "max_output_size": "capabilities.max_output_size",
    "streaming": "capabilities.streaming_support",
    "max_concurrent_tasks": "capabilities.max_concurrent_tasks",
    "content_types": "capabilities.supported_content_types",
}
LIMITS = ("tasks_per_minute", "tasks_per_hour", "max_concurrent_tasks")
SIZES = ("max_input_size", "max_output_size")
MOST_TYPES = 50
HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
#: What a header of these names says is not the caller's to choose.
NOT_KEYS = frozenset(
    {
        "authorization", "cookie", "host", "connection", "content-length", "content-type", "transfer-encoding", "te",
        "accept", "accept-encoding", "accept-language", "forwarded", "idempotency-key", "last-event-id", "origin",
        "referer", "user-agent", "via", "x-request-id",
    }
)  # fmt: skip
#: What proxies and the protocol keep, log or read.
NOT_BEGINNINGS = ("x-forwarded-", "a2a-", "x-a2a-", "sec-", "proxy-")


def change(*, actor: Actor, identity: Identity, reason: str = "", **given: Any) -> Endpoint:
    """Set what is given and leave the rest; the first change makes the row. It holds for the next request."""
    card_rights.require_to_change(actor, identity, card_rights.ENDPOINT)
    problems = Problems()
    problems.check_reason(reason, required=False)
    problems.raise_if_any()
    with transaction.atomic():
        # Two who change at once do it one after the other, also where there is no row yet.
        Identity.objects.select_for_update(of=("self",)).get(pk=identity.pk)
        current = Endpoint.objects.select_related("open_as").filter(pk=identity.pk).first()
        row = current or Endpoint(identity=identity)
        before = facts(row)
        _describe(row, given)
        _check(actor, row, before, given)
        _record(actor, identity, row, before, reason)
    return row


def facts(row: Endpoint) -> dict[str, Any]:
    """What the record shows of it."""
    known = {name: getattr(row, name) for name in PLACES if name not in ("transports", "open_as")}
    ways = [str(way) for way in Transport if getattr(row, way)]
    return {"transports": ways, **known, "open_as": row.open_as.name if row.open_as else None}


def _describe(row: Endpoint, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in PLACES:
            raise TypeError(f"{name} does not describe an endpoint")
        if name == "transports":
            row.json_rpc, row.http_json, row.grpc = (way in value for way in Transport)
        else:
            setattr(row, name, value)
    if row.authentication != Authentication.NONE:
        row.open_as = None


def _record(actor: Actor, identity: Identity, row: Endpoint, before: dict[str, Any], reason: str) -> None:
    after = facts(row)
    changed = [name for name in after if before[name] != after[name]]
    if not changed:
        return
    row.updated_at = clock.database_now()
    row.save()
    events.write(
        "endpoint.changed", actor=actor, subject=identity, reason=reason,
        before={name: before[name] for name in changed}, after={name: after[name] for name in changed},
    )  # fmt: skip


def _check(actor: Actor, row: Endpoint, before: dict[str, Any], given: Mapping[str, Any]) -> None:
    problems = _Placed()
    problems.unless(row.json_rpc or row.http_json or row.grpc, "transports", "Leave at least one way in.")
    _check_authentication(problems, actor, row, before)
    for name in LIMITS:
        problems.check_positive(name, getattr(row, name))
    for name in SIZES:
        fine = 1 <= getattr(row, name) <= LARGEST
        problems.unless(fine, name, f"Use a whole number of bytes from 1 to {LARGEST}.")
    _check_methods(problems, row, given)
    check_types(problems, "content_types", row.content_types)
    problems.raise_if_any()


class _Placed(Problems):
    """Names each field as its description does."""

    def add(self, field: str, message: str) -> None:
        super().add(PLACES.get(field, field), message)


def _check_authentication(problems: Problems, actor: Actor, row: Endpoint, before: dict[str, Any]) -> None:
    name = row.api_key_header
    taken = name.lower() in NOT_KEYS or name.lower().startswith(NOT_BEGINNINGS)
    fine = HEADER.fullmatch(name) and not taken
    problems.unless(fine, "api_key_header", "Name a header of its own, such as X-API-Key: letters, digits and hyphens.")
    if row.authentication != Authentication.NONE:
        return
    said = "An endpoint that asks for nothing is for development servers: start Gatehouse with DEBUG=1 to allow it."
    problems.unless(installation.DEBUG or before["authentication"] == Authentication.NONE, "authentication", said)
    if row.open_as is None:
        problems.add("open_as", "Name the identity whose grants say what callers may who show nothing.")
    elif row.open_as.name != before["open_as"]:
        callers = row.open_as.kind in (Kind.AGENT, Kind.SERVICE_ACCOUNT) and row.open_as.pk != row.identity_id
        problems.unless(callers, "open_as", "Name another agent, or a service account.")
        problems.unless(rights.may_edit(actor, row.open_as), "open_as", "Name an identity that you may change.")


def _check_methods(problems: Problems, row: Endpoint, given: Mapping[str, Any]) -> None:
    if "supported_methods" not in given:
        return
    asked = row.supported_methods
    problems.unless(asked, "supported_methods", "Leave at least one operation.")
    unknown = [name for name in asked if name not in methods.ALL]
    problems.unless(not unknown, "supported_methods", f"A2A has no {', '.join(unknown)[:200]}.")
    # All of them is all that there will be.
    row.supported_methods = [] if set(asked) >= set(methods.ALL) else [name for name in methods.ALL if name in asked]


def check_types(problems: Problems, field: str, types: list[str]) -> None:
    problems.unless(len(types) <= MOST_TYPES, field, f"Name at most {MOST_TYPES} types.")
    problems.unless(len(set(types)) == len(types), field, "A type stands twice.")
    wrong = [one for one in types if not media.TYPE.fullmatch(one)]
    if wrong:
        problems.add(
            field, f"{wrong[0][:60]!r} is no media type; write one like text/plain, or image/* for all images."
        )
