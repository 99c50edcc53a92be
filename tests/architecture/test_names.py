"""Modules, classes and variables are named by the words of the field (docs/glossary.md)."""

import ast
import re
from pathlib import PurePosixPath

import pytest

from tests.architecture.source import Module, modules

pytestmark = pytest.mark.capability("OPS-02")
#: The apps whose names have been settled.
SETTLED = {"common", "nhi", "mcp"}
#: Packages whose names follow with the console.
LATER = {"admin", "api", "console", "management"}
#: Participles that name no thing: a variable is the row, the reason, the response.
VAGUE = frozenset({
    "said", "told", "found", "given", "shown", "kept", "held", "asked", "named", "known", "seen", "taken", "heard",
    "begun", "began", "made", "left", "ended", "wanted",
})  # fmt: skip
#: Pictures of a thing in place of its name.
PICTURES = frozenset({
    "clerk", "desk", "purse", "purses", "wish", "wishes", "office", "nursery", "keeper", "doorway", "letter", "letters",
    "rooms", "room", "visit", "visits", "turns", "errands", "leash", "pens", "pulse", "greeting", "speech", "house",
    "door", "flights", "flight", "tellers", "lack", "behind", "standing", "parcel", "tally", "tallies", "happenings",
    "surroundings", "looks", "whereabouts", "eyes", "trouble", "troubles", "news",
})  # fmt: skip
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[A-Z]+$")
MAX_MODULES_IN_A_FOLDER = 15


def settled_modules() -> list[Module]:
    return [module for module in modules() if module.app in SETTLED and not LATER & set(module.path.split("/")[1:-1])]


def test_the_apps_are_there() -> None:
    assert len(settled_modules()) > 150


@pytest.mark.parametrize("module", settled_modules(), ids=str)
def test_no_variable_is_a_bare_participle(module: Module) -> None:
    identifiers = (
        (node, getattr(node, "id", "") or getattr(node, "attr", "") or getattr(node, "arg", ""))
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.Attribute | ast.arg)
    )
    assert [f"{module.place(node)} {name}" for node, name in identifiers if name in VAGUE] == []


@pytest.mark.parametrize("module", settled_modules(), ids=str)
def test_no_module_and_no_class_is_a_picture(module: Module) -> None:
    in_path = {word for part in PurePosixPath(module.path).with_suffix("").parts for word in part.split("_")}
    classes = [node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    in_classes = {word.lower() for name in classes for word in WORD.findall(name)}
    assert not PICTURES & (in_path | in_classes)


@pytest.mark.parametrize("app", sorted(SETTLED))
def test_a_class_name_means_one_class_in_an_app(app: str) -> None:
    names = [
        node.name
        for module in settled_modules()
        if module.app == app
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and node.name not in {"Meta", "Command", "Media"}
    ]
    assert {name for name in names if names.count(name) > 1} == set()


def test_a_folder_shows_what_it_holds() -> None:
    folders: dict[str, int] = {}
    for module in settled_modules():
        path = PurePosixPath(module.path)
        if path.name != "__init__.py":
            folders[str(path.parent)] = folders.get(str(path.parent), 0) + 1
    assert {folder: count for folder, count in folders.items() if count > MAX_MODULES_IN_A_FOLDER} == {}
