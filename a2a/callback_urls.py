"""The URL of a callback: judged when it is given, kept as it may be shown, and beside that as it was given."""

import asyncio
import hashlib
from uuid import UUID

from yarl import URL

from a2a.models import Task
from common import crypto, egress
from common.errors import InvalidInput
from common.redaction import redact_text
from nhi.validation import Problems

FIELD = "callback_url"
LONGEST = 2000


def check(problems: Problems, url: str, *, field: str = FIELD) -> None:
    """What its text tells, without asking the network."""
    problems.unless(len(url) <= LONGEST, field, f"Use at most {LONGEST} characters.")
    if said := egress.find_url_problem(url):
        problems.add(field, said)


def look_up(url: str, *, field: str = FIELD) -> None:
    """The same without a loop. Not within a transaction."""
    asyncio.run(reached(url, field=field))


async def reached(url: str, *, field: str = FIELD) -> None:
    """Refuse a name that leads to where Gatehouse does not call. Name servers may be slow."""
    try:
        await egress.check_url(url)
    except egress.EgressBlocked as blocked:
        raise InvalidInput.for_field(field, blocked.message) from blocked


def keep(task: Task, url: str) -> None:
    """On the row that is to be written."""
    task.callback_url = redact_text(url)
    if task.callback_url != url:
        task.sealed_callback_url = crypto.seal(url, place=_place(task.pk))


def of(task: Task) -> str:
    """As it was given: where it is called."""
    if not task.sealed_callback_url:
        return task.callback_url
    return crypto.unseal(task.sealed_callback_url, place=_place(task.pk))


def mark(url: str) -> str:
    """What an exact URL is known by again."""
    return hashlib.sha256(url.encode()).hexdigest()


def host(url: str) -> str:
    """The host and port that it leads to."""
    read = URL(url)
    return f"{read.raw_host}:{read.port}"


def _place(task_id: UUID) -> str:
    return f"a2a_task/{task_id}/callback_url"
