"""Dialogs that change people."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import messages
from django.forms.renderers import TemplatesSetting
from django.http import HttpResponse
from django.urls import path
from django.utils.functional import cached_property
from django.utils.safestring import SafeString

from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.console.pages import link, render, render_once
from common.errors import NotAllowed
from nhi.access import rights
from nhi.actors import Actor
from nhi.admin.people.detail import OfPerson
from nhi.console import row_by_name_fields
from nhi.console.base import ActorDialog, FreshProofDialog
from nhi.console.console_role_rights import LABELS, missing_console_notice, role_labels_of, role_rights_table
from nhi.identities import handover
from nhi.models import Credential, Identity, User
from nhi.people import mfa, people, sign_in

#: Why a role cannot be ticked.
ONLY_SUPERUSERS = "Only a superuser gives or takes it here: who approves must be a second person."


class Ticks(forms.CheckboxSelectMultiple):
    template_name = "nhi/people/ticks.html"
    #: Values that cannot be ticked or unticked here, each with the reason.
    blocked: Mapping[str, str] = {}
    #: Of these, the ones that are ticked and stay so.
    fixed: Sequence[str] = ()

    def _render(self, template_name: str, context: dict[str, Any], renderer: Any = None) -> SafeString:
        # Django looks for widgets' templates beside its own; this one is among the console's.
        return SafeString(TemplatesSetting().render(template_name, context))

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        option["blocked"] = self.blocked.get(str(value), "")
        if option["blocked"]:
            option["attrs"]["disabled"] = True
        return option

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        """A browser does not send disabled ticks; what they show stays."""
        sent = list(super().value_from_datadict(data, files, name) or [])
        return sent + [value for value in self.fixed if value not in sent]


class RoleTicks(forms.MultipleChoiceField):
    """The console roles, those that this actor may not give or take disabled with the reason."""

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=list(LABELS.items()), required=False, widget=Ticks, **options)

    def bind_to(self, actor: Actor, held: Collection[str]) -> None:
        assert isinstance(self.widget, Ticks)
        fixed = rights.fixed_roles(actor, held)
        self.widget.blocked = dict.fromkeys(fixed, ONLY_SUPERUSERS)
        self.widget.fixed = [role for role in held if role in fixed and role in LABELS]


class AddForm(ConsoleForm):
    aliases = {"password": "username"}

    username = forms.CharField(
        label="Name",
        max_length=150,
        help_text="Letters, digits and @ . + - _. It stays.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    email = forms.EmailField(label="Mail address", required=False)
    roles = RoleTicks(
        help_text="Without a role: no console. They use the API with a personal token, and identities can be theirs.",
    )


class RolesForm(ConsoleForm):
    roles = RoleTicks(
        help_text="A first role that lets its holder approve ends their sessions and personal tokens. Check their "
        "second factors as well: others may have set them up."
    )
    reason = ReasonField("New duty", "Duty ended", "Review")


class PasswordForm(ConsoleForm):
    reason = ReasonField("Password forgotten", "Password leaked", "Asked in person", prefilled=False)


class LeaveForm(ConsoleForm):
    to = row_by_name_fields.RowByNameField(
        "person",
        label="Hand over to",
        required=False,
        help_text="Who takes what they own and stand in for. Empty: it stays theirs, with nobody behind it.",
    )
    reason = ReasonField("Left", "On leave", "Account misused")


class ReturnForm(ConsoleForm):
    reason = ReasonField("Back", "Deactivated by mistake")


class FactorForm(ConsoleForm):
    reason = ReasonField("Phone lost", "New phone", "Account misused", prefilled=False)


class HandOverForm(ConsoleForm):
    to = row_by_name_fields.RowByNameField("person", label="To", help_text="The name of a person.")


class Changing(OfPerson, ActorDialog):
    """Only who changes people; the verbs keep superusers and oneself out."""

    verb = ""

    def check(self) -> None:
        self.actor.require("nhi.change_user", "change other people")
        if self.actor.only_reads:
            raise NotAllowed("You may not change people.")
        super().check()

    def form(self, data: Any = None) -> ConsoleForm:
        return row_by_name_fields.bind_name_fields(super().form(data), self.actor)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a person
        return f"{self.verb} {self.person.username}"

    def context(self) -> dict[str, Any]:
        return {"title": f"{self.verb} {self.person.username}"}

    def said(self, sentence: str) -> str:
        messages.success(self.request, sentence)
        return self.url("hub")

    @cached_property
    def owned(self) -> int:
        return handover.identities_of(self.person).count()


class Add(FreshProofDialog):
    title = "Add person"
    button = "Add person"
    form_class = AddForm

    def check(self) -> None:
        self.actor.require("nhi.add_user", "add people")
        if self.actor.only_reads:
            raise NotAllowed("You may not add people.")

    def back(self) -> str:
        return link("nhi_user_changelist")

    def form(self, data: Any = None) -> ConsoleForm:
        form = super().form(data)
        _roles_of(form).bind_to(self.actor, held=())
        return form

    def act(self, form: ConsoleForm) -> HttpResponse:
        given = form.cleaned_data
        made = people.create(actor=self.actor, username=given["username"], email=given["email"], roles=given["roles"])
        if not given["roles"]:
            messages.info(self.request, missing_console_notice(made.user))
        return shown_once(self, made.user, made.password, link("nhi_user_hub", made.user.pk))


class Roles(FreshProofDialog, Changing):
    verb = "Change the roles of"
    template = "nhi/people/roles.html"
    form_class = RolesForm
    wide = True

    def initial(self) -> dict[str, Any]:
        return {"roles": [group.name for group in self.person.groups.all()]}

    def form(self, data: Any = None) -> ConsoleForm:
        form = super().form(data)
        _roles_of(form).bind_to(self.actor, held=self.initial()["roles"])
        return form

    def context(self) -> dict[str, Any]:
        return {**super().context(), "table": role_rights_table(), "labels": LABELS.values()}

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a person
        return f"Set the roles of {self.person.username}"

    def act(self, form: ConsoleForm) -> str:
        given = form.cleaned_data
        changed = people.set_roles(actor=self.actor, user=self.person, roles=given["roles"], reason=given["reason"])
        held = ", ".join(role_labels_of(User.objects.prefetch_related("groups").get(pk=changed.pk))) or "no console"
        return self.said(f"{changed.username} is now: {held}.")


class NewPassword(FreshProofDialog, Changing):
    verb = "Set a new password for"
    form_class = PasswordForm
    lead = (
        "The old one stops working and their sessions end. The new one is shown to you once. "
        "They are told that you set it and why, and choose another one when they sign in."
    )

    def act(self, form: ConsoleForm) -> HttpResponse:
        password = people.generate_password()
        reason = form.cleaned_data["reason"]
        people.set_password(actor=self.actor, user=self.person, password=password, reason=reason)
        return shown_once(self, self.person, password, self.url("hub"))


class ResetFactor(FreshProofDialog, Changing):
    verb = "Reset the second factor of"
    danger = True
    form_class = FactorForm
    lead = (
        "Be sure that it is them who asks: whoever has the password alone gets in from then on. "
        "They are told that you did it and why."
    )

    def effects(self) -> list[Effect]:
        held = Authenticator.objects.filter(user=self.person, type__in=mfa.FACTOR_TYPES).count()
        words = "Removes {} second factor%s and the recovery codes"
        return [counted("factors", held, words % "", words % "s")]

    def act(self, form: ConsoleForm) -> str:
        people.reset_second_factor(actor=self.actor, user=self.person, reason=form.cleaned_data["reason"])
        return self.said(f"{self.person.username} has no second factor now.")


class Unlock(Changing):
    verb = "Unlock sign-in as"
    lead = "Forgets every failed try at this name, wherever it came from."

    def act(self, _form: ConsoleForm) -> str:
        sign_in.unlock(actor=self.actor, username=self.person.username)
        return self.said(f"{self.person.username} may try to sign in again.")


class Deactivate(Changing):
    verb = "Deactivate"
    danger = True
    form_class = LeaveForm
    lead = "They cannot sign in any more, and their sessions and personal tokens end at once."

    def effects(self) -> list[Effect]:
        tokens = Credential.objects.live().filter(user=self.person).count()
        return [
            counted("tokens", tokens, "Ends {} personal token", "Ends {} personal tokens"),
            counted(
                "owned", self.owned, "{} identity is theirs: hand it over below",
                "{} identities are theirs: hand them over below",
            ),
        ]  # fmt: skip

    def context(self) -> dict[str, Any]:
        return {**super().context(), **named(self.person)}

    template = "nhi/people/leave.html"

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        given = form.cleaned_data
        if given["to"] is not None and given["to"].pk == self.person.pk:
            form.add_error("to", "Choose someone else.")
            return self._drawn(form, self.effects(), status=422)
        people.deactivate(actor=self.actor, user=self.person, reason=given["reason"])
        if given["to"] is None or not self.owned:
            return self.said(f"{self.person.username} is deactivated.")
        return handed_over(self, given["to"], f"{self.person.username} is deactivated")


class Reactivate(FreshProofDialog, Changing):
    verb = "Reactivate"
    form_class = ReturnForm
    lead = "They sign in as before, with the roles they had. Their personal tokens stay ended."

    def act(self, form: ConsoleForm) -> str:
        people.reactivate(actor=self.actor, user=self.person, reason=form.cleaned_data["reason"])
        return self.said(f"{self.person.username} is active.")


class HandOver(Changing):
    verb = "Hand over what belongs to"
    template = "nhi/people/leave.html"
    form_class = HandOverForm
    lead = "The new owner handles their lifecycle and credentials from then on."

    @property
    def button(self) -> str:  # type: ignore[override]  # the number is known once there is a person
        number = min(self.owned, handover.MAX_IDENTITIES)
        return f"Hand over {number} {'identity' if number == 1 else 'identities'}" if number else ""

    def context(self) -> dict[str, Any]:
        return {**super().context(), **named(self.person)}

    def act(self, form: ConsoleForm) -> HttpResponse:
        return handed_over(self, form.cleaned_data["to"], "")


def _roles_of(form: ConsoleForm) -> RoleTicks:
    field = form.fields["roles"]
    assert isinstance(field, RoleTicks)
    return field


def handed_over(dialog: Changing, to: User, before: str) -> HttpResponse:
    results = handover.hand_over(actor=dialog.actor, user=dialog.person, to=to)
    done = sum(item.result == "done" for item in results)
    said = f"{done} of {dialog.owned} handed over to {to.username}"
    title = f"{before}; {said}" if before else said
    return render(dialog.request, "console/results.html", title=title, results=results, back=dialog.url("hub"))


def named(person: User) -> dict[str, Any]:
    """The first of what is theirs, by name."""
    held: list[Identity] = list(handover.identities_of(person)[:11])
    return {"names": [one.name for one in held[:10]], "more_names": len(held) > 10}


def shown_once(dialog: ActorDialog, user: User, password: str, back: str) -> HttpResponse:
    """The page of a password: whoever keeps pages is told not to keep this one."""
    return render_once(
        dialog.request,
        "nhi/people/password.html",
        title=f"The password of {user.username}",
        person=user,
        password=password,
        back=back,
    )


URLS = [
    path("add/", Add.as_view(), name="nhi_user_add"),
    path("<uuid:pk>/roles/", Roles.as_view(), name="nhi_user_roles"),
    path("<uuid:pk>/password/", NewPassword.as_view(), name="nhi_user_password"),
    path("<uuid:pk>/factor/", ResetFactor.as_view(), name="nhi_user_factor"),
    path("<uuid:pk>/unlock/", Unlock.as_view(), name="nhi_user_unlock"),
    path("<uuid:pk>/deactivate/", Deactivate.as_view(), name="nhi_user_deactivate"),
    path("<uuid:pk>/reactivate/", Reactivate.as_view(), name="nhi_user_reactivate"),
    path("<uuid:pk>/hand-over/", HandOver.as_view(), name="nhi_user_hand_over"),
]
