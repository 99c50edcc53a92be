"""Dialogs that give one grant of each kind, and assign a role."""

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.html import format_html

from common.console.confirmation_dialogs import ApiExample
from common.console.forms import Chips, ConsoleForm, EndsForm, ReasonField
from common.console.pages import link
from common.errors import Duplicate, NotAllowed
from nhi.access import grants, roles
from nhi.admin.grants.detail import API, came_from, seen
from nhi.admin.grants.limit_builder import BuildsLimit
from nhi.admin.grants.limit_forms import LimitedForm, NhiLimits, ToolLimits
from nhi.choices import Level, PermissionType
from nhi.console import row_by_name_fields
from nhi.console.base import ActorDialog
from nhi.models import Identity, NhiPermission, RoleAssignment, ToolPermission, UserPermission
from nhi.models.grants import Grant

REASONS = ("Needed for its work", "Requested by the owner", "Trial")


class ToolForm(ToolLimits, LimitedForm):
    aliases = {**EndsForm.aliases, **ToolLimits.limit_aliases, "agent_id": "agent", "tool_id": "tool"}

    agent = row_by_name_fields.RowByNameField("agent", label="Agent")
    tool = row_by_name_fields.RowByNameField("tool", label="Tool", help_text="Like github__create_issue.")
    reason = ReasonField(*REASONS)

    field_order = ("agent", "tool", "ends", "ends_on", "reason")


class NhiForm(NhiLimits, LimitedForm):
    aliases = {
        **EndsForm.aliases, **NhiLimits.limit_aliases, "source_id": "source", "target_id": "target",
        "permission_type": "may",
    }  # fmt: skip

    source = row_by_name_fields.RowByNameField("caller", label="Caller", help_text="An agent or a service account.")
    target = row_by_name_fields.RowByNameField("caller", label="Callee", help_text="An agent or a service account.")
    may = forms.ChoiceField(
        choices=PermissionType.choices,
        initial=PermissionType.CALL,
        widget=Chips,
        help_text="Call: the other acts with its own rights. Delegate: it acts on the caller's behalf.",
    )
    reason = ReasonField(*REASONS)

    field_order = ("source", "target", "may", "ends", "ends_on", "reason")
    limits = ("only_some", "actions", "per_hour")


class UserForm(EndsForm):
    aliases = {**EndsForm.aliases, "user_id": "person", "nhi_id": "nhi"}

    person = row_by_name_fields.RowByNameField("person", label="Person")
    nhi = row_by_name_fields.RowByNameField("identity", label="Identity")
    level = forms.ChoiceField(
        choices=Level.choices,
        initial=Level.USE,
        widget=Chips,
        help_text="Use: sees and uses it. Manage: also stops it and issues its credentials. Admin: also edits it.",
    )
    reason = ReasonField(*REASONS)

    field_order = ("person", "nhi", "level", "ends", "ends_on", "reason")


class RoleForm(EndsForm):
    aliases = {**EndsForm.aliases, "identity_id": "identity"}

    identity = row_by_name_fields.RowByNameField("caller", label="Identity", help_text="An agent or a service account.")
    role = row_by_name_fields.RowByNameField("role", label="Role")
    reason = ReasonField(*REASONS, required=False)

    field_order = ("identity", "role", "ends", "ends_on", "reason")


