"""Dialogs that move one identity from state to state, the kill switch first of all."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.functional import cached_property

from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.console.pages import render
from common.errors import NotAllowed
from nhi.access import rights
from nhi.admin.identities.hub import OfIdentity
from nhi.admin.identities.stop_effects import STAYS, ended, held_by, stop_effects
from nhi.choices import TRANSITIONS, State, StopCause
from nhi.console.base import ActorDialog
from nhi.identities import lifecycle
from nhi.models import Credential

#: The last part of each move's address over REST.
API = {
    State.ACTIVE: "activate",
    State.INACTIVE: "deactivate",
    State.SUSPENDED: "suspend",
    State.DEPRECATED: "deprecate",
    State.ARCHIVED: "archive",
}


class StopForm(ConsoleForm):
    """The reason in words, and the code that is recorded beside it: the preset's, or a leak where that is ticked."""

    reason = ReasonField(*StopCause.labels)
    leaked = forms.BooleanField(
        label="A token or credential of it leaked",
        required=False,
        help_text="Whoever reactivates it is then asked to revoke its credentials. “Leaked token” says the same.",
    )

    @property
    def terms(self) -> dict[str, str]:
        """What the verb takes."""
        reason = self.cleaned_data["reason"]
        return {"reason": reason, "cause": StopCause.LEAK if self.cleaned_data["leaked"] else _cause_of(reason)}


def _cause_of(reason: str) -> str:
    """The code of the preset that the reason is, or begins with; empty for other words."""
    for cause in StopCause:
        rest = reason.removeprefix(str(cause.label))
        if rest != reason and not rest[:1].isalnum():
            return cause
    return ""


class StartForm(ConsoleForm):
    reason = ReasonField("Ready for use", "Problem solved", "Owner asked")


class RestartForm(ConsoleForm):
    """After a stop. Where a credential may have leaked, to revoke is what is chosen unless somebody decides else."""

    revoke_credentials = forms.BooleanField(
        label="Revoke its credentials", required=False, help_text="In the same commit, before it may act again."
    )
    reason = ReasonField("Ready for use", "Problem solved", "Owner asked", prefilled=False)


class RestartWithoutForm(ConsoleForm):
    """After a stop, where no credential is left to revoke."""

    reason = ReasonField("Ready for use", "Problem solved", "Owner asked", prefilled=False)


class PauseForm(ConsoleForm):
    reason = ReasonField("Not needed now", "Maintenance", "Owner asked")


class EndForm(ConsoleForm):
    reason = ReasonField("Replaced by another", "No longer needed", "Owner left")


class Move(OfIdentity, ActorDialog):
    verb = ""
    to: State

    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed(f"You may not stop or start {self.identity.name}.")
        rights.require_to_move(self.actor, self.identity)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is an identity
        return f"{self.verb} {self.identity.name}"

    def context(self) -> dict[str, Any]:
        state = State(self.identity.state)
        if self.to in TRANSITIONS[state]:
            return {"title": f"{self.verb} {self.identity.name}"}
        words = f"{self.identity.name} is {state.label.lower()} and cannot become {self.to.label.lower()}."
        return {"title": f"{self.verb} {self.identity.name}", "impossible": words}

    def by_api(self) -> ApiExample:
        return ApiExample(self.api(API[self.to]), {"reason": "…"})

    def stops(self) -> list[Effect]:
        return stop_effects([self.identity])

    def _said(self, sentence: str) -> str:
        messages.success(self.request, sentence)
        return self.url("hub")


class Stop(Move):
    """Suspend: access ends in one commit, then everything that runs is stopped."""

    verb = "Stop"
    to = State.SUSPENDED
    danger = True
    form_class = StopForm

    @property
    def button(self) -> str:  # type: ignore[override]  # the count is known once there is an identity
        things = sum(effect.count for effect in self.stops())
        more = f" and stop {things} {'thing' if things == 1 else 'things'}" if things else ""
        return f"Suspend {self.identity.name}{more}"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the name is known once there is an identity
        return (
            f"From the moment this is answered, no request of {self.identity.name} is allowed. "
            "Its grants stay, for when it is reactivated."
        )

    def effects(self) -> list[Effect]:
        return self.stops()

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        assert isinstance(form, StopForm)
        started = timezone.now()
        done = lifecycle.suspend(actor=self.actor, identity=self.identity, **form.terms)
        return render(
            self.request,
            "nhi/identity/stopped.html",
            title=f"{self.identity.name} is stopped",
            identity=done.identity,
            started=started,
            finished=timezone.now(),
            ended=ended(done),
            pending=done.pending,
            back=self.url("hub"),
        )


