"""The system: which processes live, is the house ready, what waits, which limits hold, who may do what."""

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import django
from django.conf import settings
from django.db import connection
from django.utils import timezone

from common.console import badges, navigation
from common.console.badges import Badge
from nhi import hooks, process_heartbeats
from nhi.console.base import ActorPage
from nhi.console.console_role_rights import LABELS, role_rights_table
from nhi.credentials import credentials
from nhi.models import Process
from nhi.models.processes import ProcessKind
from nhi.people import sign_in_throttle

#: Silent for this many heartbeats' patience, a process is taken for lost.
LOST_AFTER = 3 * process_heartbeats.LATE_AFTER


@dataclass(frozen=True)
class Row:
    """One process, or a kind of which none is known."""

    kind: ProcessKind
    badge: Badge
    process: Process | None = None


@dataclass(frozen=True)
class Check:
    name: str
    badge: Badge
    words: str


class System(ActorPage):
    template = "nhi/system/page.html"
    title = "System"
    actor_may = "nhi.view_process"

    def context(self) -> dict[str, Any]:
        house = hooks.installation_status()
        readiness = house.readiness() if house else hooks.ReadinessReport()
        return {
            "rows": rows(Process.objects.visible_to(self.actor), timezone.now()),
            "checks": _checks(readiness.checks),
            "warnings": readiness.warnings,
            "queues": house.queues() if house else None,
            "versions": versions(),
            "limits": limits(),
            "table": role_rights_table(),
            "labels": LABELS.values(),
        }


def rows(known: Iterable[Process], now: datetime) -> list[Row]:
    """Every process; and for each kind without any, a line that says so."""
    found = [Row(ProcessKind(process.kind), standing(process, now), process) for process in known]
    wanted = set(ProcessKind) if settings.GRPC_PROBE else set(ProcessKind) - process_heartbeats.OPTIONAL_KINDS
    missing = wanted - {row.kind for row in found}
    found += [Row(kind, badges.find("process", "lost")) for kind in missing]
    return sorted(found, key=lambda row: list(ProcessKind).index(row.kind))


def standing(process: Process, now: datetime) -> Badge:
    silent = now - process.seen_at
    return badges.find(
        "process", "up" if silent <= process_heartbeats.LATE_AFTER else "late" if silent <= LOST_AFTER else "lost"
    )


def versions() -> list[tuple[str, str]]:
    database = f"{connection.display_name} {'.'.join(str(part) for part in _database_version())}"
    return [
        ("Gatehouse", settings.VERSION),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
        ("Database", database),
    ]


def limits() -> list[tuple[str, str]]:
    """What holds for everyone, read where it is enforced."""
    pair, name, address = sign_in_throttle.PAIR_RULE, sign_in_throttle.NAME_RULE, sign_in_throttle.ADDRESS_RULE
    window = f"in {sign_in_throttle.FAILURE_WINDOW.seconds // 60} min"
    life = f"{credentials.DEFAULT_DAYS} days unless told otherwise, {credentials.MAX_DAYS} at most"
    session, idle = settings.SESSION_COOKIE_AGE // 3600, settings.SESSION_IDLE_SECONDS // 60
    return [
        ("Live credentials of one identity", f"{credentials.MAX_LIVE}"),
        ("A credential lives", life),
        ("Overlap after a rotation", f"{credentials.MAX_OVERLAP_SECONDS // 86400} days at most"),
        ("Console session", f"{session} h, {idle} min without a request"),
        ("Second factor", "required of everyone" if settings.REQUIRE_MFA else "of each person's own choice"),
        ("Failed sign-ins, one name from one address", f"{pair.limit} {window}, then locked"),
        ("Failed sign-ins, one name from anywhere", f"{name.limit} {window}, then locked"),
        ("Failed sign-ins, one address", f"{address.limit} {window}, then locked"),
        ("Body of a request", f"{settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024} KiB"),
        ("Trusted proxies", _trusted_proxies()),
        ("Web processes on this host", str(settings.WEB_WORKERS)),
    ]  # fmt: skip


def _trusted_proxies() -> str:
    """How many entries of `X-Forwarded-For` count, and from which peers."""
    web, grpc = settings.TRUSTED_PROXIES, settings.GRPC_TRUSTED_PROXIES
    if not web and not grpc:
        return "none: X-Forwarded-For is not read"
    networks = ", ".join(str(network) for network in settings.TRUSTED_PROXY_NETWORKS)
    return f"{web} before the web port, {grpc} before the gRPC port, in {networks}"


def _checks(told: dict[str, tuple[bool, str]]) -> list[Check]:
    return [Check(name, badges.find("check", "ok" if ok else "failed"), words) for name, (ok, words) in told.items()]


def _database_version() -> tuple[int, ...]:
    """Kept by the connection, so that it costs no query but the first."""
    version: tuple[int, ...] = connection.get_database_version()
    return version


navigation.add_site_page("system/", System.as_view(), "system")
