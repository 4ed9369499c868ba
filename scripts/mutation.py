#!/usr/bin/env python3
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change the logic of the pure cores in small ways, and print how many of the changes their unit tests notice.

`make mutation` runs it. cosmic-ray makes the changes in copies of the working tree, so the tree itself stays as it is.
Text, tables and type annotations are left alone: `[tool.mutation]` in pyproject.toml names the cores and the changes.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import fnmatch
import itertools
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tomllib
import typing as t
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "mutation"
SETTINGS: dict[str, t.Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutation"]
Place = tuple[int, int]


@dataclass(frozen=True, order=True)
class Mutant:
    """One change: where, by which operator of cosmic-ray, and which of all that it can make in the file."""

    place: Place
    operator: str
    occurrence: int


@dataclass(frozen=True)
class Score:
    """What the tests of one core noticed."""

    core: str
    caught: int
    survivors: tuple[str, ...]

    @property
    def mutants(self) -> int:
        """The number of changes."""
        return self.caught + len(self.survivors)

    @property
    def package(self) -> str:
        """The folder of the core, and the one above if there is one below module_utils: _cluster/mig, _rollout."""
        kind, *folders = Path(self.core).parts[1:-1]
        return "/".join(folders[:2]) or kind


def main() -> int:
    """Test the cores that are named, or all. Return 1 if fewer changes are noticed than the settings demand."""
    parser = argparse.ArgumentParser(description="Measure how many changes of the logic the unit tests notice.")
    parser.add_argument("cores", nargs="*", help="files of module_utils (default: all in pyproject.toml)")
    parser.add_argument("--sample", type=int, metavar="N", help="make at most N changes of each core, always the same")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cores to test at a time")
    given = parser.parse_args()
    cores = [str(Path(name).resolve().relative_to(ROOT)) for name in given.cores] or all_cores()
    runners: queue.Queue[Runner] = queue.Queue()
    for number in range(min(given.jobs, len(cores))):
        runners.put(Runner(copy_tree(BUILD / f"tree-{number}")))
    with concurrent.futures.ThreadPoolExecutor(runners.qsize()) as pool:
        scores = list(pool.map(lambda core: _in_turn(runners, core, given.sample), cores))
    return summary(scores, given.sample)


def all_cores() -> list[str]:
    """Return the files that the settings name."""
    return [name for pattern in SETTINGS["cores"] for name in _spelled_out(pattern)]


def _spelled_out(pattern: str) -> list[str]:
    """Return a/b.py and a/c.py for a/{b,c}.py."""
    match = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    return [f"{match[1]}{name}{match[3]}" for name in match[2].split(",")] if match else [pattern]


def summary(scores: list[Score], sample: int | None) -> int:
    """Print the sums, and return the exit status."""
    for package, group in itertools.groupby(sorted(scores, key=lambda each: each.package), lambda each: each.package):
        of_it = list(group)
        print(f"{package}: {sum(each.caught for each in of_it)} of {sum(each.mutants for each in of_it)}")
    caught, mutants = sum(score.caught for score in scores), sum(score.mutants for score in scores)
    percent = 100 * caught / mutants if mutants else 100.0
    least = SETTINGS["least_percent"]
    what = "changes of the logic" if sample is None else f"sampled changes of the logic (at most {sample} of a core)"
    print(f"{caught} of {mutants} {what} are noticed: {percent:.1f} % (at least {least} %).")
    return int(percent < least)


def copy_tree(tree: Path) -> Path:
    """Copy the files of the working tree, and link the collections of .venv beside them."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    theirs, ours = ROOT / ".venv/share/ansible_collections", tree / ".venv/share/ansible_collections"
    (ours / "gpuops").mkdir(parents=True)
    (ours / "gpuops" / "nvidia").symlink_to(tree)
    for folder in theirs.iterdir():
        if folder.name != "gpuops":
            (ours / folder.name).symlink_to(folder)
    return tree


def _in_turn(runners: queue.Queue[Runner], core: str, sample: int | None) -> Score:
    runner = runners.get()
    try:
        score = measure(runner, core, sample)
    finally:
        runners.put(runner)
    print(f"{core}: {score.caught} of {score.mutants}", *score.survivors, sep="\n  ", flush=True)
    return score


def measure(runner: Runner, core: str, sample: int | None) -> Score:
    """Make the changes of one core, and run its tests each time."""
    path, tests, survivors = runner.tree / core, tests_of(core), []
    source, status = path.read_text(), path.stat()
    mutants = _sampled(logic_mutants(source), sample, seed=core)
    if not runner.passes(tests):
        raise SystemExit(f"The tests of {core} fail without a change:\n{runner.output()}")
    for mutant in mutants:
        changed = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
        path.write_text(changed)
        if runner.passes(tests):
            survivors.append(_line(core, mutant, source, changed))
    path.write_text(source)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # so that its bytecode is not compiled again
    return Score(core, len(mutants) - len(survivors), tuple(survivors))


class Runner:
    """A copy of the tree, and a process that runs its unit tests and has loaded all but the plugins."""

    def __init__(self, tree: Path) -> None:
        """Start the process, which ends with this one."""
        self.tree = tree
        self._log = tree.with_suffix(".log")
        self._process = subprocess.Popen(
            [str(ROOT / ".venv/bin/python"), str(tree / "scripts/warm_tests.py"), str(self._log)],
            cwd=tree, env=_environment(tree), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def passes(self, tests: list[str]) -> bool:
        """Return whether these test files pass on the tree as it is."""
        stdin, stdout = t.cast(t.TextIO, self._process.stdin), t.cast(t.TextIO, self._process.stdout)
        print(json.dumps(tests), file=stdin, flush=True)
        outcome = stdout.readline()
        if not outcome:
            raise SystemExit(f"The tests cannot be loaded:\n{self.output()}")
        return outcome == "passed\n"

    def output(self) -> str:
        """Return the end of what the tests printed last."""
        return self._log.read_text(errors="replace")[-4000:]


def tests_of(core: str) -> list[str]:
    """Return the unit test file of a core, and those that the settings add."""
    path = Path(core)
    own = Path("tests/unit") / path.parent / f"test_{path.name.lstrip('_')}"
    more = (tests for pattern, tests in SETTINGS["more_tests"].items() if fnmatch.fnmatch(core, pattern))
    return list(dict.fromkeys([str(own), *itertools.chain.from_iterable(more)]))


def _environment(tree: Path) -> dict[str, str]:
    # CI: hypothesis then tries the same examples in each run.
    return {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(tree / ".venv/share"), "CI": "1"}


# ---- which changes concern the logic --------------------------------------------------------------------------------


def logic_mutants(source: str) -> list[Mutant]:
    """Return the changes that concern the logic, in the order of their places."""
    module, parsed = ast.parse(source), get_ast(source)
    left_out, functions = _spans([*_annotations(module), *_texts(module)]), _spans(_functions(module))
    return sorted(
        mutant
        for name in operator_names()
        if any(re.fullmatch(pattern, name) for pattern in SETTINGS["operators"])
        for mutant in _mutants(parsed, name)
        if _within(mutant.place, functions) and not _within(mutant.place, left_out)
    )


def _mutants(parsed: t.Any, operator: str) -> t.Iterator[Mutant]:
    positions = get_operator(operator)().mutation_positions
    places = (start for node in ast_nodes(parsed) for start, _end in positions(node))
    return (Mutant(place, operator, occurrence) for occurrence, place in enumerate(places))


def _within(place: Place, spans: list[tuple[Place, Place]]) -> bool:
    return any(start <= place < end for start, end in spans)


def _sampled(mutants: list[Mutant], sample: int | None, seed: str) -> list[Mutant]:
    """Return that many changes, chosen at random. The same seed chooses the same ones."""
    if sample is None or sample >= len(mutants):
        return mutants
    return sorted(random.Random(seed).sample(mutants, sample))  # noqa: S311 - nothing secret


def _texts(module: ast.Module) -> t.Iterator[ast.expr]:
    """Yield the texts with values in them: they are messages, as a rule."""
    yield from (node for node in ast.walk(module) if isinstance(node, ast.JoinedStr))


def _annotations(module: ast.Module) -> t.Iterator[ast.expr]:
    for node in ast.walk(module):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def _functions(module: ast.Module) -> t.Iterator[ast.stmt]:
    """Yield the statements of all functions, without their decorators and parameters."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from node.body


def _spans(nodes: t.Iterable[ast.expr | ast.stmt]) -> list[tuple[Place, Place]]:
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)) for node in nodes
    ]


def _line(core: str, mutant: Mutant, source: str, changed: str) -> str:
    """Return the place of a change, what kind it is, and the line that it made."""
    before = source.splitlines()
    line = next((new for number, new in enumerate(changed.splitlines()) if new not in before[number : number + 1]), "")
    return f"{core}:{mutant.place[0]}: {mutant.operator.removeprefix('core/')}: {line.strip()}"


if __name__ == "__main__":
    sys.exit(main())
