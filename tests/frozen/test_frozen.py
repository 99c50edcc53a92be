"""Nothing that is stored, signed, sent or configured under a name goes by another one after a rename."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from common import installation_keys
from tests.frozen import installation, source

pytestmark = [pytest.mark.capability("OPS-05"), pytest.mark.django_db]
VALUES = Path(__file__).parent / "values"
KINDS: dict[str, Callable[[], set[str]]] = {
    function.__name__: function
    for function in (
        source.data_strings, installation.celery_beat, installation.celery_tasks, installation.choices,
        installation.columns, installation.commands, installation.constraints, installation.error_codes,
        installation.events, installation.metric_names, installation.model_names, installation.operations,
        installation.permissions, installation.reasons, installation.setting_names, installation.urls,
    )
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_is_lost(kind: str) -> None:
    """New values may come. Whoever removes one removes its line, and says in the commit what becomes of old data."""
    lines = (VALUES / f"{kind}.txt").read_text().splitlines()
    assert lines
    values = {line.encode().decode("unicode_escape") for line in lines}
    assert sorted(values - KINDS[kind]()) == []


@pytest.mark.parametrize(
    "fields",
    [
        "identity_id,credential_id,issued,expires,scope,audience,execution_id",  # of a short-lived token
        "kind,place,message",  # of a flag of a definition
        "table,id,timestamp",  # of a broken row in the answer of verify_rows
        "argv,environment,directory,uid,gid,rules,limits,name",  # of what is run as an agent
        "processes,memory,cpu",  # of its limits
        "era,protocol_version,server_info,capabilities,instructions,latency_ms,steps",  # of a stdio server's handshake
    ],
)
def test_dataclasses_that_are_stored_or_sent_keep_their_fields(fields: str) -> None:
    assert fields in source.dataclass_fields()


@pytest.mark.parametrize(
    ("label", "key"),
    [
        ("record", "f3e36ea3edf8c2efb42be37ba5b3598e992c29d3e203f807485bd359a2d76c38"),
        ("cursor", "dd2130007d8fcef727863f238177e67c4de8290eb0814847ac1d4fdfc6669085"),
        ("short-token", "c7594fc113c37e23bcb85f6606aa4e36e86af2b45a8f8862b94b53eed767479b"),
        ("mcp-cursor", "b366fcd2f958ab2d8be824e457c4e1ddb58257b0e281c880090fd6a12243d7c4"),
        ("mcp-session", "7f000881b43bf995ae96fa095d845f89d7caf7c0dc1d7896463e1eb5633e69e5"),
        ("a2a-cursor", "c32c9d359ef03df126fae666962997c08c3488e099bf7f2036376390b564a4bb"),
        ("card/1", "58e2d670ea005fb1bc9566b032331c38648cd74bcc99736a63b1371c5c1deec4"),
        ("card/2", "f8662c14e7836bfc360b4e328d6f87a5e84f1846148b0b2c8751cba40c9f21ed"),
        ("connect single sign-on", "d62b6426d47eed6439a14ea99074dcbca7142ce8aff279b13d8e0886245dc5c4"),
    ],
)
def test_a_label_is_used_and_makes_the_same_key(label: str, key: str) -> None:
    constants = (node for tree in source.trees() for node in ast.walk(tree) if isinstance(node, ast.Constant))
    assert any(node.value == label for node in constants)
    assert installation_keys.derive("frozen", label).hex() == key
