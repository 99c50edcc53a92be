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

from common.fastsql import prepared_statements
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
    """A query that the ORM compiles once. `build` gets one keyword argument per slot; `slots` maps names to types.

    No value may be None: the ORM would build a different query.
    """

    def __init__(self, build: Callable[..., "QuerySet[Any, Any]"], **slots: type) -> None:
        self._build, self._slots = build, slots
        self._compiled: dict[str, _CompiledQuery] = {}

    def fetch_all(self, **values: Any) -> list[Any]:
        """All rows: model instances, or tuples or values if the query uses `values_list`."""
        vendor = prepared_statements.get_connection().vendor
        compiled = self._compiled.get(vendor)
        if compiled is None:
            # Two threads may do this at once, with the same result.
            compiled = self._compiled[vendor] = _compile_query(self._build, self._slots)
        return compiled.execute(values)

    def fetch_first(self, **values: Any) -> Any:
        """The first row, or None. The query itself sets order and limit."""
        return next(iter(self.fetch_all(**values)), None)


@dataclass(frozen=True)
class _CompiledQuery:
    """The SQL and parameters of a query for one database vendor, and the reader of its rows."""

    sql: str
    #: Parameters in order; a `_ParameterSlot` is replaced by the value of the slot with its name.
    params: tuple[Any, ...]
    slots: dict[str, type]
    read_rows: RowReader
    locks_rows: bool

    def execute(self, values: dict[str, Any]) -> list[Any]:
        connection = prepared_statements.get_connection()
        if self.locks_rows and not connection.in_atomic_block:
            raise TransactionManagementError("select_for_update cannot be used outside of a transaction.")
        database_values = {
            name: _to_database_value(self.slots[name], value, connection) for name, value in values.items()
        }
        params = [database_values[param.name] if isinstance(param, _ParameterSlot) else param for param in self.params]
        return self.read_rows(prepared_statements.fetch_rows(self.sql, params))


@dataclass(frozen=True)
class _ParameterSlot:
    """The place of a parameter whose value is set at each execution."""

    name: str


def _compile_query(build: Callable[..., "QuerySet[Any, Any]"], slots: dict[str, type]) -> _CompiledQuery:
    connection = prepared_statements.get_connection()
    placeholder_values = {name: _PLACEHOLDER_FACTORIES[kind]() for name, kind in slots.items()}
    queryset = build(**placeholder_values)
    compiler = queryset.query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    names_by_value = {
        _to_database_value(slots[name], value, connection): name for name, value in placeholder_values.items()
    }
    names_by_position = {
        at: names_by_value[parameter]
        for at, parameter in enumerate(params)
        if isinstance(parameter, tuple(_FIELDS_BY_TYPE)) and parameter in names_by_value
    }
    missing = slots.keys() - names_by_position.values()
    assert not missing, f"the query asks nothing of {missing}"
    marked_params = [
        _ParameterSlot(names_by_position[at]) if at in names_by_position else param for at, param in enumerate(params)
    ]
    sql, remaining_params = prepared_statements.inline_constants(sql, marked_params, set(names_by_position))
    locks_rows = queryset.query.select_for_update and connection.features.has_select_for_update
    return _CompiledQuery(sql, tuple(remaining_params), slots, make_row_reader(queryset, compiler), locks_rows)


def _to_database_value(kind: type, value: Any, connection: Any) -> Any:
    assert value is not None
    return _FIELDS_BY_TYPE[kind].get_db_prep_value(value, connection, prepared=False)


def insert_rows(*rows: models.Model) -> None:
    """Insert rows as `save(force_insert=True)` does, for models without signal receivers.

    Rows are grouped by model, in the order of each model's first row; the order within a model stays.
    """
    by_model: dict[type[models.Model], list[models.Model]] = {}
    for row in rows:
        by_model.setdefault(type(row), []).append(row)
    prepared_statements.execute_statements(
        *(
            _build_insert_statement(batch)
            for model_rows in by_model.values()
            for batch in _split_into_batches(model_rows)
        )
    )
    for row in rows:
        row._state.adding, row._state.db = False, prepared_statements.get_connection().alias


