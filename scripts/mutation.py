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
import time
import tomllib
import typing as t
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "mutation"
SETTINGS: dict[str, t.Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutation"]
Place = tuple[int, int]


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


def main() -> int:
    """Test the cores that are named, or all. Return 1 if fewer changes are noticed than the settings demand."""
    parser = argparse.ArgumentParser(description="Measure how many changes of the logic the unit tests notice.")
    parser.add_argument("cores", nargs="*", help="files of module_utils (default: all in pyproject.toml)")
    parser.add_argument("--sample", type=int, metavar="N", help="make at most N changes of each core, always the same")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cores to test at a time")
    given = parser.parse_args()
    cores = [str(Path(name).resolve().relative_to(ROOT)) for name in given.cores] or all_cores()
    trees: queue.Queue[Path] = queue.Queue()
    for number in range(min(given.jobs, len(cores))):
        trees.put(copy_tree(BUILD / f"tree-{number}"))
    with concurrent.futures.ThreadPoolExecutor(trees.qsize()) as pool:
        scores = list(pool.map(lambda core: _in_turn(trees, core, given.sample), cores))
    return summary(scores, given.sample)


def all_cores() -> list[str]:
    """Return the files that the settings name."""
    return [name for pattern in SETTINGS["cores"] for name in _spelled_out(pattern)]


def _spelled_out(pattern: str) -> list[str]:
    """Return a/b.py and a/c.py for a/{b,c}.py."""
    match = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    return [f"{match[1]}{name}{match[3]}" for name in match[2].split(",")] if match else [pattern]


def summary(scores: list[Score], sample: int | None) -> int:
    """Print the sum, and return the exit status."""
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


def _in_turn(trees: queue.Queue[Path], core: str, sample: int | None) -> Score:
    tree = trees.get()
    try:
        score = measure(tree, core, sample)
    finally:
        trees.put(tree)
    print(f"{core}: {score.caught} of {score.mutants}", *score.survivors, sep="\n  ", flush=True)
    return score


def measure(tree: Path, core: str, sample: int | None) -> Score:
    """Make the changes of one core, and run its tests each time."""
    folder = BUILD / core.replace("/", "-").removesuffix(".py")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command, limit = _tests(tree, core)
    config, session = folder / "cosmic-ray.toml", folder / "session.sqlite"
    config.write_text(_config(core, command, limit))
    _cosmic_ray(tree, "init", config, session)
    with use_db(session, WorkDB.Mode.open) as work:
        _leave_out(work, ast.parse((tree / core).read_text()))
        _leave_out_beyond(work, sample, seed=core)
    _cosmic_ray(tree, "exec", config, session)
    shutil.copy2(ROOT / core, tree / core)  # In case the last change was not taken back.
    with use_db(session, WorkDB.Mode.open) as work:
        return _score(core, work)


def tests_of(core: str) -> list[str]:
    """Return the unit test file of a core, and those that the settings add."""
    path = Path(core)
    own = Path("tests/unit") / path.parent / f"test_{path.name.lstrip('_')}"
    more = (tests for pattern, tests in SETTINGS["more_tests"].items() if fnmatch.fnmatch(core, pattern))
    return list(dict.fromkeys([str(own), *itertools.chain.from_iterable(more)]))


def _tests(tree: Path, core: str) -> tuple[list[str], float]:
    """Return the command that runs the tests of a core, and the time limit: a multiple of what they take.

    Most tests need no fixture of a conftest.py, and start five times as fast without these and without plugins.
    """
    for options in (["--noconftest", "--disable-plugin-autoload"], []):
        command = [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *options]
        command += tests_of(core)
        started = time.monotonic()
        run = subprocess.run(command, cwd=tree, env=_environment(tree), capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return command, 10 + 5 * (time.monotonic() - started)
    raise SystemExit(f"The tests of {core} fail without a change:\n{run.stdout[-3000:]}{run.stderr[-1000:]}")


def _config(core: str, command: list[str], limit: float) -> str:
    words = {"module-path": core, "timeout": round(limit, 1), "test-command": " ".join(command), "excluded-modules": []}
    lines = [f"{key} = {json.dumps(value)}" for key, value in words.items()]
    return "\n".join(["[cosmic-ray]", *lines, "[cosmic-ray.distributor]", 'name = "local"', ""])


def _cosmic_ray(tree: Path, command: str, *arguments: Path) -> None:
    program = [str(Path(sys.executable).parent / "cosmic-ray"), command, *map(str, arguments)]
    subprocess.run(program, cwd=tree, env=_environment(tree), check=True, capture_output=True)


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(tree / ".venv/share"), "PYTHONDONTWRITEBYTECODE": "1"}


# ---- which changes concern the logic --------------------------------------------------------------------------------


def _leave_out(work: WorkDB, module: ast.Module) -> None:
    """Skip the changes that do not concern the logic."""
    left_out, functions = _spans([*_annotations(module), *_texts(module)]), _spans(_functions(module))
    skipped = WorkResult(output="not logic", worker_outcome=WorkerOutcome.SKIPPED)
    for item in list(work.pending_work_items):
        if not _is_logic(item.mutations[0], left_out, functions):
            work.set_result(item.job_id, skipped)


def _leave_out_beyond(work: WorkDB, sample: int | None, seed: str) -> None:
    """Skip changes at random until only a sample is left. The same seed leaves the same changes."""
    pending = sorted(work.pending_work_items, key=lambda item: _place(item.mutations[0]))
    kept = len(pending) if sample is None else min(sample, len(pending))
    skipped = WorkResult(output="not in the sample", worker_outcome=WorkerOutcome.SKIPPED)
    for item in random.Random(seed).sample(pending, len(pending))[kept:]:  # noqa: S311 - nothing secret
        work.set_result(item.job_id, skipped)


def _place(mutation: MutationSpec) -> tuple[Place, str, int]:
    return mutation.start_pos, mutation.operator_name, mutation.occurrence


def _is_logic(
    mutation: MutationSpec, left_out: list[tuple[Place, Place]], functions: list[tuple[Place, Place]]
) -> bool:
    if not any(re.fullmatch(pattern, mutation.operator_name) for pattern in SETTINGS["operators"]):
        return False
    place = mutation.start_pos
    inside = any(start <= place < end for start, end in functions)
    return inside and not any(start <= place < end for start, end in left_out)


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


def _score(core: str, work: WorkDB) -> Score:
    places = {item.job_id: item.mutations[0] for item in work.work_items}
    caught, survivors = 0, []
    for job, result in work.results:
        if result.worker_outcome is WorkerOutcome.SKIPPED:
            continue
        if result.test_outcome is not TestOutcome.SURVIVED:
            caught += 1
        else:
            survivors.append(_line(core, places[job], result.diff or ""))
    return Score(core, caught, tuple(sorted(survivors)))


def _line(core: str, mutation: MutationSpec, diff: str) -> str:
    changed = next((line[1:].strip() for line in diff.splitlines() if re.match(r"\+(?!\+\+)", line)), "")
    return f"{core}:{mutation.start_pos[0]}: {mutation.operator_name.removeprefix('core/')}: {changed}"


if __name__ == "__main__":
    sys.exit(main())
