"""A download that is written while it is read: nothing of it is held in memory as a whole."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse


def download(request: HttpRequest, chunks: Iterator[str], *, name: str, content_type: str) -> StreamingHttpResponse:
    # Under ASGI Django would read a plain iterator to its end before it sends the first byte.
    body = _awaited(chunks) if isinstance(request, ASGIRequest) else chunks
    return StreamingHttpResponse(
        body, content_type=content_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


async def _awaited(chunks: Iterator[str]) -> AsyncIterator[str]:
    following = sync_to_async(lambda: next(chunks, None))
    while (chunk := await following()) is not None:
        yield chunk
