"""The three kinds of grant: to tools, between identities, to people."""

from typing import Any, ClassVar
from uuid import UUID

from common.api.operations import listing, operation
from common.api.shapes import Reason
from nhi.access import bulk, grants
from nhi.access.bulk import ItemResult
from nhi.api.shapes import grants as shapes
from nhi.api.shapes.credentials import RevokedShape
from nhi.api.shapes.items import ToolResults
from nhi.api.views import ApiView
from nhi.models import Identity, NhiPermission, ToolPermission, User, UserPermission
from nhi.models.grants import Grant


class OfGrant(ApiView):
    rows: ClassVar[Any]
    grant: Grant

    def find(self, **path: UUID) -> None:
        self.grant = self.visible(self.rows, path["grant_id"])


def filtered(rows: Any, asked: dict[str, Any]) -> Any:
    """The rows that the query asks for; the state is no column."""
    state = asked.pop("state", None)
    rows = rows.filter(**asked)
    return rows if state is None else rows.in_state(state)


class ToolGrants(ApiView):
    @listing(gives=shapes.ToolGrantShape, filters=shapes.ToolGrantFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List grants to tools

        Newest first. An identity sees its own."""
        return filtered(ToolPermission.objects.visible_to(self.actor), asked)

    @operation(
        takes=shapes.NewToolGrant,
        gives=shapes.ToolGrantShape,
        status=201,
        needs="nhi.add_toolpermission",
        refusals=(409,),
    )
    def post(self, given: dict[str, Any]) -> ToolPermission:
        """Give an agent access to a tool

        While a grant of the same two is live: 409. Over one that has ended a new one is made."""
        agent = self.named(Identity.objects.all(), "agent_id", given.pop("agent_id"))
        tool = self.named(Identity.objects.all(), "tool_id", given.pop("tool_id"))
        return grants.give_tool(actor=self.actor, agent=agent, tool=tool, **given)


class BulkToolGrants(ApiView):
    @operation(takes=shapes.BulkToolGrants, gives=ToolResults, needs="nhi.add_toolpermission")
    def post(self, given: dict[str, Any]) -> dict[str, list[ItemResult]]:
        """Give an agent access to many tools

        By list, by server or by capability pattern, at most 100; each with its own result."""
        agent = self.named(Identity.objects.all(), "agent_id", given["agent_id"])
        listed = given.get("tool_ids")
        chosen = bulk.ToolSelector(
            tool_ids=None if listed is None else tuple(listed),
            server=given.get("server"),
            pattern=given.get("pattern"),
        )
        results = bulk.give_tools(
            actor=self.actor,
            agent=agent,
            selection=chosen,
            reason=given["reason"],
            expires_at=given.get("expires_at"),
        )
        return {"results": results}


class OneToolGrant(OfGrant):
    rows = ToolPermission.objects

    @operation(gives=shapes.ToolGrantShape)
    def get(self) -> Grant:
        """Read a grant to a tool"""
        return self.grant


class RevokeToolGrant(OfGrant):
    rows = ToolPermission.objects.select_related("agent", "tool")

    @operation(takes=Reason, gives=RevokedShape, needs="nhi.revoke_toolpermission", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Grant:
        """Revoke a grant to a tool

        A request that arrives after this answer is refused."""
        return grants.revoke(actor=self.actor, grant=self.grant, reason=given["reason"])


class NhiGrants(ApiView):
    @listing(gives=shapes.NhiGrantShape, filters=shapes.NhiGrantFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List grants between identities

        Newest first. An identity sees those it holds and those held on it."""
        return filtered(NhiPermission.objects.visible_to(self.actor), asked)

    @operation(
        takes=shapes.NewNhiGrant,
        gives=shapes.NhiGrantShape,
        status=201,
        needs="nhi.add_nhipermission",
        refusals=(409,),
    )
    def post(self, given: dict[str, Any]) -> NhiPermission:
        """Give an identity access to another

        `call` lets the callee act with its own rights; `delegate` makes it act on the caller's behalf."""
        source = self.named(Identity.objects.all(), "source_id", given.pop("source_id"))
        target = self.named(Identity.objects.all(), "target_id", given.pop("target_id"))
        return grants.give_nhi(actor=self.actor, source=source, target=target, **given)


class OneNhiGrant(OfGrant):
    rows = NhiPermission.objects

    @operation(gives=shapes.NhiGrantShape)
    def get(self) -> Grant:
        """Read a grant between identities"""
        return self.grant


class RevokeNhiGrant(OfGrant):
    rows = NhiPermission.objects.select_related("source", "target")

    @operation(takes=Reason, gives=RevokedShape, needs="nhi.revoke_nhipermission", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Grant:
        """Revoke a grant between identities

        A request that arrives after this answer is refused."""
        return grants.revoke(actor=self.actor, grant=self.grant, reason=given["reason"])


class UserGrants(ApiView):
    @listing(gives=shapes.UserGrantShape, filters=shapes.UserGrantFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List grants to people

        Newest first. A person sees their own, and those on what they own."""
        return filtered(UserPermission.objects.visible_to(self.actor), asked)

    @operation(
        takes=shapes.NewUserGrant,
        gives=shapes.UserGrantShape,
        status=201,
        needs="nhi.add_userpermission",
        refusals=(409,),
    )
    def post(self, given: dict[str, Any]) -> UserPermission:
        """Give a person access to an identity

        To use it, to manage its lifecycle and credentials too, or to change what describes it as well."""
        nhi = self.named(Identity.objects.all(), "nhi_id", given.pop("nhi_id"))
        user = self.named(User.objects.all(), "user_id", given.pop("user_id"))
        return grants.give_user(actor=self.actor, nhi=nhi, user=user, **given)


class OneUserGrant(OfGrant):
    rows = UserPermission.objects

    @operation(gives=shapes.UserGrantShape)
    def get(self) -> Grant:
        """Read a grant to a person"""
        return self.grant


class RevokeUserGrant(OfGrant):
    rows = UserPermission.objects.select_related("nhi", "user")

    @operation(takes=Reason, gives=RevokedShape, needs="nhi.revoke_userpermission", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Grant:
        """Revoke a grant to a person

        A request that arrives after this answer is refused."""
        return grants.revoke(actor=self.actor, grant=self.grant, reason=given["reason"])
