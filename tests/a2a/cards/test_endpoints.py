"""Endpoints as people set them, and the refusals that follow."""

from typing import Any

import pytest

from a2a import endpoint_changes, endpoints
from a2a.choices import Authentication
from a2a.models import Endpoint
from a2a.wire import methods
from a2a.wire.faults import Fault, Kind
from nhi.actors import SYSTEM
from nhi.models import AuditEvent
from tests.a2a.conftest import Stage
from tests.api.callers import calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-09"), pytest.mark.both_databases]
OPEN = {"authentication": {"type": "none"}}


@pytest.fixture
def path(stage: Stage) -> str:
    return f"a2a/endpoints/{stage.writer.pk}"


def fault(settings: endpoints.Settings, **asked: Any) -> Kind:
    with pytest.raises(Fault) as refused:
        endpoints.require(settings, **{"transport": "json_rpc", "operation": methods.SEND, **asked})
    return refused.value.kind


def test_an_agent_is_reached_by_the_usual_values_from_the_start(
    stage: Stage, path: str, django_assert_max_num_queries: Any
) -> None:  # fmt: skip
    with django_assert_max_num_queries(1):
        usual = endpoints.of(stage.writer)
    assert usual.transports == ("json_rpc", "http_json", "grpc")
    assert (usual.authentication, usual.base_path) == (Authentication.BEARER_TOKEN, "/agents/writer")
    for transport in usual.transports:
        for operation in methods.ALL:
            endpoints.require(usual, transport=transport, operation=operation, size=10 * 1024 * 1024)
    assert stage.admin.get(path).body["updated_at"] is None
    assert not Endpoint.objects.exists()


def test_what_is_given_is_changed_and_the_rest_stays(stage: Stage, path: str) -> None:
    stage.admin.patch(path, {"transport_protocols": ["grpc"], "rate_limiting": {"tasks_per_minute": 5}})
    changed = stage.admin.patch(path, {"capabilities": {"streaming_support": False, "max_concurrent_tasks": 1}}).body
    assert changed["transport_protocols"] == ["grpc"]
    assert changed["rate_limiting"] == {"tasks_per_minute": 5, "tasks_per_hour": None}
    assert (changed["capabilities"]["streaming_support"], changed["capabilities"]["concurrent_execution"]) == (
        False,
    ) * 2
    assert stage.admin.get(path).body == changed
    (listed,) = stage.admin.get("a2a/endpoints", name="writer").body["endpoints"]
    assert listed == changed
    assert cast.events(stage.writer, event="endpoint.changed") == ["endpoint.changed"] * 2
    last = AuditEvent.objects.filter(event="endpoint.changed").latest("at", "writer_seq")
    assert last.after == {"streaming": False, "max_concurrent_tasks": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"base_path": "/elsewhere"}, "base_path"),
        ({"transport_protocols": []}, "transport_protocols"),
        ({"transport_protocols": ["smoke"]}, "transport_protocols.0"),
        ({"authentication": {"type": "api_key", "header_name": "Authorization"}}, "authentication.header_name"),
        ({"authentication": {"header_name": "X Key"}}, "authentication.header_name"),
        ({"authentication": {"token": "x"}}, "authentication.token"),
        ({"rate_limiting": {"tasks_per_hour": 0}}, "rate_limiting.tasks_per_hour"),
        ({"capabilities": {"supported_methods": []}}, "capabilities.supported_methods"),
        ({"capabilities": {"supported_methods": ["Guess"]}}, "capabilities.supported_methods.0"),
        ({"capabilities": {"max_input_size": 0}}, "capabilities.max_input_size"),
        ({"capabilities": {"max_output_size": 10_485_761}}, "capabilities.max_output_size"),
        ({"capabilities": {"supported_content_types": ["*/*"]}}, "capabilities.supported_content_types"),
    ],
)
def test_what_is_wrong_is_named(stage: Stage, path: str, body: dict[str, Any], field: str) -> None:
    refused = stage.admin.patch(path, body)
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == [field]
    assert not Endpoint.objects.exists()


def test_a_way_in_that_is_off_and_an_operation_that_is_not_offered_are_refused(stage: Stage) -> None:
    off = {"transports": ["http_json"], "supported_methods": [methods.SEND, methods.GET, methods.SUBSCRIBE]}
    endpoint_changes.change(actor=SYSTEM, identity=stage.writer, streaming=False, **off)
    settings = endpoints.of(stage.writer)
    endpoints.require(settings, transport="http_json", operation=methods.SEND)
    assert fault(settings) == Kind.UNSUPPORTED
    assert fault(settings, transport="http_json", operation=methods.CANCEL) == Kind.UNSUPPORTED
    assert fault(settings, transport="http_json", operation=methods.SUBSCRIBE) == Kind.UNSUPPORTED


