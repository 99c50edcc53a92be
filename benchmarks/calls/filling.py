"""Make an installation large in plain SQL: copies of a tool, of its agent with grants, and of a row of the log."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from uuid import UUID

from benchmarks.calls.database import Database

#: The same on both databases.
SERIES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
#: Each kind of copy has ids of its own; whoever refers to one makes the id again from its number.
TOOLS, DEFINITIONS, AGENTS, GRANTS, ROWS = "0001", "0002", "0003", "0004", "0005"
TOOLS_OF_AN_AGENT = 10


class Filler:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.connection = database.connect()

    def tools(self, tool_id: str, count: int) -> None:
        """Approved tools like this one, on its server."""
        identity, definition = self.id(TOOLS), self.id(DEFINITIONS)
        name = f"src.name || {self.digits('n.i')}"
        with self.transaction():
            named = {"name": name, "capability": f"src.capability || {self.digits('n.i')}"}
            self.copy("nhi_identity", "id", tool_id, count, {"id": identity, **named})
            own = {"identity_id": identity, "name": name, "approved_id": definition, "current_id": definition}
            self.copy("mcp_tool", "identity_id", tool_id, count, own)
            of = {"id": definition, "tool_id": identity}
            self.copy("mcp_tool_definition", "tool_id", tool_id, count, of)

    def grants(self, agent_id: str, grant_id: str, count: int) -> None:
        """Agents like this one, each with a grant of ten of the tools that `tools` made."""
        name = f"src.name || {self.digits('n.i')}"
        place = f"(n.i - 1) / {TOOLS_OF_AN_AGENT} + 1"
        with self.transaction():
            self.copy("nhi_identity", "id", agent_id, count // TOOLS_OF_AN_AGENT, {"id": self.id(AGENTS), "name": name})
            sides = {
                "id": self.id(GRANTS), "agent_id": self.id(AGENTS, place),
                "tool_id": self.id(TOOLS, f"(n.i - 1) % {TOOLS_OF_AN_AGENT} + 1"),
            }  # fmt: skip
            self.copy("nhi_tool_permission", "id", grant_id, count, sides)

    def rows(self, count: int) -> None:
        """The row of the log that is there, as if it had come once a second until now."""
        row = self.connection.execute("SELECT id FROM nhi_invocation_log LIMIT 1").fetchone()
        before = self.seconds_before("src.timestamp")
        own = {"id": self.id(ROWS), "writer": self.id(ROWS, "0"), "writer_seq": "n.i", "timestamp": before}
        with self.transaction():
            self.copy("nhi_invocation_log", "id", str(row[0]), count, own)

    def copy(self, table: str, key: str, value: str, count: int, changes: Mapping[str, str]) -> None:
        """`count` copies of one row; `changes` says what is another in each, in terms of `src` and the number `n.i`."""
        columns = [column[0] for column in self.connection.execute(f"SELECT * FROM {table} LIMIT 0").description]
        sources = ", ".join(changes.get(column, f'src."{column}"') for column in columns)
        into = ", ".join(f'"{column}"' for column in columns)
        self.connection.execute(
            f"{SERIES.format(count=count)} INSERT INTO {table} ({into}) SELECT {sources} FROM {table} AS src, n "
            f"WHERE src.{key} = '{self.stored(value)}'"
        )

    def stored(self, value: str) -> str:
        return str(UUID(value)) if self.database.is_postgresql else UUID(value).hex

    def id(self, space: str, number: str = "n.i") -> str:
        head = f"'5eed{space}000070008000'"
        if self.database.is_postgresql:
            return f"({head} || lpad(to_hex({number}), 12, '0'))::uuid"
        return f"({head} || printf('%012x', {number}))"

    def seconds_before(self, moment: str) -> str:
        """As many as the copy's number."""
        if self.database.is_postgresql:
            return f"{moment} - n.i * interval '1 second'"
        return f"datetime({moment}, '-' || n.i || ' seconds')"

    def digits(self, number: str) -> str:
        return f"lpad(({number})::text, 7, '0')" if self.database.is_postgresql else f"printf('%07d', {number})"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """References between the copies are looked at when it ends."""
        self.connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def close(self) -> None:
        with closing(self.connection):
            self.connection.execute("ANALYZE")
