"""Loaded by every Python that has this folder on its path: breaks one attribute, named by GATEHOUSE_MUTATION.

`package.module:attribute = raise | allow | return <literal>`. The module is changed right after it has run, before
anybody can import the sound attribute from it.
"""

import ast
import functools
import importlib.abc
import importlib.machinery
import os
import sys
from dataclasses import is_dataclass, replace


def broken(name, sound, how):
    """The attribute as it would be if somebody had broken it."""

    def call(*args, **kwargs):
        if how == "raise":
            raise RuntimeError(f"{name} is broken on purpose")
        if how == "allow":
            return allowed(sound(*args, **kwargs))
        return ast.literal_eval(how.removeprefix("return "))

    if isinstance(sound, property):
        return property(call)
    return functools.wraps(sound)(call)


def allowed(result):
    """A check that passes whatever it saw, or a decision that allows."""
    assert is_dataclass(result)
    if hasattr(result, "outcome"):
        return replace(result, outcome="pass", reason="")
    return replace(result, verdict=type(result.verdict)("allow"))


class Mutant(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, mutation):
        target, _, self.how = (part.strip() for part in mutation.partition("="))
        self.module, _, self.path = target.partition(":")

    def find_spec(self, name, path, target=None):
        if name != self.module:
            return None
        self.real = importlib.machinery.PathFinder.find_spec(name, path, target)
        spec = importlib.machinery.ModuleSpec(name, self, origin=self.real.origin, is_package=False)
        spec.has_location = True
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.real.loader.exec_module(module)
        *way, name = self.path.split(".")
        holder = functools.reduce(getattr, way, module)
        sound = vars(holder)[name]
        setattr(holder, name, broken(name, sound, self.how))


if os.environ.get("GATEHOUSE_MUTATION"):
    sys.meta_path.insert(0, Mutant(os.environ["GATEHOUSE_MUTATION"]))
