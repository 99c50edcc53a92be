"""Queries that are put together once answer as those that the ORM makes each time."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.db.transaction import TransactionManagementError

from common.fastsql import compiled_queries
from common.fastsql.compiled_queries import ConditionalUpdate, PreparedQuery, update_each_if
from common.ids import uuid7
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.credentials import credentials
from nhi.models import AuditEvent, Credential, Identity
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-07"), pytest.mark.both_databases]
NAMED = PreparedQuery(lambda name, kind: Identity.objects.filter(name=name, kind=kind), name=str, kind=str)


def test_it_finds_what_the_orm_finds_for_each_value(db: None) -> None:
    one, other = cast.agent("one"), cast.agent("other")
    assert NAMED.fetch_all(name="one", kind="agent") == [one]
    assert NAMED.fetch_all(name="other", kind="agent") == [other]
    assert NAMED.fetch_all(name="one", kind="tool") == []
    assert NAMED.fetch_first(name="nobody", kind="agent") is None


def test_an_instance_is_whole(db: None) -> None:
    known = cast.agent("one", description="Says what it is", tags=["a", "b"])
    found = NAMED.fetch_first(name="one", kind="agent")
    wanted = Identity.objects.get(pk=known.pk)
    assert {f.attname: getattr(found, f.attname) for f in Identity._meta.concrete_fields} == {
        f.attname: getattr(wanted, f.attname) for f in Identity._meta.concrete_fields
    }
    found.description = "Something else"
    found.save(update_fields=["description"])
    assert Identity.objects.get(pk=known.pk).description == "Something else"


def test_what_hangs_on_it_comes_along_and_so_does_what_is_reckoned(db: None, django_assert_num_queries: Any) -> None:
    agent = cast.agent("one")
    credentials.issue(actor=SYSTEM, holder=agent)
    rows = PreparedQuery(
        lambda identity: Credential.objects.filter(identity=identity)
        .select_related("identity").annotate(now=Now(), holder=F("identity__name")),
        identity=UUID,
    )  # fmt: skip
    with django_assert_num_queries(1):
        found = rows.fetch_first(identity=agent.pk)
        assert (found.identity, found.holder) == (agent, "one")
    assert found.now is not None


def test_values_and_slices_and_numbers(db: None) -> None:
    cast.agent("one")
    last = AuditEvent.objects.order_by("-writer_seq").first()
    assert last is not None
    rows = PreparedQuery(
        lambda least: AuditEvent.objects.filter(writer_seq__gte=least).order_by("writer_seq")
        .values_list("event", flat=True)[:1],
        least=int,
    )  # fmt: skip
    assert rows.fetch_all(least=last.writer_seq) == [last.event]
    assert rows.fetch_all(least=last.writer_seq + 1) == []


@pytest.mark.parametrize("name", ["' OR 1=1 --", "%s", "100%", "a\\b", "ä€𝄞"])
def test_a_value_is_a_value(db: None, name: str) -> None:
    cast.agent("one")
    assert NAMED.fetch_all(name=name, kind=Kind.AGENT) == []


def test_a_lock_wants_a_transaction(transactional_db: None) -> None:
    agent = cast.agent("one")
    held = PreparedQuery(lambda pk: Identity.objects.select_for_update().filter(pk=pk), pk=UUID)
    with transaction.atomic():
        assert held.fetch_first(pk=agent.pk) == agent
    if connection.features.has_select_for_update:
        with pytest.raises(TransactionManagementError):
            held.fetch_first(pk=agent.pk)


def test_a_value_that_nothing_is_asked_of_is_a_mistake(db: None) -> None:
    with pytest.raises(AssertionError, match="unused"):
        PreparedQuery(lambda pk, unused: Identity.objects.filter(pk=pk), pk=UUID, unused=str).fetch_all(
            pk=uuid7(), unused="x"
        )


def test_no_value_is_none(db: None) -> None:
    with pytest.raises(AssertionError):
        NAMED.fetch_all(name=None, kind="agent")


def test_threads_ask_at_once_each_over_its_own_connection(transactional_db: None) -> None:
    agents = [cast.agent(f"agent-{n}") for n in range(4)]
    rows = PreparedQuery(lambda name: Identity.objects.filter(name=name), name=str)

    def ask(agent: Identity) -> bool:
        found = [rows.fetch_first(name=agent.name) for _ in range(50)]
        connection.close()
        return found == [agent] * 50

    with ThreadPoolExecutor(len(agents)) as pool:
        assert all(pool.map(ask, agents))


def test_a_row_is_written_as_the_orm_writes_it(db: None) -> None:
    known = cast.agent("one", tags=["a", "b"], description="ä€𝄞 100%")
    copy = Identity.objects.get(pk=known.pk)
    copy.pk, copy.name = uuid7(), "two"
    compiled_queries.insert_rows(copy)
    assert not copy._state.adding
    wanted, found = (Identity.objects.filter(pk=one.pk).values().get() for one in (known, copy))
    assert {**wanted, "id": copy.pk, "name": "two", "updated_at": found["updated_at"]} == found
    assert found["updated_at"] > wanted["updated_at"]
    with pytest.raises(IntegrityError), transaction.atomic():
        compiled_queries.insert_rows(copy)


def test_a_row_is_changed_only_while_it_is_as_it_was_read(db: None) -> None:
    agent, other = cast.agent("one"), cast.agent("other")
    changed = {"description": "It's", "tags": ["x"]}
    assert compiled_queries.update_if(Identity, agent.pk, changed, where={"expires_at": None, "name": "one"})
    assert not compiled_queries.update_if(
        Identity, agent.pk, {"description": "No"}, where={"expires_at": None, "name": "other"}
    )
    agent.refresh_from_db()
    other.refresh_from_db()
    assert (agent.description, agent.tags, other.tags) == ("It's", ["x"], [])
    Identity.objects.filter(pk=agent.pk).update(expires_at=cast.future(days=1))
    assert not compiled_queries.update_if(
        Identity, agent.pk, {"description": "Late"}, where={"expires_at": None, "name": "one"}
    )
    agent.refresh_from_db()
    assert agent.description == "It's"


def test_several_are_changed_together_each_for_itself_and_by_any_key(db: None) -> None:
    one, two = cast.agent("one"), cast.agent("two")
    said = {"description": "Changed"}
    late = ConditionalUpdate(Identity, one.pk, said, {"name": "not any more"})
    assert update_each_if([late, ConditionalUpdate(Identity, two.pk, said, {"name": "two"})]) == [False, True]
    assert update_each_if(
        [ConditionalUpdate(Identity, "one", {"tags": ["x"]}, {"expires_at": None}, key_column="name")]
    ) == [True]
    assert update_each_if([]) == []
    one.refresh_from_db()
    two.refresh_from_db()
    assert (one.description, one.tags, two.description, two.tags) == ("", ["x"], "Changed", [])


def test_a_row_is_put_over_the_one_that_has_its_key(db: None) -> None:
    other, row = cast.agent("other"), Identity.objects.get(pk=cast.agent("one").pk)
    row.pk, row.name = uuid7(), "two"
    for description in ("First", "Then"):
        row.description = description
        compiled_queries.upsert_row(row)
    found, other_now = Identity.objects.get(pk=row.pk), Identity.objects.get(pk=other.pk)
    assert (found.name, found.description, other_now.description) == ("two", "Then", "")
    assert Identity.objects.count() == 3


def test_what_is_the_same_each_time_is_in_the_text_and_the_server_keeps_it(db: None) -> None:
    """A plan that is kept uses an index of a part of the rows only where it is told which part."""
    one = cast.agent("one", description="100% %s one")
    rows = PreparedQuery(
        lambda pk: Identity.objects.filter(pk=pk, description="100% %s one").exclude(description__contains="%s%%"),
        pk=UUID,
    )
    assert [rows.fetch_all(pk=one.pk), rows.fetch_all(pk=uuid7())] == [[one], []]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT statement, parameter_types::text FROM pg_prepared_statements")
            kept = [(text, types) for text, types in cursor.fetchall() if "'100% %s one'" in text]
        assert [(types, "$1" in text, "$2" in text) for text, types in kept] == [("{uuid}", True, False)]


def test_of_several_rows_all_are_written_or_the_trouble_is_told(db: None) -> None:
    known = [cast.agent(name) for name in ("one", "two")]
    copies = [Identity.objects.get(pk=one.pk) for one in known]
    for copy in copies:
        copy.pk, copy.name = uuid7(), f"{copy.name}-copy"
    compiled_queries.insert_rows(*copies)
    assert Identity.objects.filter(name__in=["one-copy", "two-copy"]).count() == 2
    fresh = Identity.objects.get(pk=known[0].pk)
    fresh.pk, fresh.name = uuid7(), "three"
    with pytest.raises(IntegrityError), transaction.atomic():
        compiled_queries.insert_rows(fresh, copies[0])
    assert not Identity.objects.filter(name="three").exists()
    compiled_queries.insert_rows(fresh)
    assert Identity.objects.filter(name="three").exists()


def test_statements_are_counted_and_named_as_all_others(db: None, django_assert_num_queries: Any) -> None:
    agent = cast.agent("one")
    with django_assert_num_queries(1) as captured:
        NAMED.fetch_first(name="one", kind="agent")
    assert "nhi_identity" in captured.captured_queries[0]["sql"]
    copies = [Identity.objects.get(pk=agent.pk) for _ in range(2)]
    for n, copy in enumerate(copies):
        copy.pk, copy.name = uuid7(), f"copy-{n}"
    with django_assert_num_queries(2):
        compiled_queries.insert_rows(*copies)


def test_many_rows_are_written_by_few_statements(db: None, django_assert_max_num_queries: Any) -> None:
    agent, tool = cast.agent("one"), cast.tool("a__tool")
    copies = [Identity.objects.get(pk=(agent if n % 2 else tool).pk) for n in range(20)]
    for n, copy in enumerate(copies):
        copy.pk, copy.name = uuid7(), f"copy-{n}" if copy.kind == Kind.AGENT else f"copy__{n}"
    with django_assert_max_num_queries(2 + 4):
        compiled_queries.insert_rows(*copies)
    assert Identity.objects.filter(name__startswith="copy").count() == 20
    assert not any(copy._state.adding for copy in copies)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_column_of_another_type_breaks_no_connection(transactional_db: None, in_transaction: bool) -> None:
    """At most what was under way fails: whoever borrows the connection next is not told of a plan of before."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite keeps no plans by type")
    agent = cast.agent("one")
    rows = PreparedQuery(lambda pk: Identity.objects.filter(pk=pk), pk=UUID)
    assert rows.fetch_first(pk=agent.pk) == agent
    length = Identity._meta.get_field("description").max_length
    try:
        _beside(f"ALTER TABLE {Identity._meta.db_table} ALTER COLUMN description TYPE varchar(5000)")
        if in_transaction:
            with pytest.raises(DatabaseError), transaction.atomic():
                rows.fetch_first(pk=agent.pk)
        assert rows.fetch_first(pk=agent.pk) == agent
        assert rows.fetch_first(pk=agent.pk) == agent
    finally:
        _beside(f"ALTER TABLE {Identity._meta.db_table} ALTER COLUMN description TYPE varchar({length})")


def _beside(sql: str) -> None:
    """As another process does it: what is done over a connection itself, that one knows of."""

    def do() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(do).result()