def upsert_row(row: models.Model) -> None:
    """Insert a row, or update the existing row with its primary key."""
    sql, params = _build_insert_statement([row])
    prepared_statements.execute_statements(
        (sql + _build_conflict_clause(type(row), prepared_statements.get_connection().vendor), params)
    )


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
    def build_statement(self) -> prepared_statements.Statement:
        connection, model = prepared_statements.get_connection(), self.model
        conditions = {name: value for name, value in self.where.items() if value is not None}
        params = [
            field.get_db_prep_save(value, connection)
            for field, value in (
                *((_get_field(model, name), value) for name, value in self.values.items()),
                (_get_field(model, self.key_column), self.key),
                *((_get_field(model, name), value) for name, value in conditions.items()),
            )
        ]
        null_names = tuple(name for name in self.where if name not in conditions)
        return _build_update_sql(
            model, tuple(self.values), self.key_column, null_names, tuple(conditions), connection.vendor
        ), params


def update_if(model: type[models.Model], pk: Any, values: Mapping[str, Any], *, where: Mapping[str, Any]) -> bool:
    """Update one row; False if the row no longer matches `where`."""
    return update_each_if([ConditionalUpdate(model, pk, values, where)]) == [True]


def update_each_if(changes: Sequence[ConditionalUpdate]) -> list[bool]:
    """Send several updates together; the result of each is independent of the others."""
    return [
        row_count == 1
        for row_count in prepared_statements.execute_statements(*(change.build_statement for change in changes))
    ]


def _split_into_batches(rows: list[models.Model]) -> Iterator[list[models.Model]]:
    """Batches of ROWS_PER_INSERT rows, then single rows: the database keeps a statement for each number of rows."""
    batched_count = len(rows) - len(rows) % ROWS_PER_INSERT
    yield from (rows[at : at + ROWS_PER_INSERT] for at in range(0, batched_count, ROWS_PER_INSERT))
    yield from ([row] for row in rows[batched_count:])


def _build_insert_statement(rows: list[models.Model]) -> prepared_statements.Statement:
    connection, fields = prepared_statements.get_connection(), rows[0]._meta.concrete_fields
    params = [field.get_db_prep_save(field.pre_save(row, add=True), connection) for row in rows for field in fields]
    return _build_insert_sql(type(rows[0]), len(rows), connection.vendor), params


@cache
def _build_insert_sql(model: type[models.Model], row_count: int, _vendor: str) -> str:
    columns = ", ".join(_quote_column(field) for field in model._meta.concrete_fields)
    placeholders = f"({', '.join(['%s'] * len(model._meta.concrete_fields))})"
    return f"INSERT INTO {_quote_name(model._meta.db_table)} ({columns}) VALUES {', '.join([placeholders] * row_count)}"  # noqa: S608 - names of models


@cache
def _build_conflict_clause(model: type[models.Model], _vendor: str) -> str:
    pk, columns = _quote_column(model._meta.pk), [_quote_column(field) for field in model._meta.concrete_fields]
    sets = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns if column != pk)
    return f" ON CONFLICT ({pk}) DO UPDATE SET {sets}"


@cache
def _build_update_sql(
    model: type[models.Model],
    names: tuple[str, ...],
    key_column: str,
    null_names: tuple[str, ...],
    condition_names: tuple[str, ...],
    _vendor: str,
) -> str:
    columns = {name: _quote_column(_get_field(model, name)) for name in (*names, *null_names, *condition_names)}
    sets = ", ".join(f"{columns[name]} = %s" for name in names)
    key = f"{_quote_column(_get_field(model, key_column))} = %s"
    where = [
        key,
        *(f"{columns[name]} = %s" for name in condition_names),
        *(f"{columns[name]} IS NULL" for name in null_names),
    ]
    return f"UPDATE {_quote_name(model._meta.db_table)} SET {sets} WHERE {' AND '.join(where)}"  # noqa: S608 - names of models


def _get_field(model: type[models.Model], name: str) -> Any:
    return model._meta.pk if name == "pk" else model._meta.get_field(name)


def _quote_column(field: Any) -> str:
    return _quote_name(field.column)


def _quote_name(name: str) -> str:
    return str(prepared_statements.get_connection().ops.quote_name(name))
