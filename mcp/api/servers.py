"""Servers: adding, changing, meeting, switching."""

from typing import Any, cast
from uuid import UUID

from django.db.models import Prefetch

from common.api.operations import listing, operation
from common.api.shapes import Input, Reason
from common.errors import GatehouseError, InvalidInput
from mcp.api.shapes import servers as shapes
from mcp.models import HealthReport, Server, Tool
from mcp.servers import health, lifecycle
from mcp.tools.catalogue import RefreshReport
from nhi.actors import Actor
from nhi.api.views import ApiView
from nhi.models import User

ROWS = Server.objects.select_related("owner").prefetch_related(
    "secrets", Prefetch("tools", Tool.objects.only("name", "state", "server_id").order_by("name"))
)


class NoAnswer(GatehouseError):
    """The server did not answer, or not with what it was asked for."""

    code = "upstream"


class Nothing(Input):
    """No key at all."""


def owner(view: ApiView, given: dict[str, Any]) -> User:
    """The person whom the body names; a person who names nobody is meant."""
    if "owner_id" in given:
        named: User = view.named(User.objects.all(), "owner_id", given.pop("owner_id"))
        return named
    if not view.actor.is_person:
        raise InvalidInput.for_field("owner_id", "Name a person: an identity owns no server.")
    return cast("User", User.objects.get(pk=view.actor.id))


class Servers(ApiView):
    @listing(gives=shapes.ServerItem, filters=shapes.ServerFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List servers

        Those you may see: all of them for console roles; else those you own, or own or may use a tool of. How the
        latter are reached is null. Without their metrics, which are in the answer to reading one."""
        return ROWS.visible_to(self.actor).with_configuration_for(self.actor).filter(**asked)

    @operation(
        takes=shapes.NewServer, gives=shapes.ServerShape, status=201, needs="mcp.add_server", refusals=(409,)
    )  # fmt: skip
    def post(self, given: dict[str, Any]) -> Server:
        """Add a server

        Answers after the first handshake and list of tools, 10 seconds at most. One that does not answer is added as
        `Offline`. Its tools wait for approval."""
        values = given.pop("secrets", {})
        whose = owner(self, given)
        made = lifecycle.create(
            actor=self.actor, name=given.pop("name"), owner=whose, configuration=given, secret_values=values
        )  # fmt: skip
        return fresh(made, self.actor)


class OfServer(ApiView):
    server: Server

    def find(self, **path: UUID) -> None:
        self.server = self.visible(ROWS.with_configuration_for(self.actor), path["server_id"])


class OneServer(OfServer):
    @operation(gives=shapes.ServerShape)
    def get(self) -> Server:
        """Read a server"""
        return self.server

    @operation(takes=shapes.ServerChange, partial=True, gives=shapes.ServerShape, needs="mcp.change_server")
    def patch(self, given: dict[str, Any]) -> Server:
        """Change a server

        Its name stays. Another way to reach it is another server: it is met again, and what was approved of its tools
        is to be looked at again."""
        values = given.pop("secrets", {})
        if "owner_id" in given:
            given["owner"] = owner(self, given)
        return fresh(lifecycle.change(actor=self.actor, server=self.server, secret_values=values, **given), self.actor)


class Test(OfServer):
    @operation(takes=Nothing, gives=shapes.TestedShape, needs="mcp.operate_server")
    def post(self, _given: dict[str, Any]) -> HealthReport:
        """Test a server

        One handshake, 10 seconds at most; the report is kept. The answer is 200 for an `Unhealthy` one too."""
        return health.check(server=self.server, actor=self.actor)


class Refresh(OfServer):
    @operation(takes=Nothing, gives=shapes.RefreshedShape, needs="mcp.operate_server", refusals=(502,))
    def post(self, _given: dict[str, Any]) -> RefreshReport:
        """Refresh a server's tools

        Asks for its list, 30 seconds at most. Nothing that is new or changed may be called before somebody approves
        it. A server that does not answer: 502."""
        report = health.refresh(server=self.server, actor=self.actor)
        if report is None:
            said = lifecycle.read(self.server)
            raise NoAnswer(said.last_error or said.status_reason)
        return report


class Enable(OfServer):
    @operation(takes=Reason, gives=shapes.ServerShape, needs="mcp.operate_server", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Server:
        """Enable a server

        Answers after it was met, 10 seconds at most."""
        return fresh(lifecycle.enable(actor=self.actor, server=self.server, reason=given["reason"]), self.actor)


class Disable(OfServer):
    @operation(takes=Reason, gives=shapes.ServerShape, needs="mcp.operate_server", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Server:
        """Disable a server

        Calls of its tools that arrive after this answer are refused; those under way finish."""
        return fresh(lifecycle.disable(actor=self.actor, server=self.server, reason=given["reason"]), self.actor)


class HealthReports(ApiView):
    @listing(gives=shapes.HealthReportShape, filters=shapes.HealthReportFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List reports of checks

        Newest first: each handshake on demand and by the clock, of the last 30 days."""
        rows = HealthReport.objects.select_related("server").filter(**asked)
        if self.actor.may("mcp.view_healthreport"):
            return rows
        # What a check found names programs and addresses: for who sees how the server is reached.
        return rows.filter(server__in=Server.objects.filter(owner_id=self.actor.id).values("pk"))


def fresh(server: Server, actor: Actor) -> Server:
    """With what a verb has written beside the row."""
    return ROWS.with_configuration_for(actor).get(pk=server.pk)
