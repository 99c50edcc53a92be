"""Dialogs that change, renew and revoke grants."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import messages
from django.http import QueryDict
from django.utils import timezone

from common.console import times
from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, EndsForm, ReasonField
from common.console.pages import link
from common.errors import NotAllowed
from nhi.access import grants, roles
from nhi.admin.grants.detail import API, OfGrant, came_from
from nhi.admin.grants.limit_builder import BuildsLimit
from nhi.admin.grants.limit_forms import NhiLimits, ToolLimits
from nhi.authorization import explain
from nhi.choices import GrantState
from nhi.console import row_by_name_fields
from nhi.console.base import ActorDialog
from nhi.decisions.types import AccessMatch
from nhi.models import Identity
from nhi.models.grants import Grant

#: Each is of a caller and its target.
Pairs = Sequence[tuple[Identity, Identity]]
OngoingWorkSource = Callable[[Pairs], list[Effect]]
_ongoing_work_sources: list[OngoingWorkSource] = []


def add_ongoing_work_source(read: OngoingWorkSource) -> None:
    _ongoing_work_sources.append(read)


def ongoing_work_between(pairs: Pairs) -> list[Effect]:
    return [effect for read in _ongoing_work_sources for effect in read(pairs)] if pairs else []


REVOKED = ("No longer needed", "Access review", "Given by mistake", "Suspicious use")
LIMITED = ("Narrowed after a review", "Needed for its work", "Requested by the owner")
RENEWED = ("Still needed", "Requested by the owner", "Access review")


class RevokeForm(ConsoleForm):
    reason = ReasonField(*REVOKED)


class RenewForm(EndsForm):
    reason = ReasonField(*RENEWED)

    field_order = ("ends", "ends_on", "reason")


class Change(OfGrant, ActorDialog):
    """A verb for one grant; `needs` are the rights that it takes, by their first word."""

    verb = ""
    needs: tuple[str, ...] = ()

    def check(self) -> None:
        super().check()
        doing = f"{self.verb.lower()} this grant"
        if self.actor.only_reads:
            raise NotAllowed(f"You may not {doing}.")
        for need in self.needs:
            self.actor.require(f"nhi.{need}_{self.name}", doing)

    @property
    def title(self) -> str:  # type: ignore[override]  # the name is known once there is a grant
        return f"{self.verb} {self.grant}"

    def form(self, data: Any = None) -> ConsoleForm:
        return row_by_name_fields.bind_name_fields(super().form(data), self.actor)

    def back(self) -> str:
        return came_from(self.request, self.grant) or super().back()

    def _said(self, sentence: str, grant: Grant) -> str:
        messages.success(self.request, sentence)
        return came_from(self.request, grant) or link(f"nhi_{self.name}_page", grant.pk)


class Revoke(Change):
    verb = "Revoke"
    needs = ("revoke",)
    danger = True
    form_class = RevokeForm

    def check(self) -> None:
        super().check()
        if self.grant.state == GrantState.REVOKED:
            raise grants.AlreadyRevoked(f"{_closed(self.grant)} Nothing was changed.")

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a grant
        return f"Revoke {self.grant}"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the same
        return f"{_given(self.grant)} The end holds from the moment this is answered."

    def effects(self) -> list[Effect]:
        return ended_by(self.grant, self.actor)

    def by_api(self) -> ApiExample:
        return ApiExample(f"{API[self.name]}/{self.grant.pk}/revoke", {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        reason = form.cleaned_data["reason"]
        if self.name == "roleassignment":
            roles.unassign(actor=self.actor, assignment=self.grant, reason=reason)
        else:
            grants.revoke(actor=self.actor, grant=self.grant, reason=reason)
        return self._said(f"Revoked: {self.grant}.", self.grant)


class Renew(Change):
    verb = "Renew"
    needs = ("add", "revoke")
    form_class = RenewForm

    def check(self) -> None:
        super().check()
        if self.grant.revoked_at is not None:
            raise grants.AlreadyRevoked(f"{_closed(self.grant)} Give it again instead.")

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a grant
        return f"Renew {self.grant}"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the same
        return f"{_given(self.grant)} {_ends(self.grant)} The same limits go on in a new grant, and this one is closed."

    def act(self, form: ConsoleForm) -> str:
        assert isinstance(form, RenewForm)
        reason = form.cleaned_data["reason"]
        again = grants.renew(actor=self.actor, grant=self.grant, expires_at=form.expires_at, reason=reason)
        return self._said(f"Renewed: {again}.", again)


class ToolLimitsForm(ToolLimits, ConsoleForm):
    aliases = ToolLimits.limit_aliases

    reason = ReasonField(*LIMITED)


class NhiLimitsForm(NhiLimits, ConsoleForm):
    aliases = NhiLimits.limit_aliases

    reason = ReasonField(*LIMITED)


class ChangeLimits(Change):
    """Of a grant that is live, until the same end."""

    verb = "Change the limits of"
    needs = ("add", "revoke")
    button = "Change limits"
    wide = True

    def check(self) -> None:
        super().check()
        if self.grant.state != GrantState.LIVE:
            raise grants.AlreadyRevoked(f"{self.grant} is not live any more. Give it again instead.")

    @property
    def form_class(self) -> type[ConsoleForm]:  # type: ignore[override]  # the limits go by the kind
        return ToolLimitsForm if self.name == "toolpermission" else NhiLimitsForm

    @property
    def lead(self) -> str:  # type: ignore[override]  # the name is known once there is a grant
        return f"{_ends(self.grant)} A new grant with these limits takes its place at once."

    def initial(self) -> dict[str, Any]:
        return (ToolLimits if self.name == "toolpermission" else NhiLimits).typed(self.grant)

    def act(self, form: ConsoleForm) -> str:
        assert isinstance(form, ToolLimitsForm | NhiLimitsForm)
        reason = form.cleaned_data["reason"]
        changed = grants.change_limits(actor=self.actor, grant=self.grant, limits=form.terms, reason=reason)
        return self._said(f"Changed the limits: {changed}.", changed)


class ChangeToolLimits(BuildsLimit, ChangeLimits):
    template = "nhi/grants/change.html"

    def limited_tool(self, data: QueryDict | None) -> Identity | None:
        tool: Identity = self.grant.tool
        return tool


class CopyForm(ConsoleForm):
    reason = ReasonField("Does the same work", "Takes over", "Requested by the owner")


class CopyToAgent(CopyForm):
    to = row_by_name_fields.RowByNameField("agent", label="To", help_text="The name of an agent.")
    field_order = ("to", "reason")


class CopyToCaller(CopyForm):
    to = row_by_name_fields.RowByNameField("caller", label="To", help_text="The name of an agent or a service account.")
    field_order = ("to", "reason")


class CopyToPerson(CopyForm):
    to = row_by_name_fields.RowByNameField("person", label="To", help_text="The name of a person.")
    field_order = ("to", "reason")


class Copy(Change):
    verb = "Copy"
    needs = ("add",)
    button = "Copy grant"

    def check(self) -> None:
        super().check()
        if self.grant.state != GrantState.LIVE:
            raise grants.AlreadyRevoked(f"{self.grant} is not live any more, so there is nothing to copy.")

    @property
    def form_class(self) -> type[ConsoleForm]:  # type: ignore[override]  # who may hold it goes by the kind
        return {"toolpermission": CopyToAgent, "userpermission": CopyToPerson}.get(self.name, CopyToCaller)

    @property
    def lead(self) -> str:  # type: ignore[override]  # the name is known once there is a grant
        return f"The other one gets the same with the same limits. {_ends(self.grant)}"

    def act(self, form: ConsoleForm) -> str:
        given = form.cleaned_data
        copied: Grant = COPY[self.name](self, given["to"], given["reason"])
        return self._said(f"Given: {copied}.", copied)

    def tool(self, to: Any, reason: str) -> Grant:
        one = self.grant
        return grants.give_tool(
            actor=self.actor, agent=to, tool=one.tool, reason=reason, expires_at=one.expires_at,
            allowed_parameters=one.allowed_parameters, max_calls_per_hour=one.max_calls_per_hour,
            requires_approval=one.requires_approval,
        )  # fmt: skip

    def nhi(self, to: Any, reason: str) -> Grant:
        one = self.grant
        return grants.give_nhi(
            actor=self.actor, source=to, target=one.target, permission_type=one.permission_type, reason=reason,
            expires_at=one.expires_at, allowed_actions=one.allowed_actions, max_calls_per_hour=one.max_calls_per_hour,
        )  # fmt: skip

    def user(self, to: Any, reason: str) -> Grant:
        one = self.grant
        return grants.give_user(
            actor=self.actor, nhi=one.nhi, user=to, level=one.level, reason=reason, expires_at=one.expires_at
        )

    def role(self, to: Any, reason: str) -> Grant:
        one = self.grant
        return roles.assign(actor=self.actor, role=one.role, identity=to, expires_at=one.expires_at, reason=reason)


COPY = {
    "toolpermission": Copy.tool,
    "nhipermission": Copy.nhi,
    "userpermission": Copy.user,
    "roleassignment": Copy.role,
}


def _closed(grant: Any) -> str:
    return f"{grant} was closed before by {grant.revoked_by_name}: “{grant.revoke_reason}”."


def _given(grant: Any) -> str:
    why = f": “{grant.reason}”" if grant.reason else ""
    return f"Given {times.relative(grant.created_at, timezone.now())} by {grant.granted_by_name}{why}."


def _ends(grant: Any) -> str:
    if grant.expires_at is None:
        return "It does not end by itself."
    now = timezone.now()
    word = "ended" if grant.expires_at <= now else "ends"
    return f"It {word} {times.relative(grant.expires_at, now)}, {times.absolute(grant.expires_at, now)}."


def ended_by(grant: Any, actor: Any) -> list[Effect]:
    """What a revoke ends, and what goes on through something else."""
    name = str(grant._meta.model_name)
    if name == "roleassignment":
        tools = roles.covered_tools(grant.role.capabilities.effective().values_list("pattern", flat=True)).count()
        who = grant.identity
        return [counted("tools", tools, f"{who} loses {{}} tool of this role", f"{who} loses {{}} tools of this role")]
    if name == "userpermission":
        return [Effect("people", 1, f"{grant.user} loses “{grant.level}” on {grant.nhi}, unless they own it")]
    caller, target = (grant.agent, grant.tool) if name == "toolpermission" else (grant.source, grant.target)
    ends = _of_a_call(caller, target, _others(caller, target, grant, actor))
    return [*ends, *(ongoing_work_between([(caller, target)]) if name == "nhipermission" else ())]


def _of_a_call(caller: Identity, target: Identity, others: list[AccessMatch]) -> list[Effect]:
    if not others:
        return [Effect("calls", 1, f"{caller} may no longer call {target}")]
    said = ", ".join(f"the {match.kind} {match.name}" for match in others)
    return [Effect("others", len(others), f"{caller} may still call {target}: {said} covers it too")]


def _others(caller: Identity, target: Identity, grant: Any, actor: Any) -> list[AccessMatch]:
    """What else covers the call now."""
    told = explain.explain(actor=actor, caller_id=caller.pk, target_id=target.pk)
    every = (told.decision.match, *told.also)
    return [match for match in every if match is not None and match.live and match.id != grant.pk]


VIEWS: dict[str, tuple[str, Any]] = {
    "revoke": ("<uuid:pk>/revoke/", Revoke),
    "renew": ("<uuid:pk>/renew/", Renew),
    "copy": ("<uuid:pk>/copy/", Copy),
}
