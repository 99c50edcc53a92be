"""Converts rows of a compiled query to model instances or tuples."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet
from django.db.models.query import FlatValuesListIterable, ModelIterable, ValuesListIterable, get_related_populators
from django.db.models.sql.compiler import SQLCompiler

from common.fastsql import statements

RowReader = Callable[[Iterable[Any]], list[Any]]


def make_row_reader(rows: "QuerySet[Any, Any]", compiler: SQLCompiler) -> RowReader:
    """Return a function that converts the rows of this query. Work that is the same for every result is done once."""
    converted = _make_value_converter(compiler)
    kind = rows._iterable_class
    if kind is ModelIterable:
        made = _make_instance_builder(compiler)
        return lambda found: [made(row) for row in converted(found)]
    if kind is FlatValuesListIterable:
        return lambda found: [row[0] for row in converted(found)]
    assert kind is ValuesListIterable, f"{kind} is not read here"
    return lambda found: [tuple(row) for row in converted(found)]


def _make_value_converter(compiler: SQLCompiler) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """Return a function that applies the converters of fields and database to the raw values of each row."""
    columns = [column[0] for column in compiler.select[: compiler.col_count]]
    turns = [(at, turn, column) for at, (each, column) in compiler.get_converters(columns).items() for turn in each]
    if not turns:
        return lambda found: found

    def converted(found: Iterable[Any]) -> Iterable[Any]:
        held = statements.get_connection()
        for row in found:
            values = list(row)
            for at, turn, column in turns:
                values[at] = turn(values[at], column, held)
            yield values

    return converted


def _make_instance_builder(compiler: SQLCompiler) -> Callable[[Any], Any]:
    """Return a function that builds an instance with its `select_related` objects and its annotations."""
    info: Any = compiler.klass_info
    model, first, after = info["model"], info["select_fields"][0], info["select_fields"][-1] + 1
    names = [column[0].target.attname for column in compiler.select[first:after]]
    related = get_related_populators(info, compiler.select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]  # the stubs are for Django 6.0
    annotated = list((compiler.annotation_col_map or {}).items())

    def made(row: Any) -> Any:
        instance = model.from_db(DEFAULT_DB_ALIAS, names, row[first:after])
        for one in related:
            one.populate(row, instance)
        # No annotation has the name of a column, so no field of the model is overwritten.
        vars(instance).update((name, row[at]) for name, at in annotated)
        return instance

    return made
