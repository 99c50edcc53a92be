"""What an installation shows of itself: tables, permissions, tasks, addresses, commands, settings, metrics, codes."""

import inspect
from collections.abc import Iterator
from itertools import chain
from typing import Any

import yaml
from django.apps import apps
from django.conf import settings
from django.core.management import get_commands, load_command_class
from django.db.models import Model
from django.urls import URLPattern, URLResolver, get_resolver

from common.errors import GatehouseError
from config import metrics
from config.celery import app as celery
from nhi.audit.event_catalogue import EVENTS
from nhi.decisions.reasons import REASONS
from tests.frozen.source import APPS, ROOT


def models() -> Iterator[type[Model]]:
    return (model for model in apps.get_models(include_auto_created=True) if model._meta.app_label in APPS)


def columns() -> set[str]:
    fields = ((model._meta.db_table, field) for model in models() for field in model._meta.local_concrete_fields)
    return {f"{table}.{field.column} {field.get_internal_type()}" for table, field in fields}


def constraints() -> set[str]:
    return {f"{model._meta.db_table} {rule.name}" for model in models()
            for rule in chain(model._meta.constraints, model._meta.indexes)}  # fmt: skip


def model_names() -> set[str]:
    return {model._meta.label for model in models()}


def permissions() -> set[str]:
    return {f"{model._meta.app_label}.{codename}" for model in models()
            for codename in chain((f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions),
                                  (codename for codename, _ in model._meta.permissions))}  # fmt: skip


def choices() -> set[str]:
    fields = ((model._meta.label, field) for model in models() for field in model._meta.local_concrete_fields)
    return {f"{label}.{field.name} {value}" for label, field in fields for value, _ in field.flatchoices}


def celery_tasks() -> set[str]:
    """Each with its queue and its arguments: messages outlive an upgrade."""
    celery.loader.import_default_modules()
    return {f"{name} {_queue(name)} {inspect.signature(task.run)}" for name, task in celery.tasks.items()
            if name.partition(".")[0] in APPS}  # fmt: skip


def _queue(name: str) -> str:
    return str(celery.amqp.router.route({}, name)["queue"].name)


def celery_beat() -> set[str]:
    return {f"{key} {entry['task']} {entry['args']} {entry['options']['queue']}"
            for key, entry in celery.conf.beat_schedule.items()}  # fmt: skip


def urls() -> set[str]:
    return set(_urls(get_resolver(), "", ""))


def _urls(resolver: URLResolver, path: str, namespace: str) -> Iterator[str]:
    for pattern in resolver.url_patterns:
        whole = path + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield f"/{whole} {namespace}{pattern.name or ''}"
        else:
            yield from _urls(pattern, whole, f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace)


def operations() -> set[str]:
    paths = yaml.safe_load((ROOT / "schema.yml").read_text())["paths"]
    methods = ((path, method, body) for path, item in paths.items() for method, body in item.items())
    return {f"{method.upper()} {path} {body['operationId']}" for path, method, body in methods if "operationId" in body}


def commands() -> set[str]:
    ours = ((name, load_command_class(app, name)) for name, app in get_commands().items() if app in APPS)
    return {f"{name} {option}".rstrip() for name, command in ours for option in ("", *_options(command, name))}


def _options(command: Any, name: str) -> Iterator[str]:
    parser = command.create_parser("manage.py", name)
    return (text for action in parser._actions for text in action.option_strings or [action.dest])


def setting_names() -> set[str]:
    return {name for name in dir(settings) if name.isupper() and settings.is_overridden(name)}


def metric_names() -> set[str]:
    return {f"{family.name} {family.type}" for family in metrics.registry().collect()}


def error_codes() -> set[str]:
    def below(kind: type[GatehouseError]) -> Iterator[type[GatehouseError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    ours = (kind for kind in below(GatehouseError) if kind.__module__.partition(".")[0] in APPS)
    return {kind.code for kind in ours if hasattr(kind, "code")}


def events() -> set[str]:
    return set(EVENTS)


def reasons() -> set[str]:
    return set(REASONS)
