"""Streamed downloads: the content is never in memory as a whole."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

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
