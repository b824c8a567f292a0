"""Kernels that count what they do, made from the sources of those that do not.

Timings decide no test, so what an input costs is counted: every turn of every loop of the kernels that turn
values into codes and codes into ids. That is every byte hashed or compared, every step of the automaton and
of a LIKE, every list, cell and filter looked at, and every id found. The sources are read, each function
gets one argument more, `turns`, and each loop a first statement that adds one to it; so what is counted is
what runs, and what runs otherwise pays nothing for it.

What NumPy does in one call is not counted: growing the room for results, and the letters of a stretch of a
LIKE pattern (at most 1,024).
"""

import ast
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.matching.matcher import Matcher

_KERNELS = "penstock.matching.kernels."
_DECORATORS = {"kernel", "inlined", "leaf", "outlined"}
_TURN = "turns[0] += 1"


class _Counting(ast.NodeTransformer):
    """Passes `turns` on from function to function, and counts in loops."""

    def __init__(self, functions: set[str]) -> None:
        self.functions = functions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.name in self.functions:
            node.args.args.append(ast.arg("turns"))
            node.returns = None
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self.functions:
            node.args.append(ast.Name("turns", ast.Load()))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._visit_loop(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._visit_loop(node)

    def _visit_loop(self, node: ast.For | ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body = [*ast.parse(_TURN).body, *node.body]
        return node


def _is_kernel(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(decorator, ast.Name) and decorator.id in _DECORATORS for decorator in node.decorator_list
    )


@cache
def counting_kernels(module: str) -> dict[str, Callable[..., Any]]:
    """The functions of a module of kernels, each with the argument `turns` more."""
    source = Path(str(importlib.import_module(module).__file__))
    tree = ast.parse(source.read_text())
    counting: dict[str, Callable[..., Any]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(_KERNELS):
            if node.module == f"{_KERNELS}jit":
                continue
            known = counting_kernels(str(node.module))
            counting |= {alias.name: known[alias.name] for alias in node.names if alias.name in known}
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)}
    # What is defined here comes after what is imported: the originals are replaced by what counts.
    last = max(i for i, node in enumerate(tree.body) if isinstance(node, ast.Import | ast.ImportFrom))
    imports = ast.Module(tree.body[: last + 1], [])
    rest = _Counting(own | set(counting)).visit(ast.Module(tree.body[last + 1 :], []))
    ast.fix_missing_locations(rest)
    space: dict[str, Any] = {"__name__": f"counting.{module}"}
    exec(compile(imports, str(source), "exec"), space)  # noqa: S102 - our own sources
    space |= counting
    # Not cached: Numba would keep them under the names of the originals.
    space["kernel"] = space["leaf"] = space["outlined"] = numba.njit(nogil=True, error_model="numpy")
    space["inlined"] = numba.njit(nogil=True, error_model="numpy", inline="always")
    exec(compile(rest, f"<counting {source.name}>", "exec"), space)  # noqa: S102
    return {name: space[name] for name in own}


@contextmanager
def counted() -> Iterator[NDArray[np.int64]]:
    """While this lasts, matching adds to the number in the array."""
    turns = np.zeros(1, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("resolve", "match"):
            kernel = counting_kernels(f"{_KERNELS}{name}")[name]

            def counting(*arguments: Any, kernel: Callable[..., Any] = kernel) -> Any:
                return kernel(*arguments, turns)

            patch.setattr(f"penstock.matching.parts.{name}", counting)
        yield turns


def size_of(event: dict[str, object]) -> int:
    """How much an event gives to do: its attributes, and the bytes of its texts."""
    return sum(1 + (len(value.encode()) if isinstance(value, str) else 0) for value in event.values())


def work_of(engine: Matcher, events: list[dict[str, object]]) -> list[float]:
    """For each event the turns of loops for each of its attributes, bytes of text and ids found."""
    shares = []
    with counted() as turns:
        for event in events:
            turns[0] = 0
            found = engine.match_batch([event])
            shares.append(int(turns[0]) / (size_of(event) + len(found.numbers)))
    return shares
