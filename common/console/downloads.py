"""CSV exports and streamed downloads."""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from common.console.lists import Column

MOST_ROWS = 50_000
#: A spreadsheet reads a cell that starts with one of these as a formula.
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")


def safe(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(DANGEROUS) else text


def as_csv(name: str, columns: Sequence[Column], rows: Iterable[Any]) -> HttpResponse:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow([safe(column.label) for column in columns])
    writer.writerows([safe(column.text(row)) for column in columns] for row in rows)
    return HttpResponse(
        lines.getvalue(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


#: Characters per block. Single lines would be slow: each block switches threads twice.
BLOCK = 64 * 1024


def download(request: HttpRequest, chunks: Iterator[str], *, name: str, content_type: str) -> StreamingHttpResponse:
    # Under ASGI, Django reads a synchronous iterator to its end before it sends the first byte.
    blocks = _blocks(chunks)
    body = _awaited(blocks) if isinstance(request, ASGIRequest) else blocks
    return StreamingHttpResponse(
        body, content_type=content_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def _blocks(chunks: Iterator[str]) -> Iterator[str]:
    parts: list[str] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= BLOCK:
            yield "".join(parts)
            parts, size = [], 0
    if parts:
        yield "".join(parts)


async def _awaited(chunks: Iterator[str]) -> AsyncIterator[str]:
    read_next = sync_to_async(lambda: next(chunks, None))
    while (chunk := await read_next()) is not None:
        yield chunk
