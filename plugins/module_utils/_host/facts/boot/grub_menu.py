# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What GRUB boots with a grub.cfg: the script is run as GRUB runs it, and the default entry is executed.

Some things only GRUB knows, such as its disks. A text that depends on them contains ``UNKNOWN_TEXT``. If a condition
depends on them, both branches are run, and what differs between them is unknown afterwards.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import (
    grub_script,
    grub_state,
    grub_test,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_choice import UnknownBootError, choose
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_script import (
    Block,
    Command,
    Condition,
    Function,
    Loop,
    Part,
    ScriptError,
    Statement,
    Word,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_state import (
    LINUX,
    MENU_ENTRIES,
    OTHER,
    Linux,
    LoadedEntry,
    State,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_test import UNKNOWN_TEXT

_MAXIMUM_STEPS, _MAXIMUM_DEPTH = 20_000, 60
_FEATURES = (
    "200_final",
    "all_video_module",
    "chainloader_bpb",
    "default_font_path",
    "menuentry_id",
    "menuentry_options",
    "nativedisk_cmd",
    "ntldr",
    "platform_search_hint",
    "timeout_style",
)
# GRUB's graphics mode decides whether this is vt.handoff=7, which no reboot changes.
_IGNORED = "vt_handoff"
_COMMON_ENVIRONMENT = ("saved_entry", "next_entry", "kernelopts", "tuned_params")


@dataclasses.dataclass(frozen=True)
class BootMachine:
    """What a script can learn about the machine. ``entries`` are those of the Boot Loader Specification."""

    prefix: str
    platform: str
    cpu: str
    environment: t.Mapping[str, str]
    read: t.Callable[[str], str | None]
    entries: t.Callable[[t.Callable[[str], str]], t.Sequence[LoadedEntry]]


@dataclasses.dataclass(frozen=True)
class Boot:
    """What GRUB boots, the variables that it read, and the files besides grub.cfg."""

    entry: LoadedEntry
    kernel: Linux
    variables: frozenset[str]
    files: tuple[str, ...]


def parse(text: str) -> Block:
    """Return the statements of a grub.cfg, or raise UnknownBootError."""
    try:
        return grub_script.parse(text.replace(UNKNOWN_TEXT, ""))
    except ScriptError as e:
        raise UnknownBootError(f"its script cannot be followed: {e}") from e


def boot(menu: Block, machine: BootMachine) -> Boot:
    """Return what GRUB boots with the statements of a grub.cfg, or raise UnknownBootError."""
    script = _Script(machine)
    try:
        state = script.initial()
        script.run(menu, state, ())
        entry, kernel = script.boot(state, state.variables.get("default", ""))
    except ScriptError as e:
        raise UnknownBootError(f"its script cannot be followed: {e}") from e
    return Boot(entry, kernel, frozenset(script.read), tuple(script.files))


class _Script:
    """Runs scripts and keeps what all of them share."""

    def __init__(self, machine: BootMachine) -> None:
        self._machine = machine
        self._functions: dict[str, Block] = {}
        self._steps = self._depth = 0
        self.read: set[str] = set()
        self.files: list[str] = []
        self._commands: dict[str, t.Callable[[list[str], State], bool | None]] = {
            "set": self._set,
            "unset": self._unset,
            "export": self._export,
            "load_env": self._load_env,
            "source": self._source,
            ".": self._source,
            "configfile": self._configfile,
            "blscfg": self._blscfg,
            "[": lambda words, state: self._test(words[1:-1]),
            "test": lambda words, state: self._test(words[1:]),
            "true": lambda words, state: True,
            "false": lambda words, state: False,
            **dict.fromkeys(("echo", "insmod", "save_env", "initrd", "initrd16", "initrdefi"), _succeed),
            **dict.fromkeys(LINUX, _linux),
            **dict.fromkeys(_OTHER_LOADERS, _other_loader),
            **dict.fromkeys(_UNSUPPORTED, _unsupported),
        }

    def initial(self) -> State:
        """Return the state in which GRUB starts its configuration."""
        machine = self._machine
        variables = {f"feature_{name}": "y" for name in _FEATURES}
        variables.update(grub_platform=machine.platform, grub_cpu=machine.cpu)
        variables.update(
            prefix=machine.prefix, config_directory=machine.prefix, root=UNKNOWN_TEXT, cmdpath=UNKNOWN_TEXT
        )
        return State(variables, set(variables))

    def boot(self, state: State, wanted: str) -> tuple[LoadedEntry, Linux]:
        """Return the entry that the menu boots, and its kernel."""
        entry, rest = choose(state.menu, wanted)
        if entry.is_submenu:
            inner = state.submenu()
            self.run(entry.block, inner, (entry.title,))
            return self.boot(inner, rest)
        self.run(entry.block, state, (entry.title,))
        return entry, state.loaded or OTHER

    def run(self, block: Block, state: State, arguments: t.Sequence[str]) -> bool | None:
        """Run statements, and return whether the last has succeeded, or None if only GRUB knows."""
        status: bool | None = True
        self._depth += 1
        for statement in block:
            self._steps += 1
            if self._steps > _MAXIMUM_STEPS or self._depth > _MAXIMUM_DEPTH:
                raise ScriptError("its functions call themselves")
            status = self._statement(statement, state, arguments)
        self._depth -= 1
        return status

    def _statement(self, statement: Statement, state: State, arguments: t.Sequence[str]) -> bool | None:
        if isinstance(statement, Function):
            self._functions[statement.name] = statement.body
            return True
        if isinstance(statement, Condition):
            return self._condition(statement.branches, state, arguments)
        if isinstance(statement, Loop):
            return self._loop(statement, state, arguments)
        return self._command(statement, state, arguments)

    def _condition(
        self, branches: t.Sequence[tuple[Block, Block]], state: State, arguments: t.Sequence[str]
    ) -> bool | None:
        if not branches:
            return True
        tests, body = branches[0]
        result = self.run(tests, state, arguments)
        if result is True:
            return self.run(body, state, arguments)
        if result is False:
            return self._condition(branches[1:], state, arguments)
        taken, skipped = state.copy(), state.copy()
        one, other = self.run(body, taken, arguments), self._condition(branches[1:], skipped, arguments)
        state.be_either(taken, skipped)
        return one if one == other else None

    def _loop(self, loop: Loop, state: State, arguments: t.Sequence[str]) -> bool | None:
        words = [text for word in loop.words for text in self._expand(word, state, arguments)]
        for value in words[2:]:
            state.variables[words[0]] = value
            self.run(loop.body, state, arguments)
        if not words:
            # How often the body runs is unknown. Twice shows which variables it changes.
            for dummy in range(2):
                inside, before = state.copy(), state.copy()
                self.run(loop.body, inside, arguments)
                state.be_either(inside, before)
        return None

    def _command(self, command: Command, state: State, arguments: t.Sequence[str]) -> bool | None:
        words = [text for word in command.words for text in self._expand(word, state, arguments)]
        if words[:1] == ["!"]:
            status = self._named(words[1:], command.block, state)
            return None if status is None else not status
        return self._named(words, command.block, state)

    def _named(self, words: list[str], block: Block | None, state: State) -> bool | None:
        if not words:
            return True
        if words[0] in MENU_ENTRIES:
            state.menu.append(grub_state.entry(words, block or ()))
            return True
        if words[0] in self._commands:
            return self._commands[words[0]](words, state)
        if words[0] in self._functions:
            return self.run(self._functions[words[0]], state, words[1:])
        if re.match(r"\w+=", words[0]):
            return self._set(["set", *words], state)
        _note_variables(words, state)
        return None

    def _expand(self, word: Word, state: State, arguments: t.Sequence[str]) -> list[str]:
        """Return the words that a word becomes. An unquoted variable can be zero or several words."""
        found: list[str] = []
        current: str | None = None
        for part in word:
            value = self._value(part, state, arguments)
            if not part.is_variable or part.quoted:
                current = (current or "") + value
                continue
            # GRUB drops white space at the ends of the value, so it separates no words.
            for number, piece in enumerate(value.split()):
                if number and current is not None:
                    found.append(current)
                    current = None
                current = (current or "") + piece
        return found if current is None else [*found, current]

    def _value(self, part: Part, state: State, arguments: t.Sequence[str]) -> str:
        name = part.text
        if not part.is_variable:
            return name
        if name.isdigit():
            return arguments[int(name) - 1] if 0 < int(name) <= len(arguments) else ""
        if name in ("@", "*", "#"):
            return str(len(arguments)) if name == "#" else " ".join(arguments)
        if name in ("?", _IGNORED):
            return UNKNOWN_TEXT if name == "?" else ""
        self.read.add(name)
        return state.variables.get(name, "")

    def _set(self, words: list[str], state: State) -> bool:
        name, sign, value = words[1].partition("=") if len(words) > 1 else ("", "", "")
        if sign:
            state.variables[name] = value
        return True

    def _unset(self, words: list[str], state: State) -> bool:
        for name in words[1:]:
            state.variables.pop(name, None)
        return True

    def _export(self, words: list[str], state: State) -> bool:
        state.exported.update(words[1:])
        return True

    def _load_env(self, words: list[str], state: State) -> bool:
        names = [word for word in words[1:] if not word.startswith("-") and "/" not in word]
        environment = self._machine.environment
        state.variables.update((name, environment[name]) for name in set(names or environment) & set(environment))
        path = next((word for word in words[1:] if "/" in word), self._machine.prefix)
        if not path.startswith(self._machine.prefix):
            # SUSE has a second block outside of the file system, which only GRUB reads.
            state.variables.update(dict.fromkeys(names or _COMMON_ENVIRONMENT, UNKNOWN_TEXT))
        return True

    def _source(self, words: list[str], state: State) -> bool | None:
        path = words[1] if len(words) > 1 else UNKNOWN_TEXT
        if not path.startswith(f"{self._machine.prefix}/") or UNKNOWN_TEXT in path:
            state.menu.append(None)
            return None
        text = self._machine.read(path)
        if text is None:
            return False
        self.files.append(path)
        return self.run(grub_script.parse(text.replace(UNKNOWN_TEXT, "")), state, ())

    def _configfile(self, words: list[str], state: State) -> None:
        state.menu[:] = [None]
        state.loaded = OTHER

    def _blscfg(self, words: list[str], state: State) -> bool:
        state.menu += self._machine.entries(lambda name: self._value(Part(name, is_variable=True), state, ()))
        return True

    def _test(self, words: list[str]) -> bool | None:
        return grub_test.evaluate(words, self._file_size)

    def _file_size(self, path: str) -> int | None:
        """Return a file's size, -1 if there is no such file, and None if only GRUB knows."""
        if not path.startswith(f"{self._machine.prefix}/"):
            return None
        text = self._machine.read(path)
        return -1 if text is None else len(text)


# Commands that boot something else than a Linux kernel, or that leave the menu
_OTHER_LOADERS = (
    *("chainloader", "multiboot", "multiboot2", "xen_hypervisor", "kfreebsd", "ntldr", "appleloader", "uki"),
    *("exit", "halt", "reboot", "fwsetup", "normal", "boot"),
)
_UNSUPPORTED = ("return", "break", "continue", "eval", "shift", "setparams")


def _succeed(words: list[str], state: State) -> bool:
    return True


def _linux(words: list[str], state: State) -> bool:
    state.loaded = grub_state.linux(words)
    return True


def _other_loader(words: list[str], state: State) -> None:
    state.loaded = OTHER


def _unsupported(words: list[str], state: State) -> None:
    raise ScriptError(f"it uses {words[0]}")


def _note_variables(words: list[str], state: State) -> None:
    """Note which variables a command sets that only GRUB can run."""
    if words[0].startswith("search"):
        state.variables["root"] = UNKNOWN_TEXT
    for before, word in zip(words, words[1:]):  # noqa: RUF007 (itertools.pairwise is not in Python 3.9)
        if word.startswith("--set="):
            state.variables[word[len("--set=") :]] = UNKNOWN_TEXT
        elif before in ("--set", "-s", "read", "increment", "decrement"):
            state.variables[word] = UNKNOWN_TEXT
