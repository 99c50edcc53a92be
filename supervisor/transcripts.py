"""What is said in sessions: numbered under the lock of the session's row, so that everybody reads it in one order."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models.functions import Now

from common.db import clock
from common.ids import uuid7
from nhi.actors import Actor
from nhi.validation import MAX_REASON_LENGTH
from supervisor import sealing
from supervisor.choices import Direction, SessionState
from supervisor.models import Execution, Session, SessionMessage

#: Of both directions together. A session that is full is ended.
MOST_MESSAGES, MOST_BYTES = 10_000, 10 * 1024 * 1024
#: Of one message, in bytes.
LONGEST = 64 * 1024
BATCH = 500


@dataclass(frozen=True)
class Said:
    """A message as the agent is given it."""

    seq: int
    text: str


def locked(session: Session) -> Session:
    rows = Session.objects.select_for_update(of=("self",)).select_related("agent__identity", "execution")
    return rows.get(pk=session.pk)


def is_full(session: Session) -> bool:
    return session.messages_count >= MOST_MESSAGES or session.messages_bytes >= MOST_BYTES


def say(session: Session, *, text: str, shown: str, by: Actor, run_id: UUID | None = None) -> SessionMessage:
    """A message to the agent, in the transaction of a caller that has locked the session."""
    message = SessionMessage(
        id=uuid7(), session=session, seq=session.messages_count + 1, direction=Direction.IN, text=shown,
        said_by_name=by.name, said_by_id=by.id, said_by_run_id=run_id, at=clock.database_now(),
    )  # fmt: skip
    message.sealed_text = sealing.seal(text, table="session_message", row=message.pk, field="text")
    message.save(force_insert=True)
    _count(session, [message], len(text.encode()))
    return message


def hear(session: Session, lines: Sequence[str]) -> int:
    """What the agent said, as far as there is room for it, in such a transaction too; how much that was."""
    room, size = MOST_MESSAGES - session.messages_count, session.messages_bytes
    messages: list[SessionMessage] = []
    at = clock.database_now()
    for line in lines[:room]:
        if size >= MOST_BYTES:
            break
        seq = session.messages_count + len(messages) + 1
        messages.append(SessionMessage(session=session, seq=seq, direction=Direction.OUT, text=line, at=at))
        size += len(line.encode())
    SessionMessage.objects.bulk_create(messages, batch_size=BATCH)
    _count(session, messages, size - session.messages_bytes)
    return len(messages)


def take(session: Session, *, after: int) -> list[Said]:
    """The messages to the agent behind that number. They are given once: what is taken is written, or lost with it.

    Of earlier ones the open text goes. Not of these: should nobody know whether this was committed, they are asked for
    again by who knows what it has written.
    """
    to_agent = SessionMessage.objects.filter(session=session, direction=Direction.IN)
    to_agent.filter(seq__lte=after).exclude(sealed_text="").update(sealed_text="")
    waiting = list(to_agent.filter(seq__gt=after).order_by("seq"))
    to_agent.filter(seq__gt=after, taken_at=None).update(taken_at=clock.database_now())
    return [Said(message.seq, _open(message)) for message in waiting]


def count_heard(run: Execution) -> int:
    return SessionMessage.objects.filter(session__execution=run, direction=Direction.OUT).count()


def ask_for_end(session: Session, why: str) -> None:
    """Take nothing more, in such a transaction: what was said before is given, whoever speaks now is told why."""
    asked = Session.objects.filter(pk=session.pk, state=SessionState.OPEN, close_requested_at=None)
    asked.update(close_requested_at=Now(), close_reason=why[:MAX_REASON_LENGTH])


def is_open(session: Session) -> bool:
    """Whether something may still be said: nobody has asked for its end or for that of its run."""
    asked = session.close_requested_at or session.execution.cancel_requested_at
    return session.state == SessionState.OPEN and asked is None


def _count(session: Session, messages: Sequence[SessionMessage], size: int) -> None:
    if not messages:
        return
    session.messages_count = messages[-1].seq
    session.messages_bytes += size
    session.last_message_at = messages[-1].at
    session.save(update_fields=["messages_count", "messages_bytes", "last_message_at"])


def _open(message: SessionMessage) -> str:
    return str(sealing.unseal(message.sealed_text, table="session_message", row=message.pk, field="text") or "")
