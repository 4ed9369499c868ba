# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where tests copy sentences of the collection, instead of leaving them to ``wording("...")`` and ``make wording``."""

from __future__ import annotations

import ast
import functools
import re
import typing as t
from pathlib import Path

ROOT = Path(__file__).parents[2]
LENGTH = 5
"""So many words in sequence make a sentence that is copied, if most of them are words of prose."""

_DOCUMENTED = ("DOCUMENTATION", "EXAMPLES", "RETURN")


def messages() -> set[str]:
    """Return each sequence of five words in a text that the plugins and roles may print."""
    found: set[str] = set()
    for path in (ROOT / "plugins").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in _without_patterns(tree):
            found.update(*map(_sequences, _texts(node)))
    for path in (ROOT / "roles").glob("*/tasks/*.yml"):
        text = re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.M)
        for part in re.split(r"\{\{.*?\}\}|\{%.*?%\}|^\s*-? ?[\w.]+:", text, flags=re.S | re.M):
            found |= _sequences(part)
    return found


def copies(path: Path, known: set[str]) -> t.Iterator[str]:
    """Yield the place and the text of each sentence that an assertion of a test file copies."""
    for function in ast.parse(path.read_text()).body:
        if isinstance(function, ast.FunctionDef):
            asserted = list(_asserted(function))
            for node in [*asserted, *_compared_parameters(function, asserted)]:
                for literal in _outside_of_snapshots(node):
                    texts = _texts(literal)
                    if any(_sequences(text) & known for text in texts):
                        yield f"{path.relative_to(ROOT)}:{literal.lineno}: {' ... '.join(texts)[:80]!r}"


def _asserted(function: ast.FunctionDef) -> t.Iterator[ast.AST]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            yield node.test
        if isinstance(node, ast.keyword) and node.arg == "match":
            yield node.value


def _compared_parameters(function: ast.FunctionDef, asserted: list[ast.AST]) -> t.Iterator[ast.AST]:
    """Yield the values of parameters that an assertion compares. What a parameter passes to a call is an input."""
    compared = {name for node in asserted for name in _operands(node)}
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize":
            names = ast.literal_eval(decorator.args[0])
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            for row in getattr(decorator.args[1], "elts", []):
                cells = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [row])
                cells = cells if len(names) > 1 else [row]
                yield from (cell for name, cell in zip(names, cells) if name in compared)


def _operands(node: ast.AST) -> t.Iterator[str]:
    """Yield the names in an assertion that are no argument of a call."""
    if isinstance(node, ast.Name):
        yield node.id
    if not isinstance(node, ast.Call):
        for child in ast.iter_child_nodes(node):
            yield from _operands(child)


def _outside_of_snapshots(node: ast.AST) -> t.Iterator[ast.expr]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "wording":
        return
    if isinstance(node, ast.expr) and _texts(node):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _outside_of_snapshots(child)


def _without_patterns(tree: ast.AST) -> t.Iterator[ast.AST]:
    """Yield the nodes of a module but documentation, and regular expressions, which match other programs' texts."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not _is_no_message(node):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _is_no_message(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return any(ast.unparse(target) in _DOCUMENTED for target in node.targets)
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.")


def _texts(node: ast.AST) -> list[str]:
    """Return the text of a string, or the texts between the values of an f-string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
    return []


def _sequences(text: str) -> set[str]:
    words = [_word(word) for word in text.split()]
    sequences = [words[start : start + LENGTH] for start in range(len(words) - LENGTH + 1)]
    return {" ".join(word for word, _prose in each) for each in sequences if sum(prose for _word, prose in each) > 2}


@functools.cache
def _word(text: str) -> tuple[str, bool]:
    """Return a word without the punctuation around it, and whether it is a word of prose."""
    word = re.sub(r"^\W+|\W+$", "", text).lower()
    return word, bool(re.fullmatch(r"[a-z'-]{2,}", word))
