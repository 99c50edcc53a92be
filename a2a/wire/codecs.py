"""How one version says, in one encoding, what goes in and out of an operation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Params = Mapping[str, Any]
Body = Mapping[str, Any]
Writer = Callable[[Body], Any]


@dataclass(frozen=True)
class Codec:
    """From a request's parameters to 1.0's, and from 1.0's result, or each item of its stream, back."""

    read: Callable[[Params], dict[str, Any]]
    write: Writer = dict
    #: None where the operation answers once.
    write_item: Writer | None = None


Codecs = Mapping[str, Codec]
