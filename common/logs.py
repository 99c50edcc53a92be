"""Logging configuration: one redacted JSON object per line, with the request's id."""

import logging
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from common.context import _current
from common.redaction import redact, redact_text

MAX_EVENT_LENGTH = 4000


def add_context(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    context = _current.get()
    if context is not None:
        event.setdefault("request_id", str(context.request_id))
        if context.source:
            event.setdefault("source", context.source)
    return event


def redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.pop("color_message", None)  # uvicorn's second copy of the message, for terminals
    clean: EventDict = redact(dict(event))
    clean["event"] = redact_text(str(event.get("event", "")))[:MAX_EVENT_LENGTH]
    return clean


class PrerenderedLineFormatter(structlog.stdlib.ProcessorFormatter):
    """Writes a record's `line` unchanged if its caller has rendered and redacted it already, as the hot path does."""

    def format(self, record: logging.LogRecord) -> str:
        line = record.__dict__.get("line")
        return line if isinstance(line, str) else super().format(record)


SHARED_PROCESSORS: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    add_context,
    redact_event,
]


def build_logging_configuration(level: str, *, log_sql: bool) -> dict[str, Any]:
    """`LOGGING` for Django. Celery uses it too: Celery's own logging setup is disabled."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED_PROCESSORS,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": PrerenderedLineFormatter,
                "foreign_pre_chain": SHARED_PROCESSORS,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.JSONRenderer(),
                ],
            }
        },
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "django": {"level": level},
            "django.db.backends": {"level": "DEBUG" if log_sql else "INFO"},
            "django.request": {"level": "ERROR"},
            "django.server": {"level": "WARNING"},
            "uvicorn.access": {"level": "WARNING"},
            # A line for each scheduled message sent and received would hide the rest; the end of a task is logged.
            "celery.beat": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
        },
    }
