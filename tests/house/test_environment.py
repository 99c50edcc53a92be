"""An odd value in the environment stops the start, with a message that names the variable."""

import os
import runpy
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import make_conninfo

from config.launcher import private
from tests.services.house import ROOT
from tests.settings import KEYS_FOR_TESTS

pytestmark = pytest.mark.capability("OPS-02")

DATABASE = {"DATABASE_URL": "postgresql://gatehouse@127.0.0.1:1/gatehouse"}
KEY = "A" * 43
GIVING_UP = ("connect_timeout", "tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count")

ODD = [
    ("PORT", {"PORT": "abc"}),
    ("PORT", {"PORT": "0"}),
    ("PORT", {"PORT": "65536"}),
    ("PORT", {"PORT": "80 80"}),
    ("GRPC_PORT", {"GRPC_PORT": "65536"}),
    ("WEB_WORKERS", {"WEB_WORKERS": "0"}),
    ("WEB_WORKERS", {"WEB_WORKERS": "many"}),
    ("ONE_PROCESSOR", {"ONE_PROCESSOR": "2"}),
    ("GRPC_PORT", {"GRPC_PORT": "0"}),
    ("GRPC_PORT", {"PORT": "8000", "GRPC_PORT": "8000"}),
    ("GRPC_TLS_KEY", {"GRPC_TLS_CERTIFICATE": __file__}),
    ("GRPC_TLS_CERTIFICATE", {"GRPC_TLS_CERTIFICATE": "chain.pem"}),
    ("GRPC_PROBE", {"GRPC_PROBE": "127.0.0.1"}),
    ("DEBUG", {"DEBUG": "maybe"}),
    ("REQUIRE_MFA", {"REQUIRE_MFA": "2"}),
    ("HSTS_SUBDOMAINS", {"HSTS_SUBDOMAINS": "maybe"}),
    ("TRUSTED_PROXIES", {"TRUSTED_PROXIES": "-1"}),
    ("TRUSTED_PROXIES", {"TRUSTED_PROXIES": "1.5"}),
    ("METRICS_TOKEN", {"METRICS_TOKEN": "x" * 31}),
    ("METRICS_TOKEN", {"METRICS_TOKEN": "two words " * 5}),
    ("GRPC_TRUSTED_PROXIES", {"GRPC_TRUSTED_PROXIES": "-1"}),
    ("GRPC_TRUSTED_PROXIES", {"GRPC_TRUSTED_PROXIES": "11"}),
    ("TRUSTED_PROXY_NETWORKS", {"TRUSTED_PROXY_NETWORKS": "proxy.internal"}),
    ("TRUSTED_PROXY_NETWORKS", {"TRUSTED_PROXY_NETWORKS": "10.0.3.7/24"}),
    ("TRUSTED_PROXY_NETWORKS", {"TRUSTED_PROXY_NETWORKS": "10.0.3.0/33"}),
    ("TRUSTED_PROXY_NETWORKS", {"TRUSTED_PROXY_NETWORKS": "10.0.3.0/24 10.0.4.0/24"}),
    ("TRUSTED_PROXY_NETWORKS", {"TRUSTED_PROXY_NETWORKS": "10.0.3.0/24,0.0.0.0/0"}),
    ("TRUSTED_PROXY_NETWORKS", {"TRUSTED_PROXY_NETWORKS": "::/0"}),
    ("ALLOWED_HOSTS", {"ALLOWED_HOSTS": "*"}),
    ("ALLOWED_HOSTS", {"ALLOWED_HOSTS": "gate.example.org,*"}),
    ("PUBLIC_URL", {"PUBLIC_URL": "gate.example.org"}),
    ("PUBLIC_URL", {"PUBLIC_URL": "ftp://gate.example.org"}),
    ("PUBLIC_URL", {"PUBLIC_URL": "https://"}),
    ("DATABASE_URL", {"DATABASE_URL": "mysql://gatehouse@127.0.0.1/gatehouse"}),
    ("DATABASE_URL", {"DATABASE_URL": "postgresql://gatehouse@127.0.0.1/"}),
    ("DATABASE_URL", {"DATABASE_URL": "postgresql://gatehouse@127.0.0.1:port/gatehouse"}),
    ("BROKER_URL", {"BROKER_URL": "memory://"}),
    ("BROKER_URL", {"BROKER_URL": "127.0.0.1:6379"}),
    ("REDIS_URL", {"REDIS_URL": "127.0.0.1"}),
    ("WEBHOOK_TIME_SCALE", {"WEBHOOK_TIME_SCALE": "-1"}),
    ("WEBHOOK_TIME_SCALE", {"WEBHOOK_TIME_SCALE": "fast"}),
    ("GATEHOUSE_DATA", {"GATEHOUSE_DATA": "manage.py"}),
    ("SECRET_KEY", {"SECRET_KEY": "short"}),
    ("SECRET_KEY_FALLBACKS", {"SECRET_KEY_FALLBACKS": f"{'x' * 32},short"}),
    ("TOKEN_PEPPER", {"TOKEN_PEPPER": "x" * 31}),
    ("FIELD_KEYS", {"FIELD_KEYS": "one"}),
    ("FIELD_KEYS", {"FIELD_KEYS": f"k1:{KEY[:-1]}"}),
    ("FIELD_KEYS", {"FIELD_KEYS": f"k1:{KEY},k1:{KEY}"}),
    ("FIELD_KEYS", {"FIELD_KEYS": f"k 1:{KEY}"}),
    ("SIGNING_KEYS", {"SIGNING_KEYS": f"s1:{KEY},s2"}),
    *((name, {**DATABASE, **KEYS_FOR_TESTS, name: ""}) for name in ("SECRET_KEY", "TOKEN_PEPPER", "FIELD_KEYS")),
]
FINE = [
    {},
    {"PORT": "", "DEBUG": "", "TRUSTED_PROXIES": " "},
    {"PORT": "65535"},
    {"GRPC_PORT": "9000", "GRPC_TLS_CERTIFICATE": __file__, "GRPC_TLS_KEY": __file__, "USUAL_AGENT": "writer"},
    {"PORT": "8443", "PUBLIC_URL": "https://gate.example.org/", "TRUSTED_PROXIES": "1", "WEB_WORKERS": "4"},
    {"TRUSTED_PROXY_NETWORKS": "10.0.3.7, 2001:db8::/64", "GRPC_TRUSTED_PROXIES": "1"},
    {"TRUSTED_PROXY_NETWORKS": " , "},
    {"DEBUG": "1", "ALLOWED_HOSTS": "*"},
    {**DATABASE, "DEBUG": "1"},
    {**DATABASE, **KEYS_FOR_TESTS},
    {"BROKER_URL": "amqp://gatehouse@127.0.0.1//"},
    {"SECRET_KEY_FALLBACKS": f"{'x' * 32}, {'y' * 32}"},
    {"FIELD_KEYS": f"new:{KEY}, old:{'B' * 42}A"},
]