class Activate(Move):
    to = State.ACTIVE
    template = "nhi/identity/activate.html"

    @property
    def form_class(self) -> type[ConsoleForm]:  # type: ignore[override]  # the question goes by the state
        if self.identity.state != State.SUSPENDED:
            return StartForm
        return RestartForm if self.live else RestartWithoutForm

    @cached_property
    def live(self) -> list[Credential]:
        """The credentials that would work again."""
        rows = Credential.objects.live().filter(identity=self.identity).defer("digest")
        return list(rows.order_by("-created_at"))

    def initial(self) -> dict[str, Any]:
        # Nobody stated a cause: it may have been a leak.
        return {"revoke_credentials": self.identity.state_cause in ("", StopCause.LEAK)}

    def context(self) -> dict[str, Any]:
        suspended = self.identity.state == State.SUSPENDED
        return {
            **super().context(),
            "live": self.live if suspended else [],
            "leaked": suspended and self.identity.state_cause == StopCause.LEAK,
        }

    def by_api(self) -> ApiExample:
        body: dict[str, Any] = {"reason": "…"}
        if self.live and self.initial()["revoke_credentials"] and self.identity.state == State.SUSPENDED:
            body["revoke_credentials"] = True
        return ApiExample(self.api(API[self.to]), body)

    @property
    def verb(self) -> str:  # type: ignore[override]  # the word goes by the state
        return "Reactivate" if self.identity.state == State.SUSPENDED else "Activate"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the state is known once there is an identity
        if self.identity.state == State.SUSPENDED:
            return (
                f"Suspended by {self.identity.state_by}: “{self.identity.state_reason}”. "
                "Its grants work again at once, and so do the credentials that are not revoked."
            )
        return "Its grants and credentials work from then on."

    def effects(self) -> list[Effect]:
        stay = lifecycle.count_not_resumed(self.identity)
        return [counted(name, count, *STAYS[name]) for name, count in stay.items() if name in STAYS]

    def act(self, form: ConsoleForm) -> str:
        revokes = bool(form.cleaned_data.get("revoke_credentials"))
        revoked = len(self.live) if revokes else 0
        lifecycle.activate(
            actor=self.actor,
            identity=self.identity,
            reason=form.cleaned_data["reason"],
            revoke_credentials=revokes,
        )
        stay = [f"{effect.words}." for effect in self.effects() if effect.count]
        done = " ".join([f"{self.identity.name} is active.", *stay])
        if not revoked:
            return self._said(done)
        ended = "1 credential was" if revoked == 1 else f"{revoked} credentials were"
        self._said(f"{done} {ended} revoked. Issue a new one for whatever uses it.")
        return self.url("credentials")


class Deactivate(Move):
    verb = "Deactivate"
    to = State.INACTIVE
    form_class = PauseForm
    lead = (
        "It can neither call nor be called until someone activates it. "
        "Nothing that runs is stopped. To end that too, use Stop now instead."
    )

    def effects(self) -> list[Effect]:
        return [effect for effect in self.stops() if effect.name == "tokens"]

    def act(self, form: ConsoleForm) -> str:
        lifecycle.deactivate(actor=self.actor, identity=self.identity, reason=form.cleaned_data["reason"])
        return self._said(f"{self.identity.name} is inactive.")


class Deprecate(Move):
    verb = "Deprecate"
    to = State.DEPRECATED
    form_class = EndForm
    lead = (
        "It stops working and cannot be activated again; archiving is the only step left. "
        "Its grants stay on view until then."
    )

    def effects(self) -> list[Effect]:
        return [effect for effect in self.stops() if effect.name == "tokens"]

    def act(self, form: ConsoleForm) -> str:
        lifecycle.deprecate(actor=self.actor, identity=self.identity, reason=form.cleaned_data["reason"])
        return self._said(f"{self.identity.name} is deprecated.")


class Archive(Move):
    verb = "Archive"
    to = State.ARCHIVED
    danger = True
    form_class = EndForm
    lead = "The end: access, credentials, grants and role assignments go in one commit. It stays on record."

    @property
    def typed(self) -> str:  # type: ignore[override]  # the name is known once there is an identity
        return self.identity.name

    def effects(self) -> list[Effect]:
        return [*self.stops(), *held_by(self.identity)]

    def act(self, form: ConsoleForm) -> str:
        lifecycle.archive(actor=self.actor, identity=self.identity, reason=form.cleaned_data["reason"])
        return self._said(f"{self.identity.name} is archived.")


URLS = [
    path("<uuid:pk>/stop/", Stop.as_view(), name="nhi_identity_stop"),
    path("<uuid:pk>/activate/", Activate.as_view(), name="nhi_identity_activate"),
    path("<uuid:pk>/deactivate/", Deactivate.as_view(), name="nhi_identity_deactivate"),
    path("<uuid:pk>/deprecate/", Deprecate.as_view(), name="nhi_identity_deprecate"),
    path("<uuid:pk>/archive/", Archive.as_view(), name="nhi_identity_archive"),
]
