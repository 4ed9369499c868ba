# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Count the sentences that say what does not happen, and find worn phrases.

A sentence counts if it contains one of the WORDS outside of code. The exit status is 1 if their share in the
documentation for users exceeds LIMIT, or if that documentation contains one of the PHRASES. With --list, each such
sentence is printed.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
LIMIT = 0.02
WORDS = re.compile(r"\b(nothing|nobody|never|none|nowhere|no one)\b", re.I)
PHRASES = re.compile(
    r"\b(anew|at work|comes? along|goes on|go on with|is due|lets go|let go of|(?:been|is|are) begun|for ever)\b", re.I
)
USER_KINDS = ("pages", "roles", "modules")
"""The kinds of text that make up the documentation for users."""
SHORTEST = 4
"""A piece of text with fewer words is a name or a value."""
WORST = 8
"""How many files are named."""

_CODE = re.compile(r"`[^`]*`|\b(?:C|O|V|RV|E|M|P|EM)\((?:[^()]|\([^()]*\))*\)|(?<=[\w,;:(] )None\b|\(None\b")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)|<https?://[^>]*>")
_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)[)\"*]*\s+(?=[\"(*]*[A-Z])")
_MARKER = re.compile(r"^\s*(?:[-*+]|\d+\.|>|#+)\s+")

Text = t.Iterator[str]


class Count(t.NamedTuple):
    """The sentences of a file."""

    kind: str
    path: str
    sentences: list[str]

    @property
    def negative(self) -> list[str]:
        return [sentence for sentence in self.sentences if WORDS.search(sentence)]

    @property
    def worn(self) -> list[str]:
        return [sentence for sentence in self.sentences if PHRASES.search(sentence)]


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph, without its code."""
    plain = _CODE.sub("X", _LINK.sub(r"\1", " ".join(text.split())))
    return [piece for piece in _END.split(plain) if len(piece.split()) >= SHORTEST]


# ---- what the paragraphs of a file are -------------------------------------------------------------------------


def markdown(text: str) -> Text:
    """Yield the paragraphs, list items and table cells of a page."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.S | re.M)
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("|"):
            yield from line.replace("\\|", "/").strip().strip("|").split("|")
            continue
        if not line.strip() or _MARKER.match(line):
            yield " ".join(paragraph)
            paragraph = []
        paragraph.append(_MARKER.sub("", line, count=1))
    yield " ".join(paragraph)


def described(value: t.Any) -> Text:
    """Yield the descriptions in a specification or in the documentation of a plugin."""
    if isinstance(value, list):
        for item in value:
            yield from described(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("description", "short_description", "notes", "exports", "title", "about", "why"):
                yield from strings(item)
            yield from described(item)


def strings(value: t.Any) -> Text:
    """Yield the texts in a description, which is a text, a list or a dictionary of texts."""
    if isinstance(value, str):
        yield from value.split("\n\n")
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, str):
                yield from strings(item)


def load(text: str) -> t.Any:
    """Return the content of a document in YAML."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506


def specification(text: str) -> Text:
    """Yield the descriptions in a file of YAML."""
    return described(load(text))


def plugin(text: str) -> Text:
    """Yield the descriptions in the documentation of a plugin or of a fragment."""
    for documentation in re.findall(r'^ *(?:DOCUMENTATION|RETURN|[A-Z_]+) = r"""\n(.*?)^ *"""', text, re.M | re.S):
        try:
            yield from described(load(documentation))
        except yaml.YAMLError:
            continue  # examples with more than one document


def fragment(text: str) -> Text:
    """Yield the entries of a changelog fragment."""
    return strings([entry for entries in load(text).values() for entry in entries])


def docstrings(text: str) -> Text:
    """Yield the docstrings and comments of a Python file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from node.value.value.split("\n\n")
    yield from comments(text)


def comments(text: str) -> Text:
    """Yield the comments of a file. Those on lines that follow each other are one."""
    comment: list[str] = []
    for line in [*text.splitlines(), ""]:
        found = re.match(r"\s*# (.*)|.*\S  # (.*)", line)
        if found and not re.search(r"SPDX|Copyright|GNU General|----|noqa|pylint|type: ignore", line):
            comment.append(found[1] or found[2])
        elif comment:
            yield " ".join(comment)
            comment = []


