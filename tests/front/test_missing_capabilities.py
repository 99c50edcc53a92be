"""A tool that needs more of its client than was declared: the protocol's own refusal, or a result that explains."""

import pytest

from tests.front.asking import META, message
from tests.front.door import Gateway, ask, made

pytestmark = pytest.mark.capability("MCP-06")
SAID = "The tool needs sampling."
NEEDY = made("error", "invalid_parameters", SAID, required_capabilities=("sampling",))


def test_a_client_that_left_them_out_is_told_which() -> None:
    client = ask(Gateway(NEEDY))
    assert client.status == 400
    error = client.answer["error"]
    assert error == {"code": -32021, "message": SAID, "data": {"requiredCapabilities": {"sampling": {}}}}


def test_one_that_declared_them_is_not_told_to_declare_them() -> None:
    declared = {**META, "io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
    client = ask(Gateway(NEEDY), message(meta=declared))
    assert client.status == 200
    assert client.answer["result"]["isError"] is True
    assert client.answer["result"]["content"] == [{"type": "text", "text": SAID}]
