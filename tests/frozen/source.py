"""The product's string constants, read from its syntax trees."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("common", "config", "nhi", "mcp", "supervisor", "a2a")
#: Their texts are labels, or repeat the name of a variable.
CALLS_WITHOUT_DATA = frozenset({"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "TypeVar", "ParamSpec"})
NAMES_OF_CODE = frozenset({"__all__", "__slots__"})
DOTTED_PATH = re.compile(rf"(?:{'|'.join(APPS)})(?:\.\w+)+(?::\w+)?")


@cache
def trees() -> tuple[ast.Module, ...]:
    return tuple(ast.parse(path.read_text(), str(path)) for app in APPS for path in sorted((ROOT / app).rglob("*.py"))
                 if "migrations" not in path.parts and not path.stem.endswith(("_pb2", "_pb2_grpc")))  # fmt: skip


def data_strings() -> set[str]:
    """Return the string constants without whitespace, except docstrings, annotations, labels and module paths.

    An f-string is one value, with `{}` for each expression.
    """
    return {text for tree in trees() for text in _strings(tree) if text and not re.search(r"\s", text)
            and not _is_path_of_code(text)}  # fmt: skip


def dataclass_fields() -> set[str]:
    """The fields of each dataclass, in their order."""
    classes = (node for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    dataclasses = (node for node in classes if any("dataclass" in ast.unparse(each) for each in node.decorator_list))
    return {",".join(_fields(node)) for node in dataclasses}


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _strings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and _name(node.func) in CALLS_WITHOUT_DATA:
        return
    if isinstance(node, ast.Assign) and any(getattr(target, "id", "") in NAMES_OF_CODE for target in node.targets):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        children = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str | bytes):
            yield node.value if isinstance(node.value, str) else f"b:{node.value.decode('latin-1')}"
        return
    else:
        children = [child for name, child in ast.iter_fields(node) if name not in ("annotation", "returns")]
    for child in children:
        for part in child if isinstance(child, list) else [child]:
            if isinstance(part, ast.AST):
                yield from _strings(part)


@cache
def _is_path_of_code(text: str) -> bool:
    """Whether a module, or a name inside one, goes by this text: such paths follow the code."""
    if not DOTTED_PATH.fullmatch(text):
        return False
    path, _, attribute = text.partition(":")
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for name in [*parts[cut:], *attribute.split(".")] if attribute else parts[cut:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return cut > 1 or len(parts) == 1
    return False
