"""Form fields that take a name and return a visible row; the suggestions for them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse_lazy

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
    """A kind of row that a name field finds: its words, the rows an actor sees, and the column of the name."""

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


class RowByNameField(forms.CharField):
    """Finds one row by name or id. The browser suggests names."""

    def __init__(self, row_kind: str, *, label: str, required: bool = True, help_text: str = "") -> None:
        super().__init__(label=label, required=required, max_length=250, help_text=help_text)
        self.row_kind = row_kind
        self.actor: Actor | None = None
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text or self.actor is None:
            return None
        return find_row(self.row_kind, self.actor, text)

    def run_validators(self, value: Any) -> None:
        """Do nothing: `to_python` returned a valid row."""


class RowsByNameField(forms.CharField):
    """Finds several rows by name, one per line. Commas and spaces also separate names."""

    def __init__(self, row_kind: str, *, label: str, required: bool = True, help_text: str = "") -> None:
        super().__init__(label=label, required=required, help_text=help_text, widget=forms.Textarea(attrs={"rows": 3}))
        self.row_kind = row_kind
        self.actor: Actor | None = None
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}

    def to_python(self, value: Any) -> Any:
        words = list(dict.fromkeys(str(value or "").replace(",", " ").split()))
        return find_rows(self.row_kind, self.actor, words) if words and self.actor is not None else []

    def run_validators(self, value: Any) -> None:
        """Do nothing: `to_python` returned valid rows."""


def bind_name_fields(form: ConsoleForm, actor: Actor) -> ConsoleForm:
    """Let the form's name fields accept the rows that this actor may see."""
    for field in form.fields.values():
        if isinstance(field, RowByNameField | RowsByNameField):
            field.actor = actor
            field.widget.attrs["data-names"] = link("names", field.row_kind)
    return form


def find_row(row_kind: str, actor: Actor, text: str) -> Any:
    named_rows = NAMED_ROWS[row_kind]
    name, _, kind = text.removesuffix(")").partition(" (")
    visible = named_rows.rows(actor)
    pk = parse_uuid(text)
    rows = visible.filter(pk=pk) if pk else visible.filter(**{named_rows.column: name})
    if kind:
        rows = rows.filter(kind=kind.replace(" ", "_"))
    matches = list(rows[:2])
    if not matches and row_kind in TOOL_ROW_KINDS and "." in name:
        # Accept a tool's name as the call log shows it: todo.create_todo.
        matches = list(visible.filter(kind=Kind.TOOL, name=name.replace(".", "__", 1)))
    if not matches:
        raise ValidationError(f"There is no {named_rows.words} {text[:80]} that you can see.", code="unknown")
    if len(matches) > 1:
        choices = " or ".join(full_name(row, exactly=True) for row in matches)
        raise ValidationError(f"Two go by this name. Write {choices}.")
    return matches[0]


def find_rows(row_kind: str, actor: Actor, words: list[str]) -> list[Any]:
    """Return the rows in the order of their names in `words`."""
    named_rows = NAMED_ROWS[row_kind]
    if len(words) > MAX_NAMES:
        raise ValidationError(f"Name at most {MAX_NAMES}.")
    rows_by_name = {
        getattr(row, named_rows.column): row
        for row in named_rows.rows(actor).filter(**{f"{named_rows.column}__in": words})
    }
    missing = [word for word in words if word not in rows_by_name]
    if missing:
        missing_names = ", ".join(word[:80] for word in missing[:5])
        raise ValidationError(f"There is no {named_rows.words} {missing_names} that you can see.")
    return [rows_by_name[word] for word in words]


def full_name(row: Any, *, exactly: bool = False) -> str:
    """Return the name as a field accepts it. `exactly` adds the kind, in case the name is ambiguous."""
    return f"{row} ({Kind(row.kind).label.lower()})" if exactly and isinstance(row, Identity) else str(row)


def initial_name(row_kind: str, actor: Actor, text: str) -> str:
    """Return the initial value of a field for an id or name from a URL, or an empty string if there is no such row."""
    if not text:
        return ""
    try:
        return full_name(find_row(row_kind, actor, text))
    except ValidationError:
        return ""


class NameSuggestionsView(ActorPage):
    """Suggests names that start with the typed text, then names that contain it."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        named_rows = NAMED_ROWS.get(kwargs["what"])
        if named_rows is None:
            raise NotFound
        prefix = request.GET.get("q", "").strip()[:100]
        rows = named_rows.rows(self.actor).order_by(named_rows.column)
        matches = list(rows.filter(**{f"{named_rows.column}__istartswith": prefix})[:MAX_SUGGESTIONS])
        if prefix and len(matches) < MAX_SUGGESTIONS:
            inside = rows.filter(**{f"{named_rows.column}__icontains": prefix}).exclude(
                pk__in=[row.pk for row in matches]
            )
            matches += inside[: MAX_SUGGESTIONS - len(matches)]
        return JsonResponse({"names": [_suggestion(row, matches) for row in matches]})


def _suggestion(row: Any, among: list[Any]) -> dict[str, str]:
    twice = sum(str(other) == str(row) for other in among) > 1
    kind = Kind(row.kind).label if isinstance(row, Identity) else ""
    return {"name": full_name(row, exactly=twice), "note": kind}


URLS = [path("names/<slug:what>/", NameSuggestionsView.as_view(), name="names")]


F = TypeVar("F", bound=ConsoleForm)


class PersonField(forms.CharField):
    """Finds a person by username among those that the actor sees. The operation checks if this person is allowed."""

    def __init__(self, *, required: bool = True, label: str | None = None, help_text: str = "") -> None:
        super().__init__(required=required, label=label, max_length=150, help_text=help_text)
        names = reverse_lazy("admin:names", args=("person",))
        self.actor: Actor | None = None
        #: The current people by username. They stay valid even if they are deactivated or the actor cannot see them.
        self.current_people: dict[str, User] = {}
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false", "data-names": names}

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text or self.actor is None:
            return None
        person = self.current_people.get(text) or User.objects.visible_to(self.actor).filter(username=text).first()
        if person is None:
            raise forms.ValidationError("There is nobody here by this name.")
        return person

    def prepare_value(self, value: Any) -> Any:
        return value.username if isinstance(value, User) else value

    def run_validators(self, value: Any) -> None:
        """Do nothing: `to_python` returned a valid person."""


def bind_people_fields(form: F, actor: Actor, *current_people: User | None) -> F:
    """Let the form's person fields accept the people that this actor sees, and the current ones."""
    for field in form.fields.values():
        if isinstance(field, PersonField):
            field.actor, field.current_people = (
                actor,
                {person.username: person for person in current_people if person is not None},
            )
    return form