def test_what_is_too_large_or_of_another_type_is_refused(stage: Stage) -> None:
    limits = {"max_input_size": 100, "content_types": ["text/plain", "image/*"]}
    endpoint_changes.change(actor=SYSTEM, identity=stage.writer, **limits)
    settings = endpoints.of(stage.writer)
    taken = ["text/plain; charset=utf-8", "IMAGE/png", "text/plain"]
    endpoints.require(settings, transport="grpc", operation=methods.SEND, size=100, content_types=taken)
    assert fault(settings, size=101) == Kind.TOO_LARGE
    assert fault(settings, content_types=["text/plain", "text/html"]) == Kind.CONTENT_TYPE


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"Authorization": "Bearer nhi_x"}, "nhi_x"),
        ({"authorization": "bearer  nhi_x "}, "nhi_x"),
        ({"Authorization": "Basic nhi_x"}, ""),
        ({"X-API-Key": "nhi_x"}, None),
        ({}, None),
    ],
)
def test_a_bearer_token_is_looked_for_where_it_belongs(stage: Stage, headers: dict[str, str], token: Any) -> None:
    assert endpoints.bearer_of(endpoints.of(stage.writer), headers) == token


def test_an_api_key_is_looked_for_in_the_agents_own_header_and_nowhere_else(stage: Stage) -> None:
    endpoint_changes.change(actor=SYSTEM, identity=stage.writer, authentication="api_key", api_key_header="X-Writer")
    settings = endpoints.of(stage.writer)
    assert endpoints.bearer_of(settings, {"x-writer": "nhi_x", "authorization": "Bearer other"}) == "nhi_x"
    assert endpoints.bearer_of(settings, {"Authorization": "Bearer nhi_x"}) is None


class TestOpen:
    """An endpoint that asks for nothing."""

    def test_it_is_for_development_servers(self, stage: Stage, path: str) -> None:
        body = {"authentication": {"type": "none", "open_as_id": str(stage.planner.pk)}}
        refused = stage.admin.patch(path, body)
        assert refused.is_refused(400, "InvalidParameters")
        assert refused.fields == ["authentication.type"]
        assert "DEBUG=1" in refused.body["message"]

    def test_somebodys_grants_say_what_strangers_may(self, stage: Stage, path: str, settings: Any) -> None:
        settings.DEBUG = True
        assert stage.admin.patch(path, OPEN).fields == ["authentication.open_as_id"]
        itself = {"authentication": {"type": "none", "open_as_id": str(stage.writer.pk)}}
        assert stage.admin.patch(path, itself).fields == ["authentication.open_as_id"]
        body = {"authentication": {"type": "none", "open_as_id": str(stage.planner.pk)}}
        assert stage.admin.patch(path, body).status == 200
        opened = endpoints.of(stage.writer)
        caller = endpoints.stand_in(opened)
        assert opened.is_open
        assert caller is not None
        assert (caller.actor.name, caller.actor.rights, caller.shown) == ("planner", frozenset(), None)

    def test_who_opens_it_may_change_the_one_who_stands_in(self, stage: Stage, path: str, settings: Any) -> None:
        settings.DEBUG = True
        owner = cast.user("dora")
        cast.user_grant(stage.writer, owner, "admin")
        cast.user_grant(stage.planner, owner)
        body = {"authentication": {"type": "none", "open_as_id": str(stage.planner.pk)}}
        assert calling(owner).patch(path, body).fields == ["authentication.open_as_id"]

    def test_it_is_closed_again_where_the_database_serves_in_earnest(self, stage: Stage, settings: Any) -> None:
        settings.DEBUG = True
        change = {"authentication": "none", "open_as": stage.planner}
        endpoint_changes.change(actor=SYSTEM, identity=stage.writer, **change)
        settings.DEBUG = False
        closed = endpoints.of(stage.writer)
        assert closed.authentication == Authentication.BEARER_TOKEN
        assert endpoints.stand_in(closed) is None

    def test_who_is_asked_for_something_again_stands_in_for_nobody(self, stage: Stage, settings: Any) -> None:
        settings.DEBUG = True
        change = {"authentication": "none", "open_as": stage.planner}
        endpoint_changes.change(actor=SYSTEM, identity=stage.writer, **change)
        endpoint_changes.change(actor=SYSTEM, identity=stage.writer, authentication="bearer_token")
        assert endpoints.of(stage.writer).open_as_id is None
