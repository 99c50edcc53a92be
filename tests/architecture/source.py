"""The product's source as syntax trees."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("config", "a2a", "supervisor", "mcp", "nhi", "common")
#: Packages and modules that translate between the outside and the functions that change state.
EDGE_PARTS = frozenset({"admin", "api", "console", "web", "management", "templatetags", "celery_tasks.py"})


@dataclass(frozen=True)
class Module:
    path: str
    tree: ast.Module

    def __str__(self) -> str:
        return self.path

    @property
    def is_edge(self) -> bool:
        return self.app in {"config", "common"} or bool(EDGE_PARTS & set(self.path.split("/")[1:]))

    @property
    def app(self) -> str:
        return self.path.partition("/")[0]

    def place(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 0)}"


@cache
def modules() -> tuple[Module, ...]:
    return tuple(_read())


def _read() -> Iterator[Module]:
    for app in APPS:
        for file in sorted((ROOT / app).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            if "/migrations/" not in path:
                yield Module(path, ast.parse(file.read_text(), path))


def calls(module: Module) -> Iterator[tuple[ast.Call, str, str]]:
    """Each call of an attribute: the call, the attribute's name, and the text of what it is called on."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, node.func.attr, ast.unparse(node.func.value)
