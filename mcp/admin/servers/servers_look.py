"""What would run, as a person has to see it before it does."""

import hashlib
import shlex
from collections.abc import Sequence
from typing import Any


def command_line(command: str, arguments: Sequence[str]) -> str:
    """As a shell would be told it, whole: what is long is exactly what must not be cut."""
    return shlex.join([command, *arguments]) if command else ""


def digest(given: dict[str, Any]) -> str:
    """Stands for the command, its arguments and its environment in the form that comes back."""
    return hashlib.sha256(repr((given["command"], given["args"], given["env"])).encode()).hexdigest()
