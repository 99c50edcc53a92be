"""Dialogs that move one identity from state to state, the kill switch first of all."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.http import HttpResponse
from django.urls import path
from django.utils import timezone

from common.admin.dialogs import Call, Effect, counted
from common.admin.forms import ConsoleForm, ReasonField
from common.admin.pages import render
from common.errors import NotAllowed
from nhi import lifecycle, rights
from nhi.admin.base import ActingDialog
from nhi.admin.identities_hub import OfIdentity
from nhi.choices import TRANSITIONS, State
from nhi.models import Identity, NhiPermission, RoleAssignment, ToolPermission, UserPermission

STOPS = {
    "tokens": ("Refuses {} credential from now on", "Refuses {} credentials from now on"),
    "calls": ("Ends {} call", "Ends {} calls"),
    "tasks": ("Cancels {} task", "Cancels {} tasks"),
    "schedules": ("Pauses {} schedule", "Pauses {} schedules"),
    "executions": ("Ends {} run", "Ends {} runs"),
}
#: What only leaves a queue.
LEAVES = {"executions": ("Takes {} run from the queue", "Takes {} runs from the queue")}
STAYS = {
    "schedules": (
        "{} schedule stays paused until somebody resumes it",
        "{} schedules stay paused until somebody resumes them",
    ),
}
ENDED = {
    "tokens": ("credential refused", "credentials refused"),
    "calls": ("call ended", "calls ended"),
    "tasks": ("task cancelled", "tasks cancelled"),
    "schedules": ("schedule paused", "schedules paused"),
    "executions": ("run asked to end", "runs asked to end"),
}
LEFT = {"executions": ("run taken from the queue", "runs taken from the queue")}


#: The last part of each move's address over REST.
API = {
    State.ACTIVE: "activate",
    State.INACTIVE: "deactivate",
    State.SUSPENDED: "suspend",
    State.DEPRECATED: "deprecate",
    State.ARCHIVED: "archive",
}


class StopForm(ConsoleForm):
    reason = ReasonField("Emergency stop", "Leaked token", "Unexpected behaviour", "Owner asked")


class StartForm(ConsoleForm):
    reason = ReasonField("Ready for use", "Problem solved", "Owner asked")


class PauseForm(ConsoleForm):
    reason = ReasonField("Not needed now", "Maintenance", "Owner asked")


class EndForm(ConsoleForm):
    reason = ReasonField("Replaced by another", "No longer needed", "Owner left")


class Move(OfIdentity, ActingDialog):
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

    def by_api(self) -> Call:
        return Call(self.api(API[self.to]), {"reason": "…"})

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
        started = timezone.now()
        done = lifecycle.suspend(actor=self.actor, identity=self.identity, reason=form.cleaned_data["reason"])
        return render(
            self.request,
            "nhi/identity/stopped.html",
            title=f"{self.identity.name} is stopped",
            identity=done.identity,
            started=started,
            finished=timezone.now(),
            ended=_ended(done),
            pending=done.pending,
            back=self.url("hub"),
        )


class Activate(Move):
    to = State.ACTIVE
    form_class = StartForm

    @property
    def verb(self) -> str:  # type: ignore[override]  # the word goes by the state
        return "Reactivate" if self.identity.state == State.SUSPENDED else "Activate"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the state is known once there is an identity
        if self.identity.state == State.SUSPENDED:
            return (
                f"Suspended by {self.identity.state_by}: “{self.identity.state_reason}”. "
                "Its grants and credentials work again at once."
            )
        return "Its grants and credentials work from then on."

    def effects(self) -> list[Effect]:
        stay = lifecycle.remains(self.identity)
        return [counted(name, count, *STAYS[name]) for name, count in stay.items() if name in STAYS]

    def act(self, form: ConsoleForm) -> str:
        lifecycle.activate(actor=self.actor, identity=self.identity, reason=form.cleaned_data["reason"])
        stay = [f"{effect.words}." for effect in self.effects() if effect.count]
        return self._said(" ".join([f"{self.identity.name} is active.", *stay]))


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


def stop_effects(some: Sequence[Identity]) -> list[Effect]:
    """What a stop of all these ends now; what runs and what only waits to run apart."""
    counts, waiting = lifecycle.consequences_of(some), lifecycle.unstarted_of(some)
    begun = {name: max(0, count - waiting.get(name, 0)) for name, count in counts.items()}
    return [
        *(counted(name, begun[name], *words) for name, words in STOPS.items() if name in begun),
        *(counted(f"{name}_waiting", waiting[name], *words) for name, words in LEAVES.items() if name in waiting),
    ]


def _ended(done: lifecycle.Stopped) -> list[dict[str, Any]]:
    """For the result: what a step did not finish is told too, with what it has done so far."""
    begun = {name: count - done.unstarted.get(name, 0) for name, count in done.stopped.items()}
    told = [
        {"words": f"{count} {ENDED[name][count != 1]}", "pending": name in done.pending}
        for name, count in begun.items()
        if count or name in done.pending
    ]
    left = {name: count for name, count in done.unstarted.items() if count}
    return [*told, *({"words": f"{count} {LEFT[name][count != 1]}", "pending": False} for name, count in left.items())]


def held_by(one: Identity) -> list[Effect]:
    """What ends with an identity: held by it and held on it."""
    grants = (
        ToolPermission.objects.live().filter(Q(agent=one) | Q(tool=one)).count()
        + NhiPermission.objects.live().filter(Q(source=one) | Q(target=one)).count()
        + UserPermission.objects.live().filter(nhi=one).count()
    )
    roles = RoleAssignment.objects.live().filter(identity=one).count()
    return [
        counted("grants", grants, "Revokes {} grant", "Revokes {} grants"),
        counted("roles", roles, "Takes {} role away", "Takes {} roles away"),
    ]


URLS = [
    path("<uuid:pk>/stop/", Stop.as_view(), name="nhi_identity_stop"),
    path("<uuid:pk>/activate/", Activate.as_view(), name="nhi_identity_activate"),
    path("<uuid:pk>/deactivate/", Deactivate.as_view(), name="nhi_identity_deactivate"),
    path("<uuid:pk>/deprecate/", Deprecate.as_view(), name="nhi_identity_deprecate"),
    path("<uuid:pk>/archive/", Archive.as_view(), name="nhi_identity_archive"),
]
