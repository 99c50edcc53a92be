"""Adds, changes, enables and disables servers."""

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
from mcp.servers import health, secrets, status_changes, validation
from mcp.tools import catalogue
from nhi.actors import Actor
from nhi.audit import events
from nhi.models import User
from nhi.validation import Problems

#: The connection settings. After a change of these, earlier approvals of the server's tools no longer hold.
REACH_FIELDS = ("transport", "command", "args", "env", "base_url", "headers")
DESCRIPTION_FIELDS = ("description", "owner", "timeout", "capabilities", "schema_version")


def create(
    *,
    actor: Actor,
    name: str,
    owner: User,
    configuration: Mapping[str, Any],
    secret_values: Mapping[str, str] | None = None,
    connect_now: bool = True,
) -> Server:
    """Add a server and connect to it for at most ten seconds. A server that does not answer is added as offline."""
    actor.require("mcp.add_server", "add servers")
    server = Server(name=name, owner=owner, created_by_id=actor.id, created_by_name=actor.name)
    server.changed_by_id, server.changed_by_name = actor.id, actor.name
    values = dict(secret_values or {})
    for field, value in configuration.items():
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
        field_errors = [FieldError("name", "This name is taken.")]
        raise Duplicate(f"There is already a server {name}.", fields=field_errors) from error
    return connect(actor=actor, server=server) if connect_now else server


def change(
    *, actor: Actor, server: Server, secret_values: Mapping[str, str | None] | None = None, **configuration: Any
) -> Server:
    """Change a server. After a change of the connection settings, its tools need a new review."""
    actor.require("mcp.change_server", "change servers")
    values = dict(secret_values or {})
    with transaction.atomic():
        current = Server.objects.select_for_update(of=("self",)).select_related("owner").get(pk=server.pk)
        before = audit_facts(current)
        settings_before = {name: getattr(current, name) for name in REACH_FIELDS}
        _apply_fields(current, configuration)
        _check_changed_server(current, settings_before, values).raise_if_any()
        settings_changed = bool(values) or any(settings_before[name] != getattr(current, name) for name in REACH_FIELDS)
        if settings_changed:
            current.revision += 1
            current.changed_by_id, current.changed_by_name = actor.id, actor.name
            current.changed_at = timezone.now()
        current.save()
        for name, value in values.items():
            _replace_secret(actor, current, name, value)
        if settings_changed:
            catalogue.repin_definitions(current)
        after = audit_facts(current)
        changed = [name for name in after if before[name] != after[name]]
        # Secrets have an event of their own.
        if changed:
            events.write(
                "server.changed",
                actor=actor,
                subject=current,
                before={name: before[name] for name in changed},
                after={name: after[name] for name in changed},
            )
    return connect(actor=actor, server=current) if settings_changed and current.enabled else current


def check_new(*, name: str, owner: User, configuration: Mapping[str, Any], secret_values: Mapping[str, str]) -> None:
    """Validate a new server without adding it, so that a form can show these errors together with its own."""
    problems = _check_new_server(Server(name=name, owner=owner, **configuration), secret_values)
    problems.unless(not Server.objects.filter(name=name).exists(), "name", "This name is taken.")
    problems.raise_if_any()


def check_change(*, server: Server, secret_values: Mapping[str, str | None], **configuration: Any) -> None:
    """Validate a change without saving it."""
    current = read(server)
    before = {name: getattr(current, name) for name in REACH_FIELDS}
    _apply_fields(current, configuration)
    _check_changed_server(current, before, secret_values).raise_if_any()


def connect(*, actor: Actor, server: Server) -> Server:
    """Run the first handshake and list the tools, after a server was added, changed or enabled."""
    del actor  # adding a server includes connecting to it, without the permission to operate servers
    with suppress(catalogue.ServerChangedMeanwhile):  # the other change connects to the server as well
        health.refresh(server=server, timeout=health.CONNECT_SECONDS)
    return read(server)


def enable(*, actor: Actor, server: Server, reason: str) -> Server:
    _set_enabled(actor, server, reason, enabled=True)
    return connect(actor=actor, server=read(server))


def disable(*, actor: Actor, server: Server, reason: str) -> Server:
    """Disable a server: its tools can no longer be called. Active calls finish."""
    _set_enabled(actor, server, reason, enabled=False)
    fresh = read(server)
    status_changes.move_status(fresh, Connection.OFFLINE, f"Disabled: {reason}", actor=actor)
    return read(server)


def read(server: Server) -> Server:
    return Server.objects.select_related("owner").get(pk=server.pk)


def audit_facts(server: Server) -> dict[str, Any]:
    """Return the audited fields of a server, with the names of its secrets but never their values."""
    return {
        **{name: getattr(server, name) for name in (*REACH_FIELDS, *DESCRIPTION_FIELDS) if name != "owner"},
        "owner": server.owner.username,
        "named_values": sorted(secret.name for secret in server.secrets.all()),
    }


def _set_enabled(actor: Actor, server: Server, reason: str, *, enabled: bool) -> None:
    actor.require("mcp.operate_server", "enable and disable servers")
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic():
        updated = Server.objects.filter(pk=server.pk, enabled=not enabled).update(
            enabled=enabled, revision=F("revision") + 1, updated_at=Now()
        )
        if not updated:
            raise Conflict(f"{server} is {'enabled' if enabled else 'disabled'} already. Nothing was changed.")
        event = "server.enabled" if enabled else "server.disabled"
        events.write(
            event,
            actor=actor,
            subject=server,
            before={"enabled": not enabled},
            after={"enabled": enabled},
            reason=reason,
        )


def _apply_fields(server: Server, configuration: Mapping[str, Any]) -> None:
    for field, value in configuration.items():
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
    new_values = {name: value for name, value in values.items() if value}
    remaining_names = {secret.name for secret in server.secrets.all()} - (values.keys() - new_values.keys())
    problems = Problems()
    validation.check_server(problems, server, remaining_names | new_values.keys())
    validation.check_secrets(problems, new_values)
    if _reaches_another_server(server, before):
        _require_secrets_again(problems, remaining_names - values.keys())
    return problems


def _reaches_another_server(server: Server, before: Mapping[str, Any]) -> bool:
    """Return whether the settings lead to another program or origin, which must not receive the existing secrets."""
    same_program = all(getattr(server, name) == before[name] for name in ("transport", "command", "args"))
    return not same_program or _origin(server.base_url) != _origin(before["base_url"])


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def _require_secrets_again(problems: Problems, names: Iterable[str]) -> None:
    for name in sorted(names):
        message = (
            "Another server is reached now: give this secret again if it is that one's too, or take it away (null)."
        )
        problems.add(f"secrets.{name}", message)


def _put_secret(actor: Actor, server: Server, name: str, value: str) -> None:
    secret = ServerSecret(server=server, name=name, set_by_name=actor.name)
    secrets.seal_secret(secret, value)
    secret.save(force_insert=True)


def _replace_secret(actor: Actor, server: Server, name: str, value: str | None) -> None:
    """Replace a secret by a new row, so that definitions pinned with the old one count as changed. None removes it."""
    ServerSecret.objects.filter(server=server, name=name).delete()
    if value:
        _put_secret(actor, server, name, value)
    events.write("server.secret_set", actor=actor, subject=server, details={"name": name, "removed": not value})
