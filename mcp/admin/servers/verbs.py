"""Verbs on one server: test it, ask for its tools, switch it off and on, let its breaker through."""

from typing import Any

from django.contrib import messages
from django.urls import path

from common.console import times
from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.errors import NotAllowed
from mcp import models as rows
from mcp.admin.servers import diagnosis
from mcp.admin.servers.hub import OfServer
from mcp.admin.tools import callers
from mcp.choices import Connection, DefinitionState, HealthStatus
from mcp.limits import breakers
from mcp.servers import health, lifecycle
from mcp.tools.catalogue import RefreshReport
from nhi.console.base import ActorDialog
from nhi.models import Identity


class OffForm(ConsoleForm):
    reason = ReasonField("Maintenance", "Unexpected behaviour", "No longer needed", "Owner asked")


class OnForm(ConsoleForm):
    reason = ReasonField("Ready for use", "Problem solved", "Owner asked")


class ResetForm(ConsoleForm):
    reason = ReasonField("Problem solved", "Owner asked")


class Verb(OfServer, ActorDialog):
    verb = ""
    right = "mcp.operate_server"
    #: The last part of its address over REST.
    rest = ""

    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed(f"You may not operate {self.server.name}.")
        self.actor.require(self.right, "operate servers")

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a server
        return f"{self.verb} {self.server.name}"

    def context(self) -> dict[str, Any]:
        return {"title": self.button, "impossible": self.impossible()}

    def impossible(self) -> str:
        """Why the state forbids it now."""
        return ""

    def by_api(self) -> ApiExample:
        return ApiExample(self.api(self.rest), {"reason": "…"})

    def said(self, sentence: str, *, fine: bool = True) -> str:
        (messages.success if fine else messages.warning)(self.request, sentence)
        return self.url("hub")


class Meeting(Verb):
    """A verb that asks the server something; one that is disabled is asked nothing."""

    def impossible(self) -> str:
        return "" if self.server.enabled else f"{self.server.name} is disabled. Enable it first."

    def by_api(self) -> ApiExample:
        return ApiExample(self.api(self.rest))


class Test(Meeting):
    verb, rest = "Test", "test"
    lead = "Shakes hands with it now and takes down how that went. Nothing of its tools is called."

    def act(self, form: ConsoleForm) -> str:
        report = health.check(server=self.server, actor=self.actor)
        fresh = lifecycle.read(self.server)
        if report.status == HealthStatus.UNHEALTHY:
            return self.said(f"{fresh} did not answer: {report.error_message} {diagnosis.remedy(fresh)}", fine=False)
        slow = "" if report.status == HealthStatus.HEALTHY else " That is slow."
        return self.said(f"{fresh} answered in {times.lasted(report.handshake_latency_ms or 0)}.{slow}")


class Refresh(Meeting):
    verb, rest = "Refresh the tools of", "refresh"
    lead = "Asks it for its tools now. What is new or changed waits for an approval before it can be called."

    def act(self, form: ConsoleForm) -> str:
        report = health.refresh(server=self.server, actor=self.actor)
        if report is None:
            fresh = lifecycle.read(self.server)
            return self.said(f"{fresh} did not answer: {fresh.last_error} {diagnosis.remedy(fresh)}", fine=False)
        self.said(found(report), fine=not report.refused)
        return self.url("tools")


def found(report: RefreshReport) -> str:
    """What a refresh brought, in one sentence."""
    counts = ((report.added, "new"), (report.changed, "changed"), (report.withdrawn, "gone"))
    said = [f"{len(names)} {words}" for names, words in counts if names]
    sentence = f"Tools: {', '.join(said)}, {report.unchanged} as before." if said else "Its tools are as before."
    if report.refused:
        first = report.refused[0]
        more = f" And {len(report.refused) - 1} more." if len(report.refused) > 1 else ""
        sentence += f" Not taken: {first['name']}. {first['message']}{more}"
    return sentence


class Disable(Verb):
    verb, rest, danger, form_class = "Disable", "disable", True, OffForm
    lead = "No call of its tools is let through from then on. Its tools, grants and approvals stay as they are."

    def impossible(self) -> str:
        return "" if self.server.enabled else f"{self.server.name} is disabled already."

    def effects(self) -> list[Effect]:
        usable = Identity.objects.filter(tool__server=self.server, tool__state=DefinitionState.APPROVED)
        tools = list(usable)
        agents, calls = len(callers.callers(tools)), rows.Call.objects.filter(server_id=self.server.pk).count()
        to = f"to {agents} {'agent' if agents == 1 else 'agents'}"
        return [
            counted("tools", len(tools), f"{{}} tool becomes unavailable {to}", f"{{}} tools become unavailable {to}"),
            counted("calls", calls, "{} call in flight finishes", "{} calls in flight finish"),
        ]

    def act(self, form: ConsoleForm) -> str:
        lifecycle.disable(actor=self.actor, server=self.server, reason=form.cleaned_data["reason"])
        return self.said(f"{self.server.name} is disabled.")


class Enable(Verb):
    verb, rest, form_class = "Enable", "enable", OnForm
    lead = "It is met at once; calls of its approved tools pass again as soon as it answers."

    def impossible(self) -> str:
        return f"{self.server.name} is enabled already." if self.server.enabled else ""

    def act(self, form: ConsoleForm) -> str:
        fresh = lifecycle.enable(actor=self.actor, server=self.server, reason=form.cleaned_data["reason"])
        fine = fresh.status == Connection.READY
        return self.said(f"{fresh} is enabled and {fresh.status.lower()}: {fresh.status_reason}", fine=fine)


class ResetBreaker(Verb):
    verb, form_class, right = "Reset the breaker of", ResetForm, "mcp.reset_breaker"
    lead = "Calls flow at once, without waiting for a probe. The next faults count from nought."

    def by_api(self) -> ApiExample:
        return ApiExample(f"/api/nhi/mcp/breakers/{self.server.name}/reset", {"reason": "…"})

    def impossible(self) -> str:
        return "" if self.breaker else f"{self.server.name} has no breaker yet."

    def act(self, form: ConsoleForm) -> str:
        assert self.breaker is not None  # `impossible` is drawn otherwise
        breakers.reset(actor=self.actor, breaker=self.breaker, reason=form.cleaned_data["reason"])
        return self.said(f"The breaker of {self.server.name} is closed: calls flow.")


URLS = [
    path("<uuid:pk>/test/", Test.as_view(), name="mcp_server_test"),
    path("<uuid:pk>/refresh/", Refresh.as_view(), name="mcp_server_refresh"),
    path("<uuid:pk>/disable/", Disable.as_view(), name="mcp_server_disable"),
    path("<uuid:pk>/enable/", Enable.as_view(), name="mcp_server_enable"),
    path("<uuid:pk>/reset-breaker/", ResetBreaker.as_view(), name="mcp_server_breaker_reset"),
]
