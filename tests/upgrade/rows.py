"""Rows that no work over REST writes: with them there is a row of every model, a sealed value of every place and a
token of every kind.

Nothing of these ends, or is removed for its age, within ten years: the product's verbs set nearer times, which are
replaced afterwards.
"""

from datetime import UTC, datetime
from typing import Any

from allauth.core.context import request_context
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from django.contrib.auth.models import Group, Permission
from django.http import HttpRequest
from django.utils import timezone

from common.api.signed_cursors import SignedCursors
from common.ids import uuid7
from mcp.gateway import call_statistics
from mcp.models import (
    BudgetWindow,
    Call,
    CallApproval,
    CallSlot,
    HealthReport,
    McpSession,
    SessionStartCount,
)
from mcp.server import exchange
from mcp.server.handshake import sessions
from mcp.servers import lifecycle
from mcp.tools import catalogue
from nhi import actors, process_heartbeats
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.audit import authentication_failures, refusal_limits
from nhi.choices import NoticeKind
from nhi.credentials import credentials, run_tokens, tokens
from nhi.identities import identities
from nhi.models import (
    Credential,
    Identity,
    NhiPermission,
    Process,
    RefusalCount,
    RefusalTotal,
    RefusedAuthentication,
    RoleAssignment,
    SignInGuard,
    ToolPermission,
    User,
    UserPermission,
)
from nhi.models.processes import ProcessKind
from nhi.people import read_markers, saved_views, sign_in_notices, sign_in_throttle
from tests.console import calling
from tests.console.gateway import LISTED, approve, tool_of
from tests.upgrade import values, work_rows

FAR = datetime(2126, 1, 1, tzinfo=UTC)
AGENT, SERVICE_ACCOUNT = "planner", "nightly-report"
PAGE = "nhi_identity_changelist"


def add(left: dict[str, Any]) -> dict[str, Any]:
    """Add them to a stopped installation; return what to expect of it. `left` is what work over REST left behind."""
    mara = User.objects.get(username="mara")
    people(mara)
    calls(mara)
    # The tokens of runs that are over are removed after a day.
    run_tokens.remove_old(FAR)
    run_token = work_rows.runs(FAR)
    lease = work_rows.tasks(FAR)
    tokens_by_kind = identity_tokens()
    postpone_ends()
    return {
        "tokens": {**tokens_by_kind, "person": left["person"], "run": run_token},
        "lease": lease,
        "card_keys": left["card_keys"],
        "cursors": {"rest": left["rest_cursor"], "mcp": mcp_cursor(), "a2a": work_rows.cursor(FAR)},
        "sealed": values.sealed(),
        **values.tables_and_counts(),
    }


def people(mara: User) -> None:
    """How people sign in, what they have seen, and what was refused to whom."""
    request = HttpRequest()
    request.user = mara
    with request_context(request):
        TOTP.activate(mara, "JBSWY3DPEHPK3PXP")
        RecoveryCodes.activate(mara)
    person = actors.person(mara)
    saved_views.create(actor=person, page=PAGE, name="Agents", query="kind=agent")
    read_markers.mark_seen(actor=person, page=PAGE, until=timezone.now(), individual_ids=[uuid7()])
    sign_in_notices.add(actor=SYSTEM, user=mara, kind=NoticeKind.FACTOR_RESET, reason="The phone was lost")
    sign_in_throttle.admit(username="mallory", source="192.0.2.7")
    authentication_failures.count_failure(
        authentication_failures.UNKNOWN_PUBLIC_ID, "credential_unknown", timezone.now()
    )
    mara.user_permissions.add(Permission.objects.earliest("pk"))
    ci = Identity.objects.get(name="ci")
    identities.set_console_roles(actor=SYSTEM, identity=ci, roles=[Group.objects.earliest("pk").name])
    Process.objects.all().delete()
    process_heartbeats.record_heartbeat(kind=ProcessKind.GRPC, host="worker.example", pid=7)
    refuse_too_often(person)


