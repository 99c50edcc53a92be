"""Queries compiled once and executed with new values; row writes with fixed SQL.

The ORM takes longer to build a statement than the database to execute it, and frequent queries differ only in their
values. The first time, the ORM compiles the query with a placeholder for each value. From then on the compiled SQL is
executed with the values in the positions of their placeholders. Rows are written by statements that name every column.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID, uuid4

from django.db import models
from django.db.models import QuerySet
from django.db.transaction import TransactionManagementError

from common.fastsql import statements
from common.fastsql.row_readers import RowReader, make_row_reader

_FIELDS_BY_TYPE: "dict[type, models.Field[Any, Any]]" = {
    UUID: models.UUIDField(), str: models.TextField(), int: models.IntegerField(),
}  # fmt: skip
#: Rows of one model per INSERT statement; the rest is inserted row by row.
ROWS_PER_INSERT = 8
#: Create placeholder values that do not occur in any query and are valid for every column of the type.
_PLACEHOLDER_FACTORIES: dict[type, Callable[[], Any]] = {
    UUID: uuid4, str: lambda: uuid4().hex, int: lambda: 1_000_000_000 + secrets.randbelow(1_000_000_000),
}  # fmt: skip


class PreparedQuery:
    """`build` returns the query for one keyword argument per slot; `slots` maps their names to types.

    No value may be None: the ORM would build a different query.
    """

    def __init__(self, build: Callable[..., "QuerySet[Any, Any]"], **slots: type) -> None:
        self._build, self._slots = build, slots
        self._compiled: dict[str, _CompiledQuery] = {}

    def fetch_all(self, **values: Any) -> list[Any]:
        """All rows: model instances, or tuples or values if the query uses `values_list`."""
        vendor = statements.get_connection().vendor
        found = self._compiled.get(vendor)
        if found is None:
            # Two threads may do this at once, with the same result.
            found = self._compiled[vendor] = _compile_query(self._build, self._slots)
        return found.execute(values)

    def fetch_first(self, **values: Any) -> Any:
        """The first row, or None. The query itself sets order and limit."""
        return next(iter(self.fetch_all(**values)), None)


@dataclass(frozen=True)
class _CompiledQuery:
    sql: str
    #: Parameters in order; a `_ParameterSlot` is replaced by the value of the slot with its name.
    params: tuple[Any, ...]
    slots: dict[str, type]
    read_rows: RowReader
    locks_rows: bool

    def execute(self, values: dict[str, Any]) -> list[Any]:
        held = statements.get_connection()
        if self.locks_rows and not held.in_atomic_block:
            raise TransactionManagementError("select_for_update cannot be used outside of a transaction.")
        said = {name: _to_database_value(self.slots[name], value, held) for name, value in values.items()}
        params = [said[one.name] if isinstance(one, _ParameterSlot) else one for one in self.params]
        return self.read_rows(statements.fetch_rows(self.sql, params))


@dataclass(frozen=True)
class _ParameterSlot:
    name: str


def _compile_query(build: Callable[..., "QuerySet[Any, Any]"], slots: dict[str, type]) -> _CompiledQuery:
    held = statements.get_connection()
    stand_ins = {name: _PLACEHOLDER_FACTORIES[kind]() for name, kind in slots.items()}
    rows = build(**stand_ins)
    compiler = rows.query.get_compiler(connection=held)
    sql, params = compiler.as_sql()
    names = {_to_database_value(slots[name], value, held): name for name, value in stand_ins.items()}
    places = {
        at: names[one] for at, one in enumerate(params) if isinstance(one, tuple(_FIELDS_BY_TYPE)) and one in names
    }
    missing = slots.keys() - places.values()
    assert not missing, f"the query asks nothing of {missing}"
    marked = [_ParameterSlot(places[at]) if at in places else param for at, param in enumerate(params)]
    sql, left = statements.inline_constants(sql, marked, set(places))
    locks = rows.query.select_for_update and held.features.has_select_for_update
    return _CompiledQuery(sql, tuple(left), slots, make_row_reader(rows, compiler), locks)


def _to_database_value(kind: type, value: Any, held: Any) -> Any:
    assert value is not None
    return _FIELDS_BY_TYPE[kind].get_db_prep_value(value, held, prepared=False)


def insert_rows(*rows: models.Model) -> None:
    """Insert rows as `save(force_insert=True)` does, for models without signal receivers.

    Rows are grouped by model, in the order of each model's first row; the order within a model stays.
    """
    by_model: dict[type[models.Model], list[models.Model]] = {}
    for row in rows:
        by_model.setdefault(type(row), []).append(row)
    statements.execute_statements(
        *(_build_insert_statement(some) for each in by_model.values() for some in _split_into_batches(each))
    )
    for row in rows:
        row._state.adding, row._state.db = False, statements.get_connection().alias


def upsert_row(row: models.Model) -> None:
    """Insert a row, or update the existing row with its primary key."""
    sql, params = _build_insert_statement([row])
    statements.execute_statements((sql + _build_conflict_clause(type(row), statements.get_connection().vendor), params))


@dataclass(frozen=True)
class ConditionalUpdate:
    """An update of the row with this key, if its other columns have the values of `where`."""

    model: type[models.Model]
    key: Any
    values: Mapping[str, Any]
    where: Mapping[str, Any]
    #: The unique column that `key` belongs to.
    key_column: str = "pk"

    @property
    def build_statement(self) -> statements.Statement:
        held, model = statements.get_connection(), self.model
        asked = {name: value for name, value in self.where.items() if value is not None}
        params = [
            field.get_db_prep_save(value, held)
            for field, value in (
                *((_get_field(model, name), value) for name, value in self.values.items()),
                (_get_field(model, self.key_column), self.key),
                *((_get_field(model, name), value) for name, value in asked.items()),
            )
        ]
        nulls = tuple(name for name in self.where if name not in asked)
        return _build_update_sql(model, tuple(self.values), self.key_column, nulls, tuple(asked), held.vendor), params


def update_if(model: type[models.Model], pk: Any, values: Mapping[str, Any], *, where: Mapping[str, Any]) -> bool:
    """Update one row; False if the row no longer matches `where`."""
    return update_each_if([ConditionalUpdate(model, pk, values, where)]) == [True]


def update_each_if(changes: Sequence[ConditionalUpdate]) -> list[bool]:
    """Send several updates together; the result of each is independent of the others."""
    return [rows == 1 for rows in statements.execute_statements(*(one.build_statement for one in changes))]


def _split_into_batches(rows: list[models.Model]) -> Iterator[list[models.Model]]:
    """Batches of ROWS_PER_INSERT rows, then single rows: the database keeps a statement for each number of rows."""
    whole = len(rows) - len(rows) % ROWS_PER_INSERT
    yield from (rows[at : at + ROWS_PER_INSERT] for at in range(0, whole, ROWS_PER_INSERT))
    yield from ([row] for row in rows[whole:])


def _build_insert_statement(rows: list[models.Model]) -> statements.Statement:
    held, fields = statements.get_connection(), rows[0]._meta.concrete_fields
    params = [field.get_db_prep_save(field.pre_save(row, add=True), held) for row in rows for field in fields]
    return _build_insert_sql(type(rows[0]), len(rows), held.vendor), params


@cache
def _build_insert_sql(model: type[models.Model], many: int, _vendor: str) -> str:
    columns = ", ".join(_quote_column(field) for field in model._meta.concrete_fields)
    places = f"({', '.join(['%s'] * len(model._meta.concrete_fields))})"
    return f"INSERT INTO {_quote_name(model._meta.db_table)} ({columns}) VALUES {', '.join([places] * many)}"  # noqa: S608 - names of models


@cache
def _build_conflict_clause(model: type[models.Model], _vendor: str) -> str:
    pk, columns = _quote_column(model._meta.pk), [_quote_column(field) for field in model._meta.concrete_fields]
    sets = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns if column != pk)
    return f" ON CONFLICT ({pk}) DO UPDATE SET {sets}"


@cache
def _build_update_sql(
    model: type[models.Model], names: tuple[str, ...], by: str, nulls: tuple[str, ...], asked: tuple[str, ...],
    _vendor: str,
) -> str:  # fmt: skip
    columns = {name: _quote_column(_get_field(model, name)) for name in (*names, *nulls, *asked)}
    sets = ", ".join(f"{columns[name]} = %s" for name in names)
    key = f"{_quote_column(_get_field(model, by))} = %s"
    where = [key, *(f"{columns[name]} = %s" for name in asked), *(f"{columns[name]} IS NULL" for name in nulls)]
    return f"UPDATE {_quote_name(model._meta.db_table)} SET {sets} WHERE {' AND '.join(where)}"  # noqa: S608 - names of models


def _get_field(model: type[models.Model], name: str) -> Any:
    return model._meta.pk if name == "pk" else model._meta.get_field(name)


def _quote_column(field: Any) -> str:
    return _quote_name(field.column)


def _quote_name(name: str) -> str:
    return str(statements.get_connection().ops.quote_name(name))
