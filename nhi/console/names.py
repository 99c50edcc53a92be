"""Form fields that take a name and return a visible row; the suggestions for them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from common.console.forms import ConsoleForm
from common.console.pages import link
from common.errors import NotFound
from common.ids import parse_uuid
from nhi.actors import Actor
from nhi.choices import Kind
from nhi.console.base import ActorPage
from nhi.models import Identity, Role, User

MAX_SUGGESTIONS = 12
MAX_NAMES = 100


@dataclass(frozen=True)
class NamedRows:
    """A kind of row that is found by name."""

    words: str
    rows: Callable[[Actor], QuerySet[Any]]
    column: str = "name"


def _identities_of(*kinds: Kind) -> Callable[[Actor], QuerySet[Any]]:
    return lambda actor: Identity.objects.visible_to(actor).of_kind(*kinds)


NAMED_ROWS: dict[str, NamedRows] = {
    "agent": NamedRows("agent", _identities_of(Kind.AGENT)),
    "tool": NamedRows("tool", _identities_of(Kind.TOOL)),
    "caller": NamedRows("agent or service account", _identities_of(Kind.AGENT, Kind.SERVICE_ACCOUNT)),
    "identity": NamedRows("identity", _identities_of(*Kind)),
    "person": NamedRows("person", lambda actor: User.objects.visible_to(actor).active(), "username"),
    "role": NamedRows("role", Role.objects.visible_to),
}
#: Kinds of row that include tools.
TOOL_ROW_KINDS = frozenset({"tool", "identity"})


class NameField(forms.CharField):
    """Finds one row by name or id. The browser suggests names."""

    def __init__(self, what: str, *, label: str, required: bool = True, help_text: str = "") -> None:
        super().__init__(label=label, required=required, max_length=250, help_text=help_text)
        self.what = what
        self.actor: Actor | None = None
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text or self.actor is None:
            return None
        return find_row(self.what, self.actor, text)

    def run_validators(self, value: Any) -> None:
        """Do nothing: `to_python` returned a valid row."""


class NamesField(forms.CharField):
    """Finds several rows by name, one per line. Commas and spaces also separate names."""

    def __init__(self, what: str, *, label: str, required: bool = True, help_text: str = "") -> None:
        super().__init__(label=label, required=required, help_text=help_text, widget=forms.Textarea(attrs={"rows": 3}))
        self.what = what
        self.actor: Actor | None = None
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}

    def to_python(self, value: Any) -> Any:
        words = list(dict.fromkeys(str(value or "").replace(",", " ").split()))
        return find_rows(self.what, self.actor, words) if words and self.actor is not None else []

    def run_validators(self, value: Any) -> None:
        """Do nothing: `to_python` returned valid rows."""


def bind_name_fields(form: ConsoleForm, actor: Actor) -> ConsoleForm:
    """Let the form's name fields accept the rows that this actor may see."""
    for field in form.fields.values():
        if isinstance(field, NameField | NamesField):
            field.actor = actor
            field.widget.attrs["data-names"] = link("names", field.what)
    return form


def find_row(what: str, actor: Actor, text: str) -> Any:
    named = NAMED_ROWS[what]
    name, _, kind = text.removesuffix(")").partition(" (")
    seen = named.rows(actor)
    known = parse_uuid(text)
    rows = seen.filter(pk=known) if known else seen.filter(**{named.column: name})
    if kind:
        rows = rows.filter(kind=kind.replace(" ", "_"))
    found = list(rows[:2])
    if not found and what in TOOL_ROW_KINDS and "." in name:
        # Accept a tool's name as the call log shows it: todo.create_todo.
        found = list(seen.filter(kind=Kind.TOOL, name=name.replace(".", "__", 1)))
    if not found:
        raise ValidationError(f"There is no {named.words} {text[:80]} that you can see.", code="unknown")
    if len(found) > 1:
        said = " or ".join(full_name(row, exactly=True) for row in found)
        raise ValidationError(f"Two go by this name. Write {said}.")
    return found[0]


def find_rows(what: str, actor: Actor, words: list[str]) -> list[Any]:
    """Return the rows in the order of their names in `words`."""
    named = NAMED_ROWS[what]
    if len(words) > MAX_NAMES:
        raise ValidationError(f"Name at most {MAX_NAMES}.")
    found = {getattr(row, named.column): row for row in named.rows(actor).filter(**{f"{named.column}__in": words})}
    missing = [word for word in words if word not in found]
    if missing:
        said = ", ".join(word[:80] for word in missing[:5])
        raise ValidationError(f"There is no {named.words} {said} that you can see.")
    return [found[word] for word in words]


def full_name(row: Any, *, exactly: bool = False) -> str:
    """Return the name as a field accepts it. `exactly` adds the kind, in case the name is ambiguous."""
    return f"{row} ({Kind(row.kind).label.lower()})" if exactly and isinstance(row, Identity) else str(row)


def initial_name(what: str, actor: Actor, text: str) -> str:
    """Return the initial value of a field for an id or name from a URL, or an empty string if there is no such row."""
    if not text:
        return ""
    try:
        return full_name(find_row(what, actor, text))
    except ValidationError:
        return ""


class NameSuggestions(ActorPage):
    """Suggests names that start with the typed text, then names that contain it."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        named = NAMED_ROWS.get(kwargs["what"])
        if named is None:
            raise NotFound
        typed = request.GET.get("q", "").strip()[:100]
        rows = named.rows(self.actor).order_by(named.column)
        found = list(rows.filter(**{f"{named.column}__istartswith": typed})[:MAX_SUGGESTIONS])
        if typed and len(found) < MAX_SUGGESTIONS:
            inside = rows.filter(**{f"{named.column}__icontains": typed}).exclude(pk__in=[row.pk for row in found])
            found += inside[: MAX_SUGGESTIONS - len(found)]
        return JsonResponse({"names": [_suggestion(row, found) for row in found]})


def _suggestion(row: Any, among: list[Any]) -> dict[str, str]:
    twice = sum(str(other) == str(row) for other in among) > 1
    kind = Kind(row.kind).label if isinstance(row, Identity) else ""
    return {"name": full_name(row, exactly=twice), "note": kind}


URLS = [path("names/<slug:what>/", NameSuggestions.as_view(), name="names")]
