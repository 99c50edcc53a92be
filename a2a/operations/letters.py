"""What comes in seed 001's envelope, asked of the same operations as what comes over a binding."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from a2a import callback_urls, endpoints, parts
from a2a.choices import WORDS, Transport, Word
from a2a.models import Task
from a2a.operations import answers, faults, visits
from a2a.operations.answers import Began
from a2a.operations.table import OPERATIONS
from a2a.operations.visits import Visit
from a2a.wire import cards, envelopes
from a2a.wire.envelopes import Letter
from a2a.wire.faults import Fault, Kind, invalid
from a2a.wire.methods import GET, SEND
from common import canonical_json
from common.db import clock
from common.errors import GatehouseError
from common.ids import uuid7
from nhi.actors import Actor
from nhi.models import Identity
from supervisor.access import Caller

OPEN = (Word.PENDING, Word.RUNNING)


@dataclass(frozen=True)
class Report:
    """How things stand here for one caller."""

    versions: tuple[str, ...]
    bindings: tuple[str, ...]
    methods: tuple[str, ...]
    open_tasks: dict[Word, int]


def answer(*, caller: Caller, sent: Any, idempotency_key: str | None = None) -> dict[str, Any]:
    """An envelope for an envelope: also for one that cannot be read, and for what is refused."""
    to = envelopes.heading(sent)
    about = {"answer_id": str(uuid7()), "at": parts.moment(clock.database_now())}
    try:
        letter = envelopes.read(sent)
        _require_own_name(caller.actor, to.sender)
        result, conversation = _done(caller, letter, sent, idempotency_key)
        return envelopes.answer(to, conversation=conversation, result=result, **about)
    except (Fault, GatehouseError) as refused:
        return envelopes.answer(to, error=envelopes.error(faults.of(refused)), **about)


def report(actor: Actor, agent: Identity | None = None) -> Report:
    """Of the open tasks those that the caller asked for, of one agent or of all."""
    rows = Task.objects.open().held_by(actor)
    if agent is not None:
        rows = rows.filter(agent=agent)
    counted = dict.fromkeys(OPEN, 0)
    for state, count in rows.values_list("state").annotate(Count("pk")):
        counted[WORDS[state]] += count
    bindings = (cards.JSON_RPC, cards.HTTP_JSON, cards.GRPC)
    return Report(tuple(envelopes.VERSIONS), bindings, envelopes.METHODS, counted)


def told(found: Report) -> dict[str, Any]:
    """The same as a method's result."""
    counted = {str(word): count for word, count in found.open_tasks.items()}
    lists = {"versions": list(found.versions), "bindings": list(found.bindings), "methods": list(found.methods)}
    return {"protocol": envelopes.PROTOCOL, **lists, "openTasks": counted}


def _done(caller: Caller, letter: Letter, sent: Any, key: str | None) -> tuple[Any, str]:
    """The result, and the conversation that it belongs to."""
    if letter.method == envelopes.STATUS:
        visits.require_whole(caller)
        asked = envelopes.task_asked(letter)
        if asked is None:
            agent = _visit(caller, letter, key).agent if letter.heading.agent else None
            return told(report(caller.actor, agent)), ""
        return _run(_visit(caller, letter, key), GET, asked, letter, sent)
    return _run(_visit(caller, letter, key), SEND, envelopes.task_sent(letter), letter, sent)


def _run(visit: Visit, name: str, params: dict[str, Any], letter: Letter, sent: Any) -> tuple[Any, str]:
    endpoints.require(
        visit.endpoint,
        transport=Transport.HTTP_JSON,
        operation=name,
        size=len(canonical_json.encode(sent)),
        content_types=parts.media_of(params.get("message", {}).get("parts", ())),
    )
    if receiver := OPERATIONS[name].receiver(params):
        callback_urls.look_up(receiver[0], field=receiver[1])
    found = OPERATIONS[name].run(visit, params)
    result = answers.sent(found) if isinstance(found, Began) else found
    task = result.get("task", result)
    return envelopes.written(letter, name, result), str(task["contextId"])


def _visit(caller: Caller, letter: Letter, key: str | None) -> Visit:
    to = letter.heading
    if not to.agent:
        raise invalid(("context.to", "Name the agent that this is for, or give its id."))
    return visits.enter(caller=caller, agent=to.agent, version=to.version, idempotency_key=key)


def _require_own_name(actor: Actor, sender: str) -> None:
    """The same whether or not there is somebody of that name."""
    if sender not in {"", actor.name, str(actor.id)}:
        said = "context.from: You may write in your own name only; leave it empty."
        raise Fault(Kind.FORBIDDEN, said, [("context.from", "Leave it empty or give your own name.")])
