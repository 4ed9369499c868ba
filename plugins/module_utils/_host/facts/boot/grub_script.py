# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The syntax of GRUB's scripts: a grub.cfg as commands, conditions and blocks.

It follows the chapter "Writing full configuration files directly" of GRUB's manual.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t


class ScriptError(Exception):
    """The text is not a script that this module understands."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A piece of a word: a text, or the name of a variable. Only an unquoted variable is split at white space."""

    text: str
    is_variable: bool = False
    quoted: bool = False


Word = tuple[Part, ...]


@dataclasses.dataclass(frozen=True)
class Command:
    """A command with its words, and the block between braces after them if there is one.

    ``origin`` is the script of grub-mkconfig that wrote it, by the comments around the script's output.
    """

    words: tuple[Word, ...]
    block: tuple[Statement, ...] | None = None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class Condition:
    """An if with its branches. Each has the commands of its condition, which are empty for an else, and its body."""

    branches: tuple[tuple[tuple[Statement, ...], tuple[Statement, ...]], ...]


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop. ``words`` are the name of its variable and the values, or empty if a condition ends the loop."""

    words: tuple[Word, ...]
    body: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True)
class Function:
    """The definition of a function."""

    name: str
    body: tuple[Statement, ...]


Statement = t.Union["Command", "Condition", "Loop", "Function"]
Block = tuple[Statement, ...]

_END = ";"
_MAXIMUM_DEPTH = 40
_SEPARATE = re.compile(
    r"""
    (?P<blank>(?:[ \t\r]|\\\n)+)
    | (?P<comment>\#[^\n]*)
    | (?P<end>[\n;])
    | (?P<brace>[{}])
    | (?P<word>(?:\\. | '[^']*' | "(?:\\.|[^"\\])*" | \$\{[^}\s]*\} | [^\s;'"\\{}])+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ORIGIN = re.compile(r"### (?P<edge>BEGIN|END) (?P<script>\S+) ###")
_VARIABLE = r"\$\{(?P<braced>[^}\s]+)\}|\$(?P<plain>[A-Za-z_]\w*|[0-9]+|[@*#?])"
_PART = re.compile(
    r"\\(?P<escaped>.)|'(?P<single>[^']*)'|\"(?P<double>(?:\\.|[^\"\\])*)\"|" + _VARIABLE + r"|(?P<text>[^\\'\"$]+)",
    re.DOTALL,
)
_INNER = re.compile(r"\\(?P<escaped>[$\"\\])|(?P<joined>\\\n)|" + _VARIABLE + r"|(?P<text>[^\\$]+|\\)", re.DOTALL)


def parse(text: str) -> Block:
    """Return the statements of a script."""
    parser = _Parser(list(_tokens(text)))
    statements = parser.statements(())
    parser.expect_end()
    return statements


@dataclasses.dataclass(frozen=True)
class _Token:
    """A word, or the end of a command. ``raw`` is its text with the quotation marks."""

    raw: str
    word: Word = ()
    origin: str = ""


def _tokens(text: str) -> t.Iterator[_Token]:
    position, origin = 0, ""
    while position < len(text):
        match = _SEPARATE.match(text, position)
        if match is None:
            raise ScriptError("a quotation mark is not closed")
        position = match.end()
        if match["end"]:
            yield _Token(_END)
        elif match["comment"]:
            mark = _ORIGIN.match(match["comment"])
            if mark:
                origin = mark["script"] if mark["edge"] == "BEGIN" else ""
        elif match["brace"] or match["word"]:
            raw = match.group()
            yield _Token(raw, tuple(_parts(raw)), origin)


def _pieces(pattern: re.Pattern[str], text: str) -> t.Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            raise ScriptError("a dollar sign has no variable")
        position = match.end()
        yield match


def _parts(raw: str) -> t.Iterator[Part]:
    for match in _pieces(_PART, raw):
        name = match["braced"] or match["plain"]
        if name:
            yield Part(name, is_variable=True)
        elif match["double"] is not None:
            yield from _parts_in_quotes(match["double"])
        elif match["single"] is not None:
            yield Part(match["single"], quoted=True)
        else:
            yield Part(match["escaped"] or match["text"])


def _parts_in_quotes(text: str) -> t.Iterator[Part]:
    # An empty part, because "" is a word, too.
    yield Part("", quoted=True)
    for match in _pieces(_INNER, text):
        name = match["braced"] or match["plain"]
        if name:
            yield Part(name, is_variable=True, quoted=True)
        elif not match["joined"]:
            yield Part(match["escaped"] or match["text"], quoted=True)


class _Parser:
    """A parser by recursive descent. Keywords count only where a command begins, as in GRUB."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    @property
    def _next(self) -> str | None:
        return self._tokens[self._position].raw if self._position < len(self._tokens) else None

    def expect_end(self) -> None:
        """Raise if something is left, such as a ``fi`` without an ``if``."""
        if self._next is not None:
            raise ScriptError(f"{self._next} has no beginning")

    def statements(self, ends: t.Collection[str]) -> Block:
        """Read statements up to one of these keywords, and leave the keyword."""
        self._depth += 1
        if self._depth > _MAXIMUM_DEPTH:
            raise ScriptError("it is nested too deeply")
        found: list[Statement] = []
        while self._next is not None and self._next not in ends:
            if self._next == _END:
                self._position += 1
            elif self._next in _CLOSING:
                raise ScriptError(f"{self._next} is in the wrong place")
            else:
                found.append(self._statement())
        self._depth -= 1
        return tuple(found)

    def _statement(self) -> Statement:
        readers: dict[str | None, t.Callable[[], Statement]] = {
            "if": self._if,
            "while": self._while,
            "until": self._while,
            "for": self._for,
            "function": self._function,
        }
        return readers.get(self._next, self._command)()

    def _take(self, keyword: str) -> None:
        while self._next == _END and keyword != _END:
            self._position += 1
        if self._next != keyword:
            raise ScriptError(f"there is no {keyword}")
        self._position += 1

    def _words(self) -> tuple[Word, ...]:
        start = self._position
        while self._next not in (None, _END, "{", "}"):
            self._position += 1
        return tuple(token.word for token in self._tokens[start : self._position])

    def _block(self) -> Block:
        self._take("{")
        statements = self.statements(("}",))
        self._take("}")
        return statements

    def _command(self) -> Command:
        if self._next == "{":
            raise ScriptError("a block has no command")
        origin = self._tokens[self._position].origin
        words = self._words()
        return Command(words, self._block() if self._next == "{" else None, origin)

    def _if(self) -> Condition:
        branches = []
        while self._next in ("if", "elif"):
            self._position += 1
            tests = self.statements(("then",))
            self._take("then")
            branches.append((tests, self.statements(("elif", "else", "fi"))))
        if self._next == "else":
            self._position += 1
            branches.append(((), self.statements(("fi",))))
        self._take("fi")
        return Condition(tuple(branches))

    def _while(self) -> Loop:
        self._position += 1
        tests = self.statements(("do",))
        return Loop((), (*tests, *self._body()))

    def _for(self) -> Loop:
        self._position += 1
        words = self._words()
        return Loop(words, self._body())

    def _body(self) -> Block:
        self._take("do")
        statements = self.statements(("done",))
        self._take("done")
        return statements

    def _function(self) -> Function:
        self._position += 1
        words = self._words()
        name = "".join(part.text for part in words[0]) if words else ""
        while self._next == _END:
            self._position += 1
        return Function(name, self._block())


_CLOSING = ("then", "elif", "else", "fi", "do", "done", "}")