def messages(text: str) -> Text:
    """Yield the texts in Python code that are neither docstrings nor the documentation of a plugin."""
    tree = ast.parse(text)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    skipped |= {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(value.value) if isinstance(value, ast.Constant) else "X" for value in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield from [node.value] if "\n" not in node.value else []


SOURCES: tuple[tuple[str, str, t.Callable[[str], Text]], ...] = (
    ("pages", r"(?:docs/.*|README|SECURITY|examples/.*README)\.md", markdown),
    ("roles", r"(?:roles/\w+|playbooks)/meta/(?:argument_specs|readme)\.yml", specification),
    ("modules", r"plugins/(?:modules|filter|inventory|doc_fragments)/.*\.py", plugin),
    ("changelog", r"changelogs/fragments/.*\.yml", fragment),
    ("for contributors", r"(?:CONTRIBUTING|RELEASING|STYLE|(?:benchmarks|lab|molecule)/.*README)\.md", markdown),
    ("comments", r"(?:plugins|lab|scripts)/.*\.py", docstrings),
    ("comments", r"(?:roles|playbooks)/.*\.yml", comments),
    ("messages", r"plugins/.*\.py", messages),
)
"""Each kind of text, the paths of its files, and what yields its paragraphs."""


# ---- the measurement -------------------------------------------------------------------------------------------


def measure(root: Path, paths: t.Sequence[str], kinds: t.Sequence[str] = ()) -> list[Count]:
    """Return the sentences of each file, by the kind of text. Without kinds, return those of all kinds."""
    return [
        Count(kind, path, [found for paragraph in read((root / path).read_text()) for found in sentences(paragraph)])
        for kind, pattern, read in SOURCES
        for path in paths
        if re.fullmatch(pattern, path) and (not kinds or kind in kinds)
    ]


def share(counts: t.Sequence[Count]) -> float:
    """Return which part of the sentences is negative."""
    total = sum(len(count.sentences) for count in counts)
    return sum(len(count.negative) for count in counts) / total if total else 0.0


def for_users(counts: t.Sequence[Count]) -> list[Count]:
    """Return the documentation for users."""
    return [count for count in counts if count.kind in USER_KINDS]


def table(counts: t.Sequence[Count]) -> Text:
    """Yield a line for each kind of text, and one for all of the documentation for users."""
    kinds = dict.fromkeys(kind for kind, _, _ in SOURCES)
    groups = {kind: [count for count in counts if count.kind == kind] for kind in kinds}
    for name, group in {**groups, "all for users": for_users(counts)}.items():
        negative, total = sum(len(count.negative) for count in group), sum(len(count.sentences) for count in group)
        yield f"{name:17} {negative:4} of {total:5} sentences, {100 * share(group):4.1f} %"


def worst(counts: t.Sequence[Count]) -> Text:
    """Yield the files with the most negative sentences."""
    for count in sorted(counts, key=lambda count: -len(count.negative))[:WORST]:
        if count.negative:
            yield f"  {len(count.negative):3} of {len(count.sentences):4}  {count.path}"


def listed(counts: t.Sequence[Count]) -> Text:
    """Yield each negative sentence and each one with a worn phrase."""
    for count in counts:
        yield from (f"{count.path}: {sentence}" for sentence in dict.fromkeys([*count.negative, *count.worn]))


def problems(counts: t.Sequence[Count]) -> list[str]:
    """Return what the documentation for users has to change."""
    users = for_users(counts)
    found = [f"{count.path}: worn phrase in: {sentence}" for count in users for sentence in count.worn]
    if share(users) > LIMIT:
        found.append(f"{100 * share(users):.1f} % of the sentences for users are negative, above {100 * LIMIT:.0f} %.")
    return found


def tracked() -> list[str]:
    """Return the paths of the files in git."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in run.stdout.split("\0") if path and (ROOT / path).is_file()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print each negative sentence")
    parser.add_argument("paths", nargs="*", help="files to read, relative to the project (default: all)")
    args = parser.parse_args()
    counts = measure(ROOT, args.paths or tracked())
    print(*(listed(counts) if args.list else (*table(counts), "", *worst(counts))), sep="\n")
    found = problems(counts)
    print(*found, sep="\n", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
