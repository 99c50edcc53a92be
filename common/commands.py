"""Base class of management commands: `--json`, exit codes, and errors as sentences."""

import json
import sys
from abc import abstractmethod
from argparse import ArgumentParser
from datetime import datetime
from typing import Any, NoReturn

from django.conf import settings
from django.core.management import BaseCommand
from django.db import DatabaseError, connection

from common.errors import GatehouseError


class MissingInstallationError(GatehouseError):
    """The database has no tables. Most often the data directory differs from that of the running installation."""

    code = "no_house"

    def __init__(self) -> None:
        super().__init__(
            f"There is no house in {settings.DATA} yet. Is GATEHOUSE_DATA (or DATABASE_URL) that of the running house? "
            "If none is running, start it with `make up`."
        )


class GatehouseCommand(BaseCommand):
    """Base class of management commands. Exit codes: 0 success, 1 refusal or finding, 2 wrong usage.

    `--json` prints JSON only.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print one JSON object and nothing else.")
        self.add_own_arguments(parser)

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""

    def handle(self, *_args: Any, **options: Any) -> None:
        as_json = options.pop("json")
        try:
            result = self.run(**options)
        except GatehouseError as error:
            self._refuse(error, as_json=as_json)
        except DatabaseError:
            if connection.introspection.table_names():
                raise
            self._refuse(MissingInstallationError(), as_json=as_json)
        if as_json:
            self.stdout.write(json.dumps(result, default=_encode_scalar))
        else:
            for name, value in result.items():
                self.stdout.write(
                    f"{name}: {json.dumps(value, default=_encode_scalar) if isinstance(value, list | dict) else value}"
                )

    @abstractmethod
    def run(self, **options: Any) -> dict[str, Any]:
        """Execute the command and return the result to print."""

    def _refuse(self, error: GatehouseError, *, as_json: bool) -> NoReturn:
        fields = [{"field": problem.field, "message": problem.message} for problem in error.fields]
        if as_json:
            self.stdout.write(json.dumps({"error": error.code, "message": error.message, "fields": fields}))
        self.stderr.write(error.message)
        sys.exit(1)


def _encode_scalar(value: Any) -> str:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
