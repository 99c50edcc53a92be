"""The secret of a credential is seen once, by who asked for it: not in the database, not in logs, not in errors."""

import logging
from collections.abc import Iterator

import pytest
from django.db import connection

from common import crypto
from common.errors import GatehouseError
from common.logs import redact_event
from common.redaction import redact_text
from nhi.actors import SYSTEM
from nhi.authorization import authentication
from nhi.credentials import credentials, tokens
from nhi.models import Credential
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-04"), pytest.mark.django_db, pytest.mark.both_databases]


class Lines(logging.Handler):
    """What the product's own formatter would print."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.getLogger().handlers[0].formatter if logging.getLogger().handlers else None)

    def emit(self, record: logging.LogRecord) -> None:
        shown = redact_event(None, "", {"event": record.getMessage(), **record.__dict__})
        self.lines.append(f"{self.format(record)} {shown}")


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, root = Lines(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler.lines
    root.removeHandler(handler)
    root.setLevel(before)


def dump() -> str:
    """Every row of every table, as the database shows it."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')
            found += [
                repr(tuple(bytes(cell) if isinstance(cell, memoryview) else cell for cell in row)) for row in cursor
            ]
    return "\n".join(found)


def parts(token: str) -> tuple[str, ...]:
    """The whole, and what must not leak of it alone."""
    secret = token.rpartition("_")[2]
    return token, secret, secret[:-6], secret[:20]


def test_only_a_fingerprint_under_the_pepper_is_kept(settings: object) -> None:
    issued = credentials.issue(actor=SYSTEM, holder=cast.agent())
    rotated = credentials.rotate(actor=SYSTEM, credential=issued.credential)
    authentication.authenticate(issued.token)
    kept = dump()
    for token in (issued.token, rotated.token):
        assert not [part for part in parts(token) if part in kept]
    assert bytes(Credential.objects.get(pk=issued.credential.pk).digest) == crypto.fingerprint(issued.token)


def test_logs_and_errors_say_nothing_of_it(lines: list[str]) -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    second = credentials.rotate(actor=SYSTEM, credential=issued.credential)
    said = []
    for attempt in (
        lambda: credentials.issue(actor=SYSTEM, holder=bot),
        lambda: credentials.revoke(actor=SYSTEM, credential=issued.credential, reason=f"Found {issued.token} in a log"),
        lambda: credentials.revoke(actor=SYSTEM, credential=issued.credential, reason="Found in a log"),
        lambda: authentication.authenticate(issued.token),
        lambda: authentication.authenticate(issued.token[:-1]),
        lambda: credentials.revoke(actor=SYSTEM, credential=issued.credential, reason="Again"),
    ):
        try:
            attempt()
        except GatehouseError as error:
            said.append(f"{error} {error.message} {error.details} {error.fields} {error!r}")
    logging.getLogger("anywhere").warning("someone logs the header: %s", f"Bearer {issued.token}")
    logging.getLogger("anywhere").warning("or a tool prints it: %s", f"TOKEN_{second.token}!")
    for part in (*parts(issued.token), *parts(second.token)):
        assert not [line for line in said if part in line]
        assert not [line for line in lines if part in line.partition("{'event'")[2]]
    assert issued.token not in dump()


def test_what_holds_it_does_not_show_it() -> None:
    issued = credentials.issue(actor=SYSTEM, holder=cast.agent())
    parsed, made = tokens.parse(issued.token), tokens.make_credential_token("agt")
    for held in (issued, issued.credential, parsed, made):
        shown = f"{held!r} {held}"
        assert not [part for part in (*parts(issued.token), *parts(made.token)) if part in shown]


def test_a_token_is_redacted_wherever_it_stands() -> None:
    token = tokens.make_credential_token("svc").token
    for text in (token, f"x{token}", f"_{token}_", f"a={token}&b", f'"{token}"', f"{token}{token}", f"Bearer {token}"):
        clean = redact_text(text)
        assert not [part for part in parts(token) if part in clean], text
