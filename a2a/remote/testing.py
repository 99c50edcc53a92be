"""Testing the server behind an agent before a task is sent there, on demand and on record."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from a2a import runtimes
from a2a.choices import RuntimeKind
from a2a.models import Runtime
from a2a.remote import errands, troubles
from a2a.remote.probing import Probe, Report
from common import crypto
from common.egress.tracked_body import SentFlag
from common.errors import Conflict
from common.executors import background_loop
from common.redaction import redact_text
from common.redaction.redactor import Redactor
from nhi.actors import Actor
from nhi.audit import events
from nhi.models import Identity

DOING = "test the server behind an agent"
#: Over all that is asked of it.
SECONDS = 10.0
#: At once in one process, whose threads others need too.
MOST_AT_ONCE = 4


class _UnderWay:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tested: set[UUID] = set()

    @contextmanager
    def only(self, identity: Identity) -> Iterator[None]:
        with self._lock:
            if identity.pk in self._tested:
                raise Conflict(f"The server behind {identity.name} is being tested. Wait for what that finds.")
            if len(self._tested) >= MOST_AT_ONCE:
                raise Conflict("Other servers are being tested. Try again in some seconds.")
            self._tested.add(identity.pk)
        try:
            yield
        finally:
            with self._lock:
                self._tested.discard(identity.pk)


_under_way = _UnderWay()


def test(*, actor: Actor, identity: Identity) -> Report:
    """Ask the server behind it for what it cannot know, and say what that shows. One that fails is an answer too."""
    actor.require(runtimes.RIGHT, DOING)
    runtime = _remote(identity)
    with _under_way.only(identity):
        report = _met(runtime)
    _record(actor, identity, runtime, report)
    return report


def impossible(identity: Identity) -> str:
    """Why there is nothing to test; empty where there is."""
    remote = runtimes.of(identity).kind == RuntimeKind.REMOTE
    return "" if remote else f"Tasks of {identity.name} go to no other A2A server, so there is none to test."


def _remote(identity: Identity) -> Runtime:
    chosen = runtimes.of(identity).chosen
    if chosen is None or chosen.kind != RuntimeKind.REMOTE:
        raise Conflict(impossible(identity))
    return chosen


def _met(runtime: Runtime) -> Report:
    try:
        target, secret = errands.target_behind(runtime), runtimes.credential(runtime)
    except crypto.UnsealError:
        raise Conflict("The credential cannot be decrypted any more. Set it again.") from None
    known = {secret, target.credential.value} if target.credential else set()
    probe = Probe(target, Redactor(secret_values=frozenset(known)))
    try:
        return background_loop.run(probe.run(SECONDS), timeout=SECONDS + 1)
    except TimeoutError:
        return probe.found(troubles.late(SECONDS, SentFlag()))


def _record(actor: Actor, identity: Identity, runtime: Runtime, report: Report) -> None:
    details = {"outcome": report.outcome, "url": redact_text(runtime.url)}
    if report.interface is not None:
        details |= {"version": report.interface.version, "binding": report.interface.binding}
    events.write("runtime.tested", actor=actor, subject=identity, details=details)