def refuse_too_often(person: actors.Actor) -> None:
    """Past the limit of a minute, a refusal is counted and is no row of the log."""
    for _ in range(2):
        refusal_limits.write_limited_event("task.refused", actor=person, reason="no_grant", details={})
        RefusalTotal.objects.update(total=refusal_limits.MAX_ROWS_PER_MINUTE)


def calls(mara: User) -> None:
    """A server with a secret, a tool that a person changed, calls under way, and sums of what was called."""
    person = actors.person(mara)
    reached = {"transport": "http", "base_url": "https://mcp.example.com/mcp", "headers": {"X-Key": "${KEY}"}}
    server = lifecycle.create(
        actor=person, name="upgrade", owner=mara, configuration=reached, secret_values={"KEY": "secret-of-a-server"},
        connect_now=False,
    )  # fmt: skip
    catalogue.record_listing(actor=SYSTEM, server=server, listed_tools=[LISTED])
    approve(tool_of(server))
    lifecycle.change(actor=person, server=server, headers={"X-Key": "${KEY}", "X-Team": "docs"})
    calling.call(ago=7300)
    call_statistics.roll_up()
    call = calling.flight()
    CallSlot.objects.create(budget_id=BudgetWindow.objects.earliest("pk").budget_id, call_id=call.pk, deadline=FAR)


def identity_tokens() -> dict[str, str]:
    """The long credential of an agent, of one that has a lease, and of a service account; a short-lived token."""
    agent = Identity.objects.get(name=AGENT)
    account = Identity.objects.get(name=SERVICE_ACCOUNT)
    worker = Identity.objects.get(name=work_rows.WORKS_AS)
    tool = Identity.objects.get(name="todo__create_todo")
    grants.give_tool(actor=SYSTEM, agent=agent, tool=tool, reason="Sees a tool in its list")
    issued = credentials.issue(actor=SYSTEM, holder=agent)
    mcp_session(issued.token)
    claims = tokens.ShortTokenClaims(
        identity_id=agent.pk,
        credential_id=issued.credential.pk,
        issued=int(timezone.now().timestamp() * 1000),
        expires=int(FAR.timestamp() * 1000),
        scope="todo.* github.*",
        audience="",
    )
    return {
        "agent": issued.token,
        "worker": credentials.issue(actor=SYSTEM, holder=worker).token,
        "service_account": credentials.issue(actor=SYSTEM, holder=account).token,
        "short": tokens.mint_short_token(claims),
    }


def mcp_session(token: str) -> None:
    """A session that has ended, which its row tells."""
    session_id = sessions.start(token, server="", version="2025-11-25", capabilities=frozenset())
    sessions.end(sessions.check(token, session_id, server=""))


def mcp_cursor() -> str:
    """The agent's page of tools that begins behind `a`."""
    caller = Identity.objects.get(name=AGENT)
    return SignedCursors(exchange.sign_cursor, str(caller.pk), "").encode_cursor("a", now=FAR.timestamp())


def postpone_ends() -> None:
    """Move every end, and every time by whose age rows are removed."""
    for model in (Identity, ToolPermission, NhiPermission, UserPermission, RoleAssignment):
        model.objects.filter(expires_at__isnull=False).update(expires_at=FAR)
    Credential.objects.filter(revoked_at=None).update(expires_at=FAR)
    CallApproval.objects.update(expires_at=FAR)
    Call.objects.update(deadline=FAR)
    McpSession.objects.update(expires_at=FAR)
    SignInGuard.objects.update(last_attempt_at=FAR)
    by_minute: list[RefusalTotal | RefusalCount | BudgetWindow | SessionStartCount] = [
        *RefusalTotal.objects.all(),
        *RefusalCount.objects.all(),
        *BudgetWindow.objects.all(),
        *SessionStartCount.objects.all(),
    ]
    for row in by_minute:
        # Each by itself: no two rows of one subject have the same minute.
        row.minute = FAR + (row.minute - datetime(2020, 1, 1, tzinfo=UTC))
        row.save(update_fields=["minute"])
    HealthReport.objects.update(timestamp=FAR)
    RefusedAuthentication.objects.update(minute=FAR)