class Giving(ActorDialog):
    """Names from the address fill the form: `?agent=…&tool=…`, each a name or an id."""

    model_name: ClassVar[str]
    model: ClassVar[type[Grant]]
    #: The columns that no two live grants share, by the fields that they come from.
    pair: ClassVar[dict[str, str]]
    #: What it takes over REST.
    body: ClassVar[dict[str, Any]]
    button = "Give access"
    wide = True

    def check(self) -> None:
        doing = f"{self.title[:1].lower()}{self.title[1:]}"
        if self.actor.only_reads:
            raise NotAllowed(f"You may not {doing}.")
        self.actor.require(f"nhi.add_{self.model_name}", doing)

    def form(self, data: Any = None) -> ConsoleForm:
        return row_by_name_fields.bind_name_fields(super().form(data), self.actor)

    def initial(self) -> dict[str, Any]:
        asked = self.request.GET
        fields = self.form_class.base_fields.items()
        named = {name: field.row_kind for name, field in fields if isinstance(field, row_by_name_fields.RowByNameField)}
        return {
            name: row_by_name_fields.initial_name(what, self.actor, asked.get(name, "")) for name, what in named.items()
        }

    def back(self) -> str:
        return link(f"nhi_{self.model_name}_changelist")

    def by_api(self) -> ApiExample:
        return ApiExample(API[self.model_name], {**self.body, "expires_at": None, "reason": "…"})

    def give(self, form: Any) -> Grant:
        """Call the verb."""
        raise NotImplementedError

    def act(self, form: ConsoleForm) -> str:
        try:
            return self._given(self.give(form))
        except Duplicate as error:
            raise Duplicate(self._with_the_one_there_is(error.message, form.cleaned_data)) from error

    def _with_the_one_there_is(self, said: str, given: dict[str, Any]) -> str:
        pair = {column: given[field] for column, field in self.pair.items()}
        there = seen(self.model, self.actor).filter(**pair, revoked_at=None).first()
        if there is None:
            return said
        return format_html('{} <a href="{}">Open it</a>', said, link(f"nhi_{self.model_name}_page", there.pk))

    def _given(self, grant: Grant) -> str:
        messages.success(self.request, f"Given: {grant}.")
        return came_from(self.request, grant) or link(f"nhi_{self.model_name}_page", grant.pk)


class GiveTool(BuildsLimit, Giving):
    template = "nhi/grants/give.html"
    model_name = "toolpermission"
    model = ToolPermission
    pair = {"agent": "agent", "tool": "tool"}
    body = {"agent_id": "…", "tool_id": "…"}
    title = "Give an agent access to a tool"
    form_class = ToolForm

    def limited_tool(self, data: QueryDict | None) -> Identity | None:
        named = (self.request.GET if data is None else data).get("tool", "").strip()
        try:
            return row_by_name_fields.find_row("tool", self.actor, named) if named else None
        except ValidationError:
            return None

    def give(self, form: ToolForm) -> Grant:
        given = form.cleaned_data
        return grants.give_tool(
            actor=self.actor,
            agent=given["agent"],
            tool=given["tool"],
            reason=given["reason"],
            expires_at=form.expires_at,
            **form.terms,
        )


class GiveNhi(Giving):
    template = "nhi/grants/give.html"
    model_name = "nhipermission"
    model = NhiPermission
    pair = {"source": "source", "target": "target", "permission_type": "may"}
    body = {"source_id": "…", "target_id": "…", "permission_type": "call"}
    title = "Let an identity call another"
    form_class = NhiForm

    def give(self, form: NhiForm) -> Grant:
        given = form.cleaned_data
        return grants.give_nhi(
            actor=self.actor,
            source=given["source"],
            target=given["target"],
            permission_type=given["may"],
            reason=given["reason"],
            expires_at=form.expires_at,
            **form.terms,
        )


class GiveUser(Giving):
    model_name = "userpermission"
    model = UserPermission
    pair = {"nhi": "nhi", "user": "person"}
    body = {"nhi_id": "…", "user_id": "…", "level": "use"}
    title = "Give a person an identity"
    form_class = UserForm

    def give(self, form: UserForm) -> Grant:
        given = form.cleaned_data
        return grants.give_user(
            actor=self.actor,
            nhi=given["nhi"],
            user=given["person"],
            level=given["level"],
            reason=given["reason"],
            expires_at=form.expires_at,
        )


class AssignRole(Giving):
    model_name = "roleassignment"
    model = RoleAssignment
    pair = {"identity": "identity", "role": "role"}
    body = {"role_id": "…", "identity_id": "…"}
    title = "Assign a role"
    button = "Assign role"
    form_class = RoleForm

    def give(self, form: RoleForm) -> Grant:
        given = form.cleaned_data
        return roles.assign(
            actor=self.actor,
            role=given["role"],
            identity=given["identity"],
            expires_at=form.expires_at,
            reason=given["reason"],
        )