def settings(monkeypatch: pytest.MonkeyPatch, data: Path, environ: dict[str, str]) -> dict[str, Any]:
    """The settings file, read anew with this environment and no other."""
    for name in {name for name, _ in ODD} | KEYS_FOR_TESTS.keys():
        monkeypatch.delenv(name, raising=False)
    for name, value in {"GATEHOUSE_DATA": str(data), **environ}.items():
        monkeypatch.setenv(name, value)
    return runpy.run_path(str(ROOT / "config" / "settings.py"))


@pytest.mark.parametrize(("name", "environ"), ODD, ids=[f"{name}-{number}" for number, (name, _) in enumerate(ODD)])
def test_an_odd_value_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, environ: dict[str, str]
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(ImproperlyConfigured, match=rf"\b{name}\b"):
        settings(monkeypatch, tmp_path, environ)


@pytest.mark.parametrize("environ", FINE, ids=[" ".join(environ) or "nothing" for environ in FINE])
def test_a_good_environment_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environ: dict[str, str]) -> None:
    taken = settings(monkeypatch, tmp_path, environ)
    assert len(taken["SECRET_KEY"]) >= 32
    assert taken["FIELD_KEYS"].primary_key[1]


def test_no_message_repeats_a_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SECRET_KEY", "SECRET_KEY_FALLBACKS", "TOKEN_PEPPER", "FIELD_KEYS", "SIGNING_KEYS", "METRICS_TOKEN"):
        with pytest.raises(ImproperlyConfigured) as refused:
            settings(monkeypatch, tmp_path, {name: "hunter2"})
        assert "hunter2" not in str(refused.value)


def test_keys_are_made_once_and_kept_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = settings(monkeypatch, tmp_path / "data", {})
    again = settings(monkeypatch, tmp_path / "data", {})
    other = settings(monkeypatch, tmp_path / "other", {})
    kept = tmp_path / "data" / "keys.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert first["SECRET_KEY"] == again["SECRET_KEY"] != other["SECRET_KEY"]
    assert first["TOKEN_PEPPER"] == again["TOKEN_PEPPER"] != other["TOKEN_PEPPER"]


