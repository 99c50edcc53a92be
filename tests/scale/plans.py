"""What a database does for a query: which tables it reads through an index, and how many rows it touches."""

import json
import re
from dataclasses import dataclass
from typing import Any

from django.db import connection

#: Tables that grow with the installation. None of them may be read from end to end for one decision.
GROWING = {
    "nhi_identity", "nhi_credential", "nhi_tool_permission", "nhi_nhi_permission", "nhi_role_assignment",
    "nhi_role_capability", "nhi_role", "nhi_user",
}  # fmt: skip

HANDFUL = 60


@dataclass(frozen=True)
class Plan:
    text: str
    #: Tables that are read without an index.
    scanned: frozenset[str]
    #: Rows that were looked at in all; None where the database does not tell.
    rows: int | None


def of(sql: str) -> Plan:
    """The plan of a query whose parameters stand in it already."""
    return _on_sqlite(sql) if connection.vendor == "sqlite" else _on_postgresql(sql)


def _on_sqlite(sql: str) -> Plan:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        steps = [row[3] for row in cursor.fetchall()]
    text = "\n".join(steps)
    aliases = dict(alias[::-1] for alias in re.findall(r'"(nhi_\w+)" (?:AS )?"?([TUV]\d+)"?', sql))
    scans = [found[1] for step in steps if (found := re.match(r"SCAN (\w+)", step))]
    return Plan(text, frozenset(aliases.get(name, name) for name in scans) & GROWING, None)


def _on_postgresql(sql: str) -> Plan:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        told = cursor.fetchone()[0]
    root = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
    nodes = list(_walk(root))
    scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan" and not _handful(node)}
    rows = sum(_touched(node) for node in nodes if "Relation Name" in node and not _handful(node))
    return Plan(json.dumps(root, indent=1), frozenset(scanned) & GROWING, rows)


def _handful(node: Any) -> bool:
    """A small table read whole, such as the fifty roles: the planner takes it or its index by the day's statistics.

    Whether an index would be used if there were more rows is not told by a plan over a handful of them.
    """
    return bool(node["Node Type"] == "Seq Scan" and _touched(node) <= HANDFUL)


def _walk(node: Any) -> Any:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)


def _touched(node: Any) -> int:
    """Rows that a node read, those it threw away included, over all its loops."""
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])
