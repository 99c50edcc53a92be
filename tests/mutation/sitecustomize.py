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
import types
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
        if isinstance(sound, types.FunctionType) and not sound.__closure__:
            break_in_place(sound, broken(name, copy_of(sound), self.how))
        else:
            setattr(holder, name, broken(name, sound, self.how))


def copy_of(sound):
    copied = types.FunctionType(sound.__code__, sound.__globals__, sound.__name__, sound.__defaults__)
    copied.__kwdefaults__ = sound.__kwdefaults__
    return copied


def break_in_place(sound, instead):
    """Change the function itself: a table may hold it already, as that of the checks of a decision does."""
    sound.__globals__["_broken_on_purpose"] = instead

    def bridge(*args, **kwargs):
        return _broken_on_purpose(*args, **kwargs)  # noqa: F821 - a global of the module that is broken

    sound.__code__, sound.__defaults__, sound.__kwdefaults__ = bridge.__code__, None, None


if os.environ.get("GATEHOUSE_MUTATION"):
    sys.meta_path.insert(0, Mutant(os.environ["GATEHOUSE_MUTATION"]))
