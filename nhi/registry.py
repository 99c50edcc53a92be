"""Where higher apps hang what only they know. Each fills these in its `AppConfig.ready()`."""

from collections.abc import Callable
from dataclasses import dataclass

from nhi.models import Identity


@dataclass(frozen=True)
class StopStep:
    """One thing that ends when an identity is stopped. `run` is idempotent and returns how many it ended."""

    name: str
    run: Callable[[Identity], int]
    #: What `run` would end now, for the dialog that states its consequences.
    count: Callable[[Identity], int]


#: Stop steps by the name they have in the reply to a suspend.
stop_steps: dict[str, StopStep] = {}


def add_stop_step(step: StopStep) -> None:
    stop_steps[step.name] = step
