#!/usr/bin/env python3
"""An agent that speaks JSON-RPC over standard input and output, a message a line: it works out what is asked.

    {"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"input": "2 * (n + 4)", "parameters": {"n": 3}}}
    {"jsonrpc": "2.0", "id": 1, "result": 14}

It reads the expression as a tree and knows what each part means, so that an expression can do nothing but arithmetic.
"""

import ast
import json
import math
import operator
import sys
from typing import Any

LONGEST = 200
#: Without powers: a few characters of them keep a machine busy for days.
TWO = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
ONE = {ast.UAdd: operator.pos, ast.USub: operator.neg}


class Refused(Exception):
    """A JSON-RPC error: its code, and a sentence."""


def value(node: ast.AST, names: dict[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if type(names.get(name)) in {int, float}:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in TWO:
            return TWO[type(op)](value(left, names), value(right, names))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in ONE:
            return ONE[type(op)](value(operand, names))
    raise Refused(-32602, "Use numbers, + - * / // %, parentheses, and the names of parameters that are numbers.")


def execute(params: Any) -> Any:
    match params:
        case {"input": str(text)} if 0 < len(text) <= LONGEST:
            names = params.get("parameters") or {}
        case _:
            raise Refused(-32602, f"Give an input: an expression of at most {LONGEST} characters.")
    try:
        found = value(ast.parse(text.strip(), mode="eval").body, names if isinstance(names, dict) else {})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Refused(-32602, "This is no expression; write one like 2 * (3 + 4).") from None
    except ArithmeticError as error:
        raise Refused(-32000, f"This has no result: {error}.") from None
    if not math.isfinite(found):
        raise Refused(-32000, "This has no result: it is too large.")
    return found


def answer(line: bytes) -> dict[str, Any] | None:
    """The reply to one message, or None for one that wants no reply."""
    asked: Any = None
    try:
        asked = json.loads(line)
        match asked:
            case {"jsonrpc": "2.0", "method": "execute"}:
                reply = {"result": execute(asked.get("params"))}
            case {"jsonrpc": "2.0", "method": str()}:
                raise Refused(-32601, "There is one method: execute.")
            case _:
                raise Refused(-32600, "This is no JSON-RPC request.")
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        reply = {"error": {"code": -32700, "message": "This is no JSON."}}
    except Refused as refused:
        code, message = refused.args
        reply = {"error": {"code": code, "message": message}}
    if isinstance(asked, dict) and "method" in asked and "id" not in asked:
        return None
    return {"jsonrpc": "2.0", "id": asked.get("id") if isinstance(asked, dict) else None, **reply}


def main() -> None:
    for line in filter(bytes.strip, sys.stdin.buffer):
        reply = answer(line)
        if reply is not None:
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
