"""Imports point one way, at the top of a module, by name."""

import ast
import subprocess
import tomllib

import pytest

from tests.architecture.source import APPS, ROOT, modules

pytestmark = pytest.mark.capability("OPS-02")


def test_the_layers_hold_and_nothing_is_excepted() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {contract["type"] for contract in contracts} == {"layers"}
    assert not [
        name
        for contract in contracts
        for name in contract
        if name in {"ignore_imports", "unmatched_ignore_imports_alerting"}
    ]
    command = [str(ROOT / ".venv" / "bin" / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_module_of_nhi_has_a_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    inside = next(contract for contract in contracts if contract.get("containers") == ["nhi"])
    assert inside["exhaustive"] is True
    assert inside["exhaustive_ignores"] == ["migrations"]


def test_no_higher_app_is_imported_in_a_function_or_by_a_string() -> None:
    wrong = []
    for module in modules():
        app = module.path.partition("/")[0]
        above = APPS[: APPS.index(app)]
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                )
                wrong += [module.place(node) for name in names if name.partition(".")[0] in above]
            if isinstance(node, ast.Call) and ast.unparse(node.func) in BY_STRING:
                wrong += [module.place(node) for name in strings(node) if name.partition(".")[0] in above]
    assert not wrong


#: Ways to import by a string. The wiring app may use them for its own modules.
BY_STRING = {"import_module", "importlib.import_module", "import_string", "__import__"}


def strings(node: ast.AST) -> list[str]:
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_no_model_is_looked_up_by_its_name() -> None:
    wrong = [
        module.place(node)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        if ast.unparse(node.func) in {"apps.get_model", "get_model", "django.apps.apps.get_model"}
    ]
    assert not wrong


def test_the_protocol_of_decisions_is_pure() -> None:
    """No database, no settings, no request: `decide` and what it calls."""
    pure = ("nhi/decisions/", "nhi/choices.py", "common/canonical_json.py")
    wrong = [
        module.place(node)
        for module in modules()
        if module.path.startswith(pure)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("django")
        if {alias.name for alias in node.names} != {"TextChoices"}
    ]
    assert not wrong


def test_no_drawer_for_odds_and_ends() -> None:
    odd = {"utils.py", "helpers.py", "services.py", "misc.py", "util.py"}
    assert not [module.path for module in modules() if module.path.rpartition("/")[2] in odd]
