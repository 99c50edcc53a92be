"""Statements that are put together once: the ORM takes longer to build one than a database to answer it.

What is asked all the time differs in its values only. The first time, the ORM compiles the query with a stand-in for
each value; from then on that compilation is asked again, with the values in the places of their stand-ins. Rows are
written by statements that name every column.
"""

import copy
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, models
from django.db.models import QuerySet
from django.db.models.sql.compiler import SQLCompiler
from django.db.transaction import TransactionManagementError

_FIELDS: "dict[type, models.Field[Any, Any]]" = {
    UUID: models.UUIDField(), str: models.TextField(), int: models.IntegerField(),
}  # fmt: skip
#: Values that no query has of its own, and that every column takes.
_STAND_INS: dict[type, Callable[[], Any]] = {
    UUID: uuid4, str: lambda: uuid4().hex, int: lambda: 1_000_000_000 + secrets.randbelow(1_000_000_000),
}  # fmt: skip


class Prepared:
    """`build` makes the query from one argument for each of `slots`, which says of what type that is.

    No value is ever None: the ORM would make another query of it.
    """

    def __init__(self, build: Callable[..., "QuerySet[Any, Any]"], **slots: type) -> None:
        self._build, self._slots = build, slots
        self._compiled: dict[str, _Compiled] = {}

    def all(self, **values: Any) -> list[Any]:
        """Instances, or what else the query's `values` or `values_list` says."""
        found = self._compiled.get(connection.vendor)
        if found is None:
            # Two threads may do this at once, to the same end.
            found = self._compiled[connection.vendor] = _compile(self._build, self._slots)
        return found.ask(values)

    def first(self, **values: Any) -> Any:
        """The first of them, else None. The query itself says what comes first, and how many it takes."""
        return next(iter(self.all(**values)), None)


@dataclass(frozen=True)
class _Compiled:
    rows: "QuerySet[Any, Any]"
    compiler: SQLCompiler
    sql: str
    params: tuple[Any, ...]
    #: Which value is in which place.
    places: dict[int, str]
    slots: dict[str, type]

    def ask(self, values: dict[str, Any]) -> list[Any]:
        if self.rows.query.select_for_update and not connection.in_atomic_block:
            raise TransactionManagementError("select_for_update cannot be used outside of a transaction.")
        said = {name: _as_param(self.slots[name], value) for name, value in values.items()}
        params = tuple(
            said[self.places[place]] if place in self.places else param for place, param in enumerate(self.params)
        )  # fmt: skip
        # Its connection is whichever the asking thread has.
        ready = copy.copy(self.compiler)
        ready.as_sql = lambda *_args, **_kwargs: (self.sql, params)  # type: ignore[method-assign]  # compiled before
        asked: QuerySet[Any, Any] = self.rows.__class__(model=self.rows.model, query=_Ready(ready))  # type: ignore[arg-type]  # all that is asked of it
        asked._iterable_class, asked._fields = self.rows._iterable_class, self.rows._fields  # type: ignore[attr-defined]  # Django's own, which its stubs leave out
        return list(asked)


class _Ready:
    """What a QuerySet that is only read asks its query for."""

    def __init__(self, compiler: SQLCompiler) -> None:
        self._compiler = compiler

    def get_compiler(self, *_args: Any, **_kwargs: Any) -> SQLCompiler:
        return self._compiler


def _compile(build: Callable[..., "QuerySet[Any, Any]"], slots: dict[str, type]) -> _Compiled:
    stand_ins = {name: _STAND_INS[kind]() for name, kind in slots.items()}
    rows = build(**stand_ins)
    compiler = rows.query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    names = {_as_param(slots[name], value): name for name, value in stand_ins.items()}
    places = {at: names[one] for at, one in enumerate(params) if isinstance(one, tuple(_FIELDS)) and one in names}
    missing = slots.keys() - places.values()
    assert not missing, f"the query asks nothing of {missing}"
    return _Compiled(rows, compiler, sql, tuple(params), places, slots)


def _as_param(kind: type, value: Any) -> Any:
    assert value is not None
    return _FIELDS[kind].get_db_prep_value(value, connection, prepared=False)


def insert(row: models.Model) -> None:
    """Write a new row as `save(force_insert=True)` does, for models to whose signals nobody listens."""
    fields = row._meta.concrete_fields
    _execute(_insertion(type(row), connection.vendor), [_for_column(f, f.pre_save(row, add=True)) for f in fields])
    row._state.adding, row._state.db = False, connection.alias


def change(model: type[models.Model], pk: Any, values: Mapping[str, Any], *, while_null: str) -> bool:
    """Change a row by its key as long as another of its columns is null; False where it is not any more."""
    fields = [model._meta.get_field(name) for name in values]
    sql = _change(model, tuple(values), while_null, connection.vendor)
    params = [_for_column(field, value) for field, value in zip(fields, values.values(), strict=True)]
    return _execute(sql, [*params, _for_column(model._meta.pk, pk)]) == 1


@cache
def _insertion(model: type[models.Model], _vendor: str) -> str:
    columns = ", ".join(_column(field) for field in model._meta.concrete_fields)
    places = ", ".join(["%s"] * len(model._meta.concrete_fields))
    return f"INSERT INTO {_quoted(model._meta.db_table)} ({columns}) VALUES ({places})"  # noqa: S608 - names of models


@cache
def _change(model: type[models.Model], names: tuple[str, ...], while_null: str, _vendor: str) -> str:
    meta = model._meta
    sets = ", ".join(f"{_column(meta.get_field(name))} = %s" for name in names)
    where = f"{_column(meta.pk)} = %s AND {_column(meta.get_field(while_null))} IS NULL"
    return f"UPDATE {_quoted(meta.db_table)} SET {sets} WHERE {where}"  # noqa: S608 - names of models


def _column(field: Any) -> str:
    return _quoted(field.column)


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


def _for_column(field: Any, value: Any) -> Any:
    return field.get_db_prep_save(value, connection)


def _execute(sql: str, params: list[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)
