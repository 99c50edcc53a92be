"""What was sent and what came of it, as people may read it: text and data in full, of files what they are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.template.defaultfilters import filesizeformat


@dataclass(frozen=True)
class Piece:
    """One part of a message or an artifact; `body` is text from elsewhere, or data."""

    label: str
    body: Any


def pieces(parts: Iterable[Mapping[str, Any]]) -> list[Piece]:
    return [_piece(part) for part in parts]


def _piece(part: Mapping[str, Any]) -> Piece:
    if "text" in part:
        return Piece("Text", part["text"])
    if "data" in part:
        return Piece("Data", part["data"])
    named = " ".join(str(part[name]) for name in ("filename", "mediaType") if part.get(name))
    if "url" in part:
        return Piece("File elsewhere", f"{named} {part['url']}".strip())
    # Three bytes stand in four letters.
    size = filesizeformat(len(str(part.get("raw", ""))) * 3 // 4).replace("\N{NO-BREAK SPACE}", " ")
    return Piece("File", f"{named}, {size}".removeprefix(", "))
