"""How a run that came to its limits is told of, for who must decide which of the two to change."""

import math
import signal

from django.conf import settings

from supervisor.nursery import MEGABYTE, Ending, Limits


def too_much(ending: Ending, limits: Limits) -> str:
    """Rounded up: what was used is never the limit itself."""
    match ending.exceeded:
        case "memory":
            used, most = f"{math.ceil(ending.used / MEGABYTE)} MB of memory", f"{(limits.memory or 0) // MEGABYTE} MB"
        case "cpu":
            used, most = f"{math.ceil(ending.used * 10) / 10:g} s of CPU time", f"{limits.cpu} s"
        case _:
            return f"It had more than {limits.processes} processes and was ended."
    return f"It used {used}, more than its limit of {most}, and was ended."


def ended_by(number: int) -> str:
    said = f"It was ended by signal {number}"
    if number == signal.SIGXFSZ:
        return f"{said}: a file that it wrote grew past {settings.RUN_MAX_FILE_MB} MB."
    return f"{said}."
