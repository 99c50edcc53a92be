"""Changing what an agent tells of itself: its card, and the skills on it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from a2a import card_rights, endpoint_changes, endpoints
from a2a.choices import CardForm
from a2a.models import AgentCard, Skill
from a2a.wire import media
from common.db import clock
from common.errors import Conflict
from nhi.actors import Actor
from nhi.audit import events
from nhi.models import Identity
from nhi.validation import Problems

DESCRIBED = (
    "version", "description", "provider_organization", "provider_url", "documentation_url", "icon_url",
    "default_input_modes", "default_output_modes", "form",
)  # fmt: skip
PLACES = {"provider_organization": "provider.organization", "provider_url": "provider.url"}
OF_SKILL = ("skill_id", "name", "description", "tags", "examples", "input_modes", "output_modes", "public")
MOST_SKILLS, MOST_WORDS = 100, 20
SKILL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
Told = dict[str, Any]


def change(
    *, actor: Actor, identity: Identity, skills: Sequence[Mapping[str, Any]] | None = None, reason: str = "",
    **given: Any,
) -> AgentCard:  # fmt: skip
    """Set what is given and leave the rest; `skills` stand on it instead of all there were."""
    with transaction.atomic():
        row = _begin(actor, identity, reason)
        before = facts(row)
        _describe(row, given)
        _check(identity, row)
        if skills is not None:
            _replace(actor, identity, row, lambda _old: [dict(one) for one in skills], reason)
        after = facts(row)
        changed = [name for name in after if before[name] != after[name]]
        if changed:
            _save(row)
            events.write(
                "card.changed", actor=actor, subject=identity, reason=reason,
                before={name: before[name] for name in changed}, after={name: after[name] for name in changed},
            )  # fmt: skip
    return row


def put_skill(*, actor: Actor, identity: Identity, skill: Mapping[str, Any], instead_of: str = "") -> None:
    """Add a skill at the end, or write one anew where it stands."""

    def put(old: list[Told]) -> list[Told]:
        if not instead_of:
            return [*old, dict(skill)]
        at = _place(old, instead_of)
        return [*old[:at], dict(skill), *old[at + 1 :]]

    _revise(actor, identity, put)


def remove_skill(*, actor: Actor, identity: Identity, skill_id: str, reason: str = "") -> None:
    def removed(old: list[Told]) -> list[Told]:
        at = _place(old, skill_id)
        return [*old[:at], *old[at + 1 :]]

    _revise(actor, identity, removed, reason)


def move_skill(*, actor: Actor, identity: Identity, skill_id: str, up: bool) -> None:
    """Past its neighbour; the first one stays when it is moved up."""

    def moved(old: list[Told]) -> list[Told]:
        at = _place(old, skill_id)
        to = max(0, min(len(old) - 1, at + (-1 if up else 1)))
        rest = [*old[:at], *old[at + 1 :]]
        return [*rest[:to], old[at], *rest[to:]]

    _revise(actor, identity, moved)


def facts(row: AgentCard) -> Told:
    """What the record shows of a card."""
    return {name: getattr(row, name) for name in DESCRIBED}


def skill_facts(skill: Skill) -> Told:
    return {name: getattr(skill, name) for name in OF_SKILL}


def _begin(actor: Actor, identity: Identity, reason: str = "") -> AgentCard:
    card_rights.require_to_change(actor, identity, card_rights.CARD)
    problems = Problems()
    problems.check_reason(reason, required=False)
    problems.raise_if_any()
    # Two who change at once do it one after the other, also where there is no row yet.
    Identity.objects.select_for_update(of=("self",)).get(pk=identity.pk)
    return AgentCard.objects.filter(pk=identity.pk).first() or AgentCard(identity=identity)


def _save(row: AgentCard) -> None:
    row.updated_at = clock.database_now()
    row.save()


def _revise(actor: Actor, identity: Identity, to: Callable[[list[Told]], list[Told]], reason: str = "") -> None:
    with transaction.atomic():
        _replace(actor, identity, _begin(actor, identity, reason), to, reason)


def _replace(
    actor: Actor, identity: Identity, row: AgentCard, to: Callable[[list[Told]], list[Told]], reason: str
) -> None:  # fmt: skip
    old = [skill_facts(skill) for skill in Skill.objects.filter(identity=identity).order_by("position")]
    new = [_whole(one) for one in to(old)]
    if new == old:
        return
    _check_skills(identity, new)
    Skill.objects.filter(identity=identity).delete()
    Skill.objects.bulk_create(Skill(identity=identity, position=at, **one) for at, one in enumerate(new))
    _save(row)
    events.write(
        "card.skills_changed", actor=actor, subject=identity, reason=reason, before={"skills": old},
        after={"skills": new},
    )  # fmt: skip


def _whole(told: Told) -> Told:
    """With the usual values of what is not said."""
    usual = skill_facts(Skill())
    unknown = set(told) - set(usual)
    if unknown:
        raise TypeError(f"{sorted(unknown)} do not describe a skill")
    return {**usual, **told}


def _place(old: list[Told], skill_id: str) -> int:
    for at, one in enumerate(old):
        if one["skill_id"] == skill_id:
            return at
    raise Conflict(f"The skill {skill_id[:100]} is not on the card any more. Nothing was changed.")


def _describe(row: AgentCard, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in DESCRIBED:
            raise TypeError(f"{name} does not describe a card")
        setattr(row, name, value)


class _Placed(Problems):
    """Names each field as the card's description does."""

    def add(self, field: str, message: str) -> None:
        super().add(PLACES.get(field, field), message)


