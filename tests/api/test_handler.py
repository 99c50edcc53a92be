"""Django in threads that stay: one request leaves nothing to the next, and a download holds no thread."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.test import override_settings
from django.urls import path
from django.utils import timezone

from common.asgi.django_handler import ThreadedHandler
from common.console import downloads
from tests.services.asgi import Answer, Door

pytestmark = [pytest.mark.capability("OPS-01"), pytest.mark.both_databases]
ROWS = 3000


def who(request: HttpRequest) -> HttpResponse:
    """Which thread, with a connection or none, and in which zone; and it leaves another zone behind."""
    fresh = connection.connection is None
    said = f"{threading.get_ident()} {fresh} {timezone.get_current_timezone_name()}"
    timezone.activate("Asia/Kathmandu")
    connection.ensure_connection()
    return HttpResponse(said)


def fails(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("broken")


def rows(request: HttpRequest) -> HttpResponseBase:
    def lines() -> Iterator[str]:
        with connection.cursor() as cursor:
            for number in range(ROWS):
                cursor.execute("SELECT %s", [number])
                yield f"{cursor.fetchone()[0]} {'x' * 60}\n"

    return downloads.download(request, lines(), name="rows.txt", content_type="text/plain")


urlpatterns = [path("who", who), path("fails", fails), path("rows", rows)]


@pytest.fixture
def door(transactional_db: None) -> Iterator[Door]:
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[]):
        yield Door(ThreadedHandler())


async def said(answer: Answer) -> list[str]:
    return (await answer.text()).split()


def test_threads_answer_one_after_another_and_keep_nothing(door: Door) -> None:
    async def whole() -> None:
        answers = [await said(await door.ask("GET", "/who")) for _ in range(20)]
        threads = {answer[0] for answer in answers}
        assert len(threads) < len(answers)
        assert str(threading.get_ident()) not in threads
        assert {tuple(answer[1:]) for answer in answers} == {("True", timezone.get_default_timezone_name())}

    asyncio.run(whole())


def test_many_at_once_have_a_thread_each(door: Door) -> None:
    gate = threading.Barrier(5)

    def waits(request: HttpRequest) -> HttpResponse:
        gate.wait(10)
        return HttpResponse(str(threading.get_ident()))

    async def whole() -> None:
        urlpatterns.append(path("waits", waits))
        try:
            answers = await asyncio.gather(*[door.ask("GET", "/waits") for _ in range(gate.parties)])
            assert len({tuple(await said(answer)) for answer in answers}) == gate.parties
        finally:
            urlpatterns.pop()

    asyncio.run(whole())


def test_a_view_that_fails_is_answered_and_the_next_one_too(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    async def whole() -> None:
        with override_settings(DEBUG_PROPAGATE_EXCEPTIONS=False):
            assert (await door.ask("GET", "/fails")).status == 500
        assert (await door.ask("GET", "/who")).status == 200

    asyncio.run(whole())
    assert "broken" in caplog.text


def test_a_download_comes_in_pieces_over_a_connection_of_its_own(door: Door) -> None:
    async def whole() -> None:
        answer = await door.ask("GET", "/rows")
        pieces = [piece async for piece in answer.pieces()]
        assert len([piece for piece in pieces if piece]) > 1
        lines = "".join(pieces).splitlines()
        assert (len(lines), lines[-1].split()[0]) == (ROWS, str(ROWS - 1))

    asyncio.run(whole())


def test_a_client_who_leaves_a_download_ends_it(door: Door) -> None:
    async def whole() -> Any:
        answer = await door.ask("GET", "/rows")
        assert answer.task is not None
        answer.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer.task
        return (await door.ask("GET", "/who")).status

    assert asyncio.run(whole()) == 200
