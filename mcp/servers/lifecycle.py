"""Adding servers, changing how they are reached, and switching them off and on."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from common.errors import Conflict, Duplicate, FieldError
from mcp.choices import Connection
from mcp.limits import breakers
from mcp.models import Server, ServerSecret
from mcp.servers import connection_status, health, secrets, validation
from mcp.tools import catalogue
from nhi.actors import Actor
from nhi.audit import events
from nhi.models import User
from nhi.validation import Problems

#: How a server is reached: a change of these is another server, as far as what was approved goes.
REACH_FIELDS = ("transport", "command", "args", "env", "base_url", "headers")
DESCRIPTION_FIELDS = ("description", "owner", "timeout", "capabilities", "schema_version")


def create(
    *, actor: Actor, name: str, owner: User, given: Mapping[str, Any], secret_values: Mapping[str, str] | None = None,
    meet_now: bool = True,
) -> Server:  # fmt: skip
    """Add a server and meet it, for ten seconds at most; one that does not answer is added as offline."""
    actor.require("mcp.add_server", "add servers")
    server = Server(name=name, owner=owner, created_by_id=actor.id, created_by_name=actor.name)
    server.changed_by_id, server.changed_by_name = actor.id, actor.name
    values = dict(secret_values or {})
    for field, value in given.items():
        setattr(server, field, value)
    _check_new_server(server, values).raise_if_any()
    try:
        with transaction.atomic():
            server.save(force_insert=True)
            for secret_name, value in values.items():
                _put_secret(actor, server, secret_name, value)
            breakers.ensure_for_server(server)
            events.write("server.added", actor=actor, subject=server, after=audit_facts(server))
    except IntegrityError as error:
        taken = [FieldError("name", "This name is taken.")]
        raise Duplicate(f"There is already a server {name}.", fields=taken) from error
    return connect(actor=actor, server=server) if meet_now else server


def change(
    *, actor: Actor, server: Server, secret_values: Mapping[str, str | None] | None = None, **given: Any
) -> Server:
    """Change a server; another way to reach it is another server, so its tools are looked at again."""
    actor.require("mcp.change_server", "change servers")
    values = dict(secret_values or {})
    with transaction.atomic():
        current = Server.objects.select_for_update(of=("self",)).select_related("owner").get(pk=server.pk)
        before = audit_facts(current)
        reached_before = {name: getattr(current, name) for name in REACH_FIELDS}
        _apply_fields(current, given)
        _check_changed_server(current, reached_before, values).raise_if_any()
        reached = bool(values) or any(reached_before[name] != getattr(current, name) for name in REACH_FIELDS)
        if reached:
            current.revision += 1
            current.changed_by_id, current.changed_by_name = actor.id, actor.name
            current.changed_at = timezone.now()
        current.save()
        for name, value in values.items():
            _replace_secret(actor, current, name, value)
        if reached:
            catalogue.repin_definitions(current)
        after = audit_facts(current)
        changed = [name for name in after if before[name] != after[name]]
        # A secret that was set is on record by itself.
        if changed:
            events.write(
                "server.changed",
                actor=actor,
                subject=current,
                before={name: before[name] for name in changed},
                after={name: after[name] for name in changed},
            )
    return connect(actor=actor, server=current) if reached and current.enabled else current


def check_new(*, name: str, owner: User, given: Mapping[str, Any], secret_values: Mapping[str, str]) -> None:
    """Raise all that adding it would refuse, and add nothing: a form says that beside what it found itself."""
    problems = _check_new_server(Server(name=name, owner=owner, **given), secret_values)
    problems.unless(not Server.objects.filter(name=name).exists(), "name", "This name is taken.")
    problems.raise_if_any()


def check_change(*, server: Server, secret_values: Mapping[str, str | None], **given: Any) -> None:
    """The same of a change."""
    current = read(server)
    before = {name: getattr(current, name) for name in REACH_FIELDS}
    _apply_fields(current, given)
    _check_changed_server(current, before, secret_values).raise_if_any()


def connect(*, actor: Actor, server: Server) -> Server:
    """The first handshake and list of tools, or the first ones after a change."""
    del actor  # whoever added it may not be one who runs servers; this is part of the adding
    with suppress(catalogue.ServerChangedMeanwhile):  # whoever changed it meets it, too
        health.refresh(server=server, timeout=health.CONNECT_SECONDS)
    return read(server)


def enable(*, actor: Actor, server: Server, reason: str) -> Server:
    _set_enabled(actor, server, reason, on=True)
    return connect(actor=actor, server=read(server))


def disable(*, actor: Actor, server: Server, reason: str) -> Server:
    """Nothing of it may be called from here on; calls that are under way finish."""
    _set_enabled(actor, server, reason, on=False)
    fresh = read(server)
    connection_status.move_status(fresh, Connection.OFFLINE, f"Disabled: {reason}", actor=actor)
    return read(server)


def read(server: Server) -> Server:
    return Server.objects.select_related("owner").get(pk=server.pk)


def audit_facts(server: Server) -> dict[str, Any]:
    """What the record shows of it: names of secrets, never their values."""
    return {
        **{name: getattr(server, name) for name in (*REACH_FIELDS, *DESCRIPTION_FIELDS) if name != "owner"},
        "owner": server.owner.username,
        "named_values": sorted(secret.name for secret in server.secrets.all()),
    }


def _set_enabled(actor: Actor, server: Server, reason: str, *, on: bool) -> None:
    actor.require("mcp.operate_server", "enable and disable servers")
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic():
        moved = Server.objects.filter(pk=server.pk, enabled=not on).update(
            enabled=on, revision=F("revision") + 1, updated_at=Now()
        )
        if not moved:
            raise Conflict(f"{server} is {'enabled' if on else 'disabled'} already. Nothing was changed.")
        event = "server.enabled" if on else "server.disabled"
        events.write(
            event, actor=actor, subject=server, before={"enabled": not on}, after={"enabled": on}, reason=reason
        )


def _apply_fields(server: Server, given: Mapping[str, Any]) -> None:
    for field, value in given.items():
        if field not in (*REACH_FIELDS, *DESCRIPTION_FIELDS):
            raise TypeError(f"{field} does not describe a server")
        setattr(server, field, value)


def _check_new_server(server: Server, values: Mapping[str, str]) -> Problems:
    problems = Problems()
    validation.check_name(problems, server.name)
    validation.check_server(problems, server, set(values))
    validation.check_secrets(problems, values)
    return problems


def _check_changed_server(server: Server, before: Mapping[str, Any], values: Mapping[str, str | None]) -> Problems:
    new = {name: value for name, value in values.items() if value}
    kept = {secret.name for secret in server.secrets.all()} - (values.keys() - new.keys())
    problems = Problems()
    validation.check_server(problems, server, kept | new.keys())
    validation.check_secrets(problems, new)
    if _reaches_another_server(server, before):
        _require_secrets_again(problems, kept - values.keys())
    return problems


def _reaches_another_server(server: Server, before: Mapping[str, Any]) -> bool:
    """Whether something else is reached now, which must not be handed what was meant for the one before."""
    same = all(getattr(server, name) == before[name] for name in ("transport", "command", "args"))
    return not same or _origin(server.base_url) != _origin(before["base_url"])


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def _require_secrets_again(problems: Problems, names: Iterable[str]) -> None:
    for name in sorted(names):
        said = "Another server is reached now: give this secret again if it is that one's too, or take it away (null)."
        problems.add(f"secrets.{name}", said)


def _put_secret(actor: Actor, server: Server, name: str, value: str) -> None:
    secret = ServerSecret(server=server, name=name, set_by_name=actor.name)
    secrets.seal_secret(secret, value)
    secret.save(force_insert=True)


def _replace_secret(actor: Actor, server: Server, name: str, value: str | None) -> None:
    """A new value is a new row: what was pinned with the old one shows that it changed. None takes it away."""
    ServerSecret.objects.filter(server=server, name=name).delete()
    if value:
        _put_secret(actor, server, name, value)
    events.write("server.secret_set", actor=actor, subject=server, details={"name": name, "removed": not value})
