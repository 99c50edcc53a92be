"""Converts rows of a compiled query to model instances or tuples."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet
from django.db.models.query import FlatValuesListIterable, ModelIterable, ValuesListIterable, get_related_populators
from django.db.models.sql.compiler import SQLCompiler

from common.fastsql import prepared_statements

RowReader = Callable[[Iterable[Any]], list[Any]]


def make_row_reader(rows: "QuerySet[Any, Any]", compiler: SQLCompiler) -> RowReader:
    """Return a function that converts the rows of this query. Work that is the same for every result is done once."""
    convert = _make_value_converter(compiler)
    iterable_class = rows._iterable_class
    if iterable_class is ModelIterable:
        build_instance = _make_instance_builder(compiler)
        return lambda raw_rows: [build_instance(row) for row in convert(raw_rows)]
    if iterable_class is FlatValuesListIterable:
        return lambda raw_rows: [row[0] for row in convert(raw_rows)]
    assert iterable_class is ValuesListIterable, f"{iterable_class} is not read here"
    return lambda raw_rows: [tuple(row) for row in convert(raw_rows)]


def _make_value_converter(compiler: SQLCompiler) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """Return a function that applies the converters of fields and database to the raw values of each row."""
    columns = [column[0] for column in compiler.select[: compiler.col_count]]
    converters = [
        (at, converter, column)
        for at, (column_converters, column) in compiler.get_converters(columns).items()
        for converter in column_converters
    ]
    if not converters:
        return lambda raw_rows: raw_rows

    def converted(raw_rows: Iterable[Any]) -> Iterable[Any]:
        connection = prepared_statements.get_connection()
        for row in raw_rows:
            values = list(row)
            for at, converter, column in converters:
                values[at] = converter(values[at], column, connection)
            yield values

    return converted


def _make_instance_builder(compiler: SQLCompiler) -> Callable[[Any], Any]:
    """Return a function that builds an instance with its `select_related` objects and its annotations."""
    info: Any = compiler.klass_info
    model, first, after = info["model"], info["select_fields"][0], info["select_fields"][-1] + 1
    names = [column[0].target.attname for column in compiler.select[first:after]]
    related = get_related_populators(info, compiler.select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]  # the stubs are for Django 6.0
    annotated = list((compiler.annotation_col_map or {}).items())

    def build(row: Any) -> Any:
        instance = model.from_db(DEFAULT_DB_ALIAS, names, row[first:after])
        for populator in related:
            populator.populate(row, instance)
        # No annotation has the name of a column, so no field of the model is overwritten.
        vars(instance).update((name, row[at]) for name, at in annotated)
        return instance

    return build