def _check(identity: Identity, row: AgentCard) -> None:
    problems = _Placed()
    problems.check_line("version", row.version, max_length=50)
    problems.unless(row.version.strip(), "version", "Write the agent's own version, such as 1.0.0.")
    problems.check_line("description", row.description, max_length=1000)
    problems.check_line("provider_organization", row.provider_organization, max_length=200)
    for field in ("provider_url", "documentation_url", "icon_url"):
        _check_url(problems, field, getattr(row, field))
    both = bool(row.provider_organization) == bool(row.provider_url)
    missing = "provider_url" if row.provider_organization else "provider_organization"
    problems.unless(both, missing, "A provider has a name and a URL; give both, or neither.")
    problems.unless(row.form in CardForm.values, "form", "Choose merged, 1.0 or 0.3.")
    for field in ("default_input_modes", "default_output_modes"):
        endpoint_changes.check_types(problems, field, getattr(row, field))
    _check_taken(problems, identity, "default_input_modes", row.default_input_modes)
    problems.raise_if_any()


def _check_url(problems: Problems, field: str, url: str) -> None:
    problems.check_line(field, url, max_length=500)
    try:
        parts = urlsplit(url)
        fine = not url or (parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username)
    except ValueError:
        fine = False
    problems.unless(fine and " " not in url, field, "Write a whole URL, such as https://example.com/docs, or nothing.")


def _check_taken(problems: Problems, identity: Identity, field: str, modes: Sequence[str]) -> None:
    """A card promises nothing that the endpoint refuses."""
    taken = endpoints.of(identity).content_types
    refused = [one for one in modes if not media.takes(taken, one)]
    if refused:
        problems.add(field, f"The endpoint does not take {refused[0]}: it takes {', '.join(taken)}.")


def _check_skills(identity: Identity, skills: list[Told]) -> None:
    problems = Problems()
    problems.unless(len(skills) <= MOST_SKILLS, "skills", f"A card has at most {MOST_SKILLS} skills.")
    names = [one["skill_id"] for one in skills]
    for at, one in enumerate(skills[:MOST_SKILLS]):
        twice = names.index(one["skill_id"]) < at
        problems.unless(not twice, f"skills.{at}.id", "Another skill has this id.")
        _check_skill(problems, identity, f"skills.{at}", one)
    problems.raise_if_any()


def _check_skill(problems: Problems, identity: Identity, at: str, one: Told) -> None:
    fine = SKILL_ID.fullmatch(one["skill_id"])
    problems.unless(fine, f"{at}.id", "Use 1 to 100 letters, digits, dots, colons, underscores and hyphens.")
    problems.check_line(f"{at}.name", one["name"], max_length=200, required=True)
    problems.check_line(f"{at}.description", one["description"], max_length=1000)
    for field in ("tags", "examples"):
        problems.unless(len(one[field]) <= MOST_WORDS, f"{at}.{field}", f"Name at most {MOST_WORDS}.")
        for word in one[field][:MOST_WORDS]:
            problems.check_line(f"{at}.{field}", word, max_length=50 if field == "tags" else 500, required=True)
    for field in ("input_modes", "output_modes"):
        endpoint_changes.check_types(problems, f"{at}.{field}", one[field])
    _check_taken(problems, identity, f"{at}.input_modes", one["input_modes"])
