"""What ends with a move of an identity, in words: before it happens, and when it has happened."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from common.console.confirmation_dialogs import Effect, counted
from nhi.identities import lifecycle
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


def stop_effects(some: Sequence[Identity]) -> list[Effect]:
    """What a stop of all these ends now; what runs and what only waits to run apart."""
    counts, waiting = lifecycle.consequences_of(some), lifecycle.count_unstarted(some)
    begun = {name: max(0, count - waiting.get(name, 0)) for name, count in counts.items()}
    return [
        *(counted(name, begun[name], *words) for name, words in STOPS.items() if name in begun),
        *(counted(f"{name}_waiting", waiting[name], *words) for name, words in LEAVES.items() if name in waiting),
    ]


def ended(done: lifecycle.StopResult) -> list[dict[str, Any]]:
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
