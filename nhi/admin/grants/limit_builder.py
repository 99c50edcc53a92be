"""The part of a grant's dialog that builds a limit from the tool's own arguments, and tries a call against it.

Its buttons send the dialog's form and draw it again with what was typed; nothing is saved. It works without scripts.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest, HttpResponse, QueryDict

from common.console.forms import ConsoleForm
from nhi import hooks
from nhi.console.base import ActorDialog
from nhi.decisions import argument_limits, argument_schemas, json_schema
from nhi.models import Identity

ANY = "any"
RULES = {
    ANY: "any",
    "equals": "equals",
    "one_of": "is one of",
    "matches": "matches the pattern",
    "at_least": "is at least",
    "at_most": "is at most",
    "left_out": "is left out",
}
BY_KIND: dict[str, tuple[str, ...]] = {
    "string": (ANY, "equals", "one_of", "matches", "left_out"),
    "number": (ANY, "equals", "one_of", "at_least", "at_most", "left_out"),
}
OTHERWISE = (ANY, "equals", "one_of", "left_out")
KEYWORD = {"equals": "const", "one_of": "enum", "matches": "pattern", "at_least": "minimum", "at_most": "maximum"}
MOST_ROWS = 40
STEPS = frozenset({"arguments", "build", "try"})
CONFLICT = "The rows and the schema differ. Write the schema from the rows, or set the rows back to “any”."


@dataclass(frozen=True)
class Row:
    """One argument of the tool, and what a call may give for it."""

    number: int
    name: str
    kind: str
    description: str = ""
    rule: str = ANY
    value: str = ""
    problem: str = ""

    @property
    def choices(self) -> list[tuple[str, str]]:
        return [(rule, RULES[rule]) for rule in BY_KIND.get(self.kind, OTHERWISE)]

    @property
    def schema(self) -> Any:
        """The schema of the argument; raises `ValueError` with a sentence for a value that cannot be read."""
        if self.rule == "left_out":
            return False
        if self.rule == "one_of":
            return {"enum": _listed(self.value, self.kind)}
        if self.rule == "matches":
            return {"pattern": self.value}
        return {KEYWORD[self.rule]: _read(self.value, self.kind)}


@dataclass(frozen=True)
class Tried:
    """What became of arguments that were tried."""

    passes: bool
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Builder:
    """All that the template draws."""

    tool: Identity | None
    rows: tuple[Row, ...]
    is_open: bool = True
    #: The schema that the rows stood for when they were drawn.
    written: str = ""
    arguments: str = ""
    tried: Tried | None = None

    @property
    def problem(self) -> str:
        return next((row.problem for row in self.rows if row.problem), "")


class BuildsLimit(ActorDialog):
    """A dialog whose form has the field `parameters`. Subclasses say which tool it is about."""

    _builder: Builder
    _conflict = ""
    #: One of its buttons was pressed: what it shows is not folded away.
    _is_open = False
    #: The schema of rows that were set without writing it.
    _written: str | None = None

    def limited_tool(self, data: QueryDict | None) -> Identity | None:
        raise NotImplementedError

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = self.form()
        self._builder = _begin(self.limited_tool(None), form["parameters"].value())
        return self._drawn(form, self.effects())

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        self._builder = builder = read(self.limited_tool(request.POST), request.POST)
        step, typed = request.POST.get("step", ""), request.POST.get("parameters", "")
        if step not in {"build", "arguments"} and _conflict(builder, typed):
            return self._again(builder, typed, problem=CONFLICT, status=422)
        if step in STEPS:
            return self._stepped(builder, step, typed)
        if builder.rows and not builder.problem and not _same(write(builder.rows), builder.written):
            # The rows were set and the schema was not written from them: they are what is meant.
            self._written = write(builder.rows)
        if builder.problem:
            return self._again(builder, typed, status=422)
        return super().post(request, **kwargs)

    def form(self, data: Any = None) -> ConsoleForm:
        if data is not None and self._written is not None:
            data = data.copy()
            data["parameters"] = self._written
        return super().form(data)

    def context(self) -> dict[str, Any]:
        return {
            **super().context(),
            "builder": self._builder,
            "builder_problem": self._conflict or self._builder.problem,
            "builder_open": self._is_open or any(row.rule != ANY for row in self._builder.rows),
        }

    def _stepped(self, builder: Builder, step: str, typed: str) -> HttpResponse:
        fresh = builder.written == "" and not typed.strip()
        if not builder.problem and (step == "build" or (step == "try" and (fresh or _same(typed, builder.written)))):
            typed = write(builder.rows) or typed
        if step == "arguments":
            return self._again(_begin(builder.tool, _json(typed)), typed)
        if step == "try":
            builder = replace(builder, tried=try_arguments(builder, typed))
        if step == "build" and not builder.problem:
            builder = replace(builder, written=typed)
        return self._again(builder, typed)

    def _again(self, builder: Builder, typed: str, *, problem: str = "", status: int = 200) -> HttpResponse:
        """The form as it was typed, without a word about what is still missing in it."""
        self._builder, self._is_open = builder, True
        form = self.form()
        kept = {name: self.request.POST.get(name, "") for name in form.fields}
        form.initial = {**kept, "parameters": InvalidJSONInput(typed) if typed else None}
        self._conflict = problem
        return self._drawn(form, self.effects(), status=status)


def _conflict(builder: Builder, typed: str) -> bool:
    """Whether rows were set since the schema was written from them, and the schema was edited by hand as well."""
    rows_say = write(builder.rows)
    was_set = not builder.problem and not _same(rows_say, builder.written)
    return was_set and not _same(typed, rows_say) and not _same(typed, builder.written)


def read(tool: Identity | None, data: QueryDict) -> Builder:
    """The rows as they were sent, of the arguments that the tool has now."""
    arguments = _arguments(tool)
    numbers = {data.get(f"argument_{number}", ""): number for number in range(MOST_ROWS)}
    rows = []
    for row in _rows(arguments):
        number = numbers.get(row.name)
        rule = data.get(f"rule_{number}", ANY) if number is not None else ANY
        value = data.get(f"value_{number}", "") if number is not None else ""
        rows.append(_checked(row, rule if rule in dict(row.choices) else ANY, value))
    return Builder(
        tool, tuple(rows), arguments.allows_others, data.get("written", ""), data.get("try_arguments", "")[:100_000]
    )


def write(rows: tuple[Row, ...]) -> str:
    """The schema of what the rows say; nothing where all of them say “any”."""
    limited = [row for row in rows if row.rule != ANY and not row.problem]
    if not limited:
        return ""
    schema: dict[str, Any] = {"properties": {row.name: row.schema for row in limited}}
    required = [row.name for row in limited if row.rule != "left_out"]
    return json.dumps({**schema, "required": required} if required else schema, ensure_ascii=False, indent=2)


def try_arguments(builder: Builder, typed: str) -> Tried:
    """Whether a call with these arguments keeps the limit, and fits the tool."""
    limit, given = _json(typed), _json(builder.arguments or "{}")
    if typed.strip() and limit is None:
        return Tried(False, ("The schema is not JSON.",))
    if not isinstance(given, dict):
        return Tried(False, ("The arguments are no JSON object.",))
    known = hooks.load_argument_schemas(builder.tool.pk) if builder.tool else []
    name = builder.tool.name if builder.tool else "this tool"
    if limit not in (None, {}):
        wrong = (
            argument_limits.find_problem(limit, known, tool=name)
            if isinstance(limit, dict)
            else "The schema is no object."
        )
        if wrong:
            return Tried(False, (wrong,))
    limit = limit or {}
    broken = [_line(place, problem) for place, problem in json_schema.find_violations(limit, given)]
    if known and not json_schema.find_problem(known[0]):
        broken += [
            _line(place, problem)
            for place, problem in json_schema.find_violations(known[0], given, schema_owner="the tool")
        ]
    passed = argument_limits.optional_limited_arguments(limit, known)
    return Tried(
        not broken, tuple(broken), tuple(f"A call that leaves out `{name}` passes this limit." for name in passed)
    )


def _begin(tool: Identity | None, limit: Any) -> Builder:
    """The rows that a limit began with, as far as it says no more than rows can."""
    parsed = _json(limit) if isinstance(limit, str) else limit
    arguments = _arguments(tool)
    rows = tuple(_from_schema(row, parsed) for row in _rows(arguments))
    return Builder(tool, rows, arguments.allows_others, write(rows))


def _from_schema(row: Row, limit: Any) -> Row:
    properties = limit.get("properties") if isinstance(limit, dict) else None
    part = properties.get(row.name) if isinstance(properties, dict) else None
    if part is False:
        return _checked(row, "left_out", "")
    if not isinstance(part, dict) or len(part) != 1:
        return row
    keyword, value = next(iter(part.items()))
    rule = next((rule for rule, known in KEYWORD.items() if known == keyword and rule in dict(row.choices)), ANY)
    return _checked(row, rule, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _arguments(tool: Identity | None) -> argument_schemas.PropertySchemas:
    return argument_schemas.PropertySchemas.from_tool_schemas(
        hooks.load_argument_schemas(tool.pk) if tool is not None else []
    )


def _rows(arguments: argument_schemas.PropertySchemas) -> list[Row]:
    found = []
    # By name, as PostgreSQL does not keep the order in which a tool lists them.
    for number, (name, described) in enumerate(sorted(arguments.schemas_by_name.items())[:MOST_ROWS]):
        parts = [part for part, _ in described if isinstance(part, dict)]
        kinds = {kind for part in parts for kind in argument_schemas.value_kinds(part)} - {"null"}
        description = next((str(part["description"]) for part in parts if part.get("description")), "")
        found.append(Row(number, name, kinds.pop() if len(kinds) == 1 else "", description[:200]))
    return found


def _checked(row: Row, rule: str, value: str) -> Row:
    changed = Row(row.number, row.name, row.kind, row.description, rule, value)
    if rule == ANY:
        return changed
    try:
        problem = json_schema.find_problem({"properties": {row.name: changed.schema}})
    except ValueError as error:
        problem = str(error)
    return replace(changed, problem=f"{row.name}: {problem}" if problem else "")


def _read(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        if kind in {"", "array", "object"}:
            raise ValueError('Write the value as JSON, like "text", 5 or ["a", "b"].') from None
        raise ValueError("Write a number." if kind == "number" else "Write true or false.") from None


def _listed(text: str, kind: str) -> list[Any]:
    """Values parted by commas, or a JSON list of them."""
    whole = _json(text)
    values = (
        whole if isinstance(whole, list) else [_read(part.strip(), kind) for part in text.split(",") if part.strip()]
    )
    if not values:
        raise ValueError("Write at least one value.")
    return values


def _line(place: str, problem: str) -> str:
    where, problem = place.removeprefix("$").removeprefix("."), problem.removeprefix("the value ")
    return f"`{where}` {problem}." if where else f"The arguments: {problem}."


def _same(text: str, other: str) -> bool:
    """Whether two schemas are one, however they are laid out."""
    if not text.strip() or not other.strip():
        return not text.strip() and not other.strip()
    return _json(text) is not None and _json(text) == _json(other)


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None
