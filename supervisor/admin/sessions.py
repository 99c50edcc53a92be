"""The list of sessions: conversations with agents that stay."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern

from common.console.lists import Bulk, Preset, choice_filter, text_filter
from common.console.pages import Control, link
from common.templatetags.console import as_curl
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of, may_change
from supervisor.admin import executions_bulk, sessions_cells, sessions_page, sessions_verbs
from supervisor.choices import Mode, SessionState
from supervisor.models import Agent, Session


@admin.register(Session)
class SessionAdmin(VisibleRowsAdmin):
    title = "Sessions"
    lead = "Conversations with interactive agents: one process each, which stays until the session is closed."
    view_right = "supervisor.view_session"
    columns = sessions_cells.COLUMNS
    filters = (
        choice_filter("state", "State", "state", SessionState.choices),
        text_filter("agent", "Agent", "agent__name"),
        text_filter("by", "Opened by", "opened_by_name"),
    )
    order = ("-created_at", "-id")
    bulk: tuple[Bulk, ...] = ()
    presets = (Preset("All"), Preset("Open", "state=open"), Preset("Closed", "state=closed"))
    empty_title = "Nobody has talked to an agent yet"
    empty_words = (
        "A session is a conversation with an interactive agent: one process, which stays until it is closed. It is "
        "opened from the agent's page."
    )
    empty_command = as_curl("POST", "/api/nhi/supervisor/sessions", {"agent_id": "…"})
    empty_icon = "forum"
    api_path = "/api/nhi/supervisor/sessions"

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.select_related("agent", "execution").defer("execution__input", "execution__sealed_input")

    def first_steps(self, request: HttpRequest) -> list[Control]:
        """To the agents that can be talked to; in a house without one, to where one is added."""
        actor = actor_of(request)
        if Agent.objects.visible_to(actor).filter(mode=Mode.INTERACTIVE).exists():
            url = f"{link('supervisor_agent_changelist')}?mode={Mode.INTERACTIVE}"
            shown = executions_bulk.may_any(actor)
            return [Control("Choose an agent to talk to", url, "forum", dialog=False)] if shown else []
        if not may_change(request, "supervisor.add_agent"):
            return []
        return [Control("Add an interactive agent", link("supervisor_agent_add"), "add", dialog=False)]

    def saved_views(self, request: HttpRequest) -> list[tuple[str, str]]:
        actor = actor_of(request)
        mine = [] if actor.only_reads else [("Mine", urlencode({"by": actor.name}))]
        return [*mine, *super().saved_views(request)]

    def row_url(self, row: Any) -> str:
        return link("supervisor_session_page", row.pk)

    def pages(self) -> list[URLPattern]:
        return [*sessions_page.URLS, *sessions_verbs.URLS]
