"""How an agent's card and endpoint are told in a few words: the same in the list and on the agent's page."""

from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a.choices import Transport
from a2a.endpoints import Settings
from common.console import badges
from common.console.badges import Badge
from common.console.lists import Column
from common.templatetags.console import badge
from nhi.choices import State
from nhi.console import columns
from nhi.models import Identity


def reading(identity: Identity) -> Badge:
    """Who may read its card."""
    if not identity.discoverable:
        return badges.find("card", "hidden")
    past = identity.expires_at is not None and identity.expires_at <= timezone.now()
    return badges.find("card", "discoverable" if identity.state == State.ACTIVE and not past else "withheld")


def authentication(endpoint: Settings) -> Badge:
    return badges.find("a2a.Authentication", endpoint.authentication)


def ways(endpoint: Settings) -> str:
    return ", ".join(Transport(way).label for way in endpoint.transports)


def limits(endpoint: Settings) -> str:
    """Empty where there is none."""
    said = [
        f"{most} {words}"
        for most, words in (
            (endpoint.tasks_per_minute, "a minute"),
            (endpoint.tasks_per_hour, "an hour"),
            (endpoint.max_concurrent_tasks, "at a time"),
        )
        if most is not None
    ]
    return ", ".join(said)


def skills(told: Any) -> str:
    return f"{len(told.skills)}" if told.skills else ""


def checks(objections: Any) -> Badge:
    """The worst of them, and how many there are."""
    if not objections:
        return badges.find("check", "ok")
    worst = "error" if any(one.severity == "error" for one in objections) else "warning"
    many = len(objections)
    return badges.find("objection", worst).saying(f"{many} {'objection' if many == 1 else 'objections'}")


def _checks(row: Any) -> SafeString:
    return format_html("{}", badge(checks(row.objections)))


COLUMNS = (
    Column("Agent", lambda row: row.name, str, "name", narrow=True),
    columns.state("Card", reading, lambda row: badge(reading(row)), sort="discoverable"),
    columns.plain("Skills", lambda row: skills(row.told)),
    columns.plain("Reached over", lambda row: ways(row.told.endpoint)),
    columns.state(
        "Callers show", lambda row: authentication(row.told.endpoint),
        lambda row: badge(authentication(row.told.endpoint)), narrow=False,
    ),
    columns.plain("Takes", lambda row: limits(row.told.endpoint)),
    Column("Checks", _checks, lambda row: checks(row.objections).label, narrow=True),
)  # fmt: skip