def readable_by_others(data: Path) -> list[str]:
    return [str(path) for path in data.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]


def test_nobody_else_reads_the_database_in_an_open_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    environ = {"PATH": os.environ["PATH"], "GATEHOUSE_DATA": str(tmp_path)}
    # Looked at while it is open, when its log is there too.
    program = (
        "import os, runpy, sys; os.umask(0o022); sys.argv = ['manage.py', 'migrate', '--verbosity', '0'];"
        "runpy.run_path('manage.py', run_name='__main__'); from django.db import connection;"
        "connection.cursor().execute('DELETE FROM django_session');"
        "print(*(oct(p.stat().st_mode & 0o077) + p.name for p in os.scandir(os.environ['GATEHOUSE_DATA'])))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=True
    )
    assert {"0o0gatehouse.sqlite3", "0o0gatehouse.sqlite3-wal", "0o0gatehouse.sqlite3-shm"} <= set(ran.stdout.split())
    assert readable_by_others(tmp_path) == []


def test_what_others_could_read_is_closed_at_the_next_start(tmp_path: Path) -> None:
    names = ("keys.json", "gatehouse.sqlite3", "gatehouse.sqlite3-wal", "logs/web-1.log", "appendonlydir/a.aof")
    for name in (*names, "not-ours.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        path.chmod(0o644)
    private.tighten(tmp_path, tmp_path / "gatehouse.sqlite3")
    assert readable_by_others(tmp_path) == [str(tmp_path / "not-ours.txt")]


def test_secure_by_a_public_url_with_https(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken = settings(monkeypatch, tmp_path, {"PUBLIC_URL": "https://gate.example.org"})
    assert taken["SESSION_COOKIE_SECURE"]
    assert taken["CSRF_COOKIE_SECURE"]
    assert taken["SECURE_HSTS_SECONDS"] > 0
    assert not taken["SECURE_HSTS_INCLUDE_SUBDOMAINS"]
    assert not taken["SECURE_HSTS_PRELOAD"]
    assert taken["ALLOWED_HOSTS"][0] == "gate.example.org"
    assert taken["CSRF_TRUSTED_ORIGINS"] == ["https://gate.example.org"]


def test_hsts_reaches_further_only_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = {"PUBLIC_URL": "https://gate.example.org", "HSTS_SUBDOMAINS": "1"}
    taken = settings(monkeypatch, tmp_path, asked)
    assert taken["SECURE_HSTS_INCLUDE_SUBDOMAINS"]
    assert taken["SECURE_HSTS_PRELOAD"]
    assert not settings(monkeypatch, tmp_path, {"HSTS_SUBDOMAINS": "1"})["SECURE_HSTS_INCLUDE_SUBDOMAINS"]


def test_a_network_that_swallows_packets_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken = settings(monkeypatch, tmp_path, {**DATABASE, **KEYS_FOR_TESTS})
    conninfo = make_conninfo(**{key: taken["DATABASES"]["default"]["OPTIONS"][key] for key in GIVING_UP})
    assert "tcp_user_timeout=3000" in conninfo
    other = {"DATABASE_URL": f"{DATABASE['DATABASE_URL']}?tcp_user_timeout=9000"}
    own = settings(monkeypatch, tmp_path, {**other, **KEYS_FOR_TESTS})
    assert own["DATABASES"]["default"]["OPTIONS"]["tcp_user_timeout"] == "9000"


@pytest.mark.parametrize("command", ["up", "migrate", "check"])
def test_every_command_says_it_in_one_sentence(tmp_path: Path, command: str) -> None:
    environ = {"PATH": os.environ["PATH"], "GATEHOUSE_DATA": str(tmp_path), "PORT": "abc"}
    refused = subprocess.run(
        [sys.executable, "manage.py", command],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr == ("Gatehouse cannot start: PORT must be a whole number from 1 to 65535, not 'abc'.\n")
    assert list(tmp_path.iterdir()) == []


def test_production_is_clean_by_djangos_own_deployment_check(tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "GATEHOUSE_DATA": str(tmp_path),
        "PUBLIC_URL": "https://gate.example.org",
        **KEYS_FOR_TESTS,
        "SECRET_KEY": "k4Zx9-vT2_qLm7Rw0sBn5Yc8Hd1Jf6Gp3Ua-eXoViKtMzQbNyWl",
    }
    checked = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
