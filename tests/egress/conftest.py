import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.egress.far_side import Listener, NameServers
from tests.egress.tls import Certificate, self_signed


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def name_servers(monkeypatch: pytest.MonkeyPatch) -> NameServers:
    made = NameServers()
    monkeypatch.setattr(socket, "getaddrinfo", made)
    return made


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(Path(tmp_path_factory.mktemp("tls")), "tools.example")
