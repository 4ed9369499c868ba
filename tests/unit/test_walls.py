# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which code may import, open, start and read what. docs/why/architecture.md describes these boundaries."""

from __future__ import annotations

import ast
import collections
import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
UTILS = PLUGINS / "module_utils"
CLUSTER, HOST, MIG, OPERATOR, XID = (UTILS / name for name in ("_cluster", "_host", "_mig", "_operator", "_xid"))
ROLLOUT = UTILS / "_rollout"
DIAGNOSIS = UTILS / "_diagnosis"
MODULE = UTILS / "_module.py"
"""The one file that knows Ansible's own module class. On a host, Ansible brings it along."""
TESTS = ROOT / "tests" / "unit" / "plugins"
LAB = ROOT / "lab"
OURS = "ansible_collections.gpuops.nvidia.plugins."
THEIR_COLLECTION = "ansible_collections.kubernetes.core"

LINES = 400
"""How long a file of the plugins may be. What ansible-doc reads has to be in the module, and does not count. Tests have
no limit: their cases follow the file that they test."""

KUBERNETES_DOOR = CLUSTER / "api.py"
CONNECTION = CLUSTER / "connection"
REGISTRY_DOOR = CLUSTER / "drivers" / "checks" / "registry" / "ask.py"
PROMETHEUS_DOOR = CLUSTER / "gpu_metrics" / "prometheus_api.py"
HELM_DOOR = CLUSTER / "chart" / "helm.py"
SKOPEO_DOOR = CLUSTER / "images" / "skopeo.py"
HOST_DOOR = HOST / "host.py"
FORK_DOOR = HOST / "forked.py"
NVML_DOOR = HOST / "facts" / "gpus" / "nvml.py"
MIG_DOOR = HOST / "mig" / "driver" / "library.py"


# ---- what a file imports and calls --------------------------------------------------------------------------------


def python_files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


@functools.cache
def imports(path: Path) -> set[str]:
    """Return the full names of everything that a file imports: modules, and names from modules."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    return found


@functools.cache
def own_files(path: Path) -> set[Path]:
    """Return the files of this collection that a file imports."""
    found = set()
    for name in imports(path):
        if name.startswith(OURS):
            inner = PLUGINS.joinpath(*name.removeprefix(OURS).split("."))
            found |= {file for file in (inner.with_suffix(".py"), inner.parent.with_suffix(".py")) if file.is_file()}
    return found


@functools.cache
def calls(path: Path) -> set[str]:
    """Return the dotted names of everything that a file calls: ``open``, ``os.listdir``, ``module.run_command``."""
    return {ast.unparse(node.func) for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def strangers(path: Path) -> set[str]:
    """Return a file's imports from outside the standard library and this collection."""
    own = {name for name in imports(path) if name.startswith(OURS)}
    return {name for name in imports(path) - own if name.partition(".")[0] not in sys.stdlib_module_names}


def test_the_helpers_of_this_file_find_imports_and_calls(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text("import os, yaml\nfrom json import loads\nfrom . import near\nopen(os.path.join('a'))\nx.run()\n")
    assert imports(file) == {"os", "yaml", "json.loads", "..near"}
    assert calls(file) == {"open", "os.path.join", "x.run"}
    assert strangers(file) == {"yaml", "..near"}


# ---- the two wings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wing", "other"), [(CLUSTER, HOST), (HOST, CLUSTER)])
def test_the_wings_do_not_import_each_other(wing: Path, other: Path) -> None:
    crossed = {relative(path): sorted(map(relative, own_files(path))) for path in python_files(wing)}
    assert len(crossed) > 15
    assert {path: found for path, found in crossed.items() if any(relative(other) in each for each in found)} == {}


def shared_code() -> list[Path]:
    """Return the files that both wings may import: those beside the wings, and what MIG, operators and Xids are."""
    return [*UTILS.glob("*.py"), *python_files(MIG, OPERATOR, XID)]


def test_shared_code_imports_neither_wing() -> None:
    crossed = [
        path
        for path in shared_code()
        if any(wing in each.parents for each in own_files(path) for wing in (CLUSTER, HOST))
    ]
    assert crossed == []


def test_the_wings_do_not_know_the_diagnosis() -> None:
    """The diagnosis stands on the cluster wing, and gets what it knows of hosts as JSON."""
    below = [path for path in python_files(UTILS) if DIAGNOSIS not in path.parents]
    assert [path for path in below if any(DIAGNOSIS in each.parents for each in own_files(path))] == []
    assert [path for path in python_files(DIAGNOSIS) if any(HOST in each.parents for each in own_files(path))] == []


@pytest.mark.parametrize("module", [path.stem for path in python_files(PLUGINS / "modules")])
def test_a_module_uses_one_wing(module: str) -> None:
    """The diagnosis belongs to the cluster wing, on which it stands."""
    used = own_files(PLUGINS / "modules" / f"{module}.py")
    rooms = {CLUSTER: CLUSTER, DIAGNOSIS: CLUSTER, HOST: HOST}
    wings = {wing.name for room, wing in rooms.items() for path in used if room in path.parents}
    assert len(wings) == 1, wings


def test_imports_form_no_cycle() -> None:
    files = python_files(PLUGINS)
    reaches = {path: own_files(path) - {path} for path in files}
    while True:
        leaves = {path for path, found in reaches.items() if not found}
        if not leaves:
            break
        reaches = {path: found - leaves for path, found in reaches.items() if path not in leaves}
    assert sorted(map(relative, reaches)) == []


# ---- hosts --------------------------------------------------------------------------------------------------------


def host_code() -> list[Path]:
    """Return all files that may run on a managed host: the wing, what it shares, and the modules of the wing."""
    modules = [
        path for path in python_files(PLUGINS / "modules") if any(HOST in each.parents for each in own_files(path))
    ]
    return [*python_files(HOST), *shared_code(), *modules]


@pytest.mark.parametrize("path", host_code(), ids=relative)
def test_host_code_needs_python_3_9_and_the_standard_library(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))
    allowed = {"pynvml"} if path == NVML_DOOR else set()
    allowed |= {"ansible.module_utils.basic.AnsibleModule"} if path == MODULE else set()
    assert strangers(path) <= allowed


def test_host_code_calls_nothing_that_python_3_9_lacks() -> None:
    """Vermin knows which Python introduced each function and argument of the standard library."""
    vermin = Path(sys.executable).with_name("vermin")
    command = [str(vermin), "--no-tips", "--target=3.9-", "--violations"]
    answer = subprocess.run([*command, *map(str, host_code())], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


def python_3_9() -> str | None:
    """Return a Python 3.9 that starts on this machine, or None."""
    homes = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))
    for candidate in (os.environ.get("PYTHON39"), shutil.which("python3.9"), *map(str, homes)):
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def test_host_code_imports_on_python_3_9() -> None:
    python = python_3_9()
    if python is None:
        pytest.skip("There is no Python 3.9 here: install one, or name it in PYTHON39.")
    names = [
        OURS + ".".join(path.relative_to(PLUGINS).with_suffix("").parts)
        for path in [*python_files(HOST), *shared_code()]
        if path != MODULE
    ]
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    environment = {
        "PYTHONPATH": str(Path(sys.prefix) / "share"),
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    answer = subprocess.run(
        [python, "-S", "-c", code, *names], env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr


# ---- doors --------------------------------------------------------------------------------------------------------


def users(*roots: str) -> set[str]:
    """Return the files of the plugins that import one of these packages."""
    return {
        relative(path)
        for path in python_files(PLUGINS)
        if {name.partition(".")[0] for name in imports(path)} & set(roots)
    }


def test_one_file_sends_requests_to_kubernetes_over_the_connections_of_one_room() -> None:
    connections = {relative(CONNECTION / f"{name}.py") for name in ("client", "plain", "streams")}
    doors = {relative(KUBERNETES_DOOR), *connections}
    # Asking a registry of images or a Prometheus is not Kubernetes. They know the failures of HTTP by their names.
    assert users("kubernetes", "urllib3", "websocket", "requests", "http", "socketserver") == {
        *doors,
        relative(REGISTRY_DOOR),
        relative(PROMETHEUS_DOOR),
    }
    assert users("kubernetes") == {relative(CONNECTION / "client.py")}
    beside = {
        relative(path)
        for path in python_files(PLUGINS)
        if any(name.startswith(THEIR_COLLECTION) for name in imports(path))
    }
    assert beside == {relative(KUBERNETES_DOOR), relative(CONNECTION / "client.py")}


def test_one_file_asks_registries_and_one_asks_a_prometheus() -> None:
    urls = {
        relative(path)
        for path in python_files(PLUGINS)
        if any(name.startswith("ansible.module_utils.urls") for name in imports(path))
    }
    assert urls == {relative(REGISTRY_DOOR), relative(PROMETHEUS_DOOR)}


def test_nothing_that_always_runs_imports_the_kubernetes_client() -> None:
    """It takes a third of a second, in each task. Only a connection that needs it imports it, when it is made."""
    at_once = [node for path in python_files(PLUGINS) for node in parsed(path).body if isinstance(node, ast.ImportFrom)]
    assert [node.module for node in at_once if any(alias.name == "client" for alias in node.names)] == []
    assert CONNECTION / "client.py" in own_files(CONNECTION / "connect.py")
    assert CONNECTION / "streams.py" in own_files(KUBERNETES_DOOR)


def test_action_plugins_and_filters_leave_the_cluster_to_modules() -> None:
    """All but one: a report is made where it is written, if it can be."""
    waiting, seen = python_files(PLUGINS / "action", PLUGINS / "plugin_utils", PLUGINS / "filter"), set[Path]()
    waiting.remove(PLUGINS / "action" / "fleet_report.py")
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += own_files(path)
    assert UTILS / "_errors.py" in seen
    assert KUBERNETES_DOOR not in seen


def test_one_file_starts_each_command_on_the_controller() -> None:
    starters = {
        relative(path) for path in python_files(PLUGINS) if any(name.endswith("run_command") for name in calls(path))
    }
    assert starters == {relative(HELM_DOOR), relative(SKOPEO_DOOR)}


STARTS = re.compile(r"(subprocess\.\w+|os\.(fork|forkpty|posix_spawnp?|system|popen|exec\w+|spawn\w+)|pty\.\w+)")
FILES = re.compile(
    r"(open|io\.open|glob\.i?glob|tempfile\.\w+|shutil\.\w+|(pathlib\.)?Path"
    r"|os\.(access|chmod|chown|fdopen|link|listdir|l?stat|statvfs|makedirs|mkdir|open|readlink|remove|rename|replace"
    r"|rmdir|scandir|symlink|uname|unlink|walk)|os\.path\.(l?exists|is(dir|file|link)|realpath|get\w+))"
)


def callers(pattern: re.Pattern[str], *folders: Path) -> set[str]:
    return {relative(path) for path in python_files(*folders) if any(pattern.fullmatch(name) for name in calls(path))}


def test_one_file_starts_processes() -> None:
    """NVML is called in a forked child process, because a faulty driver hangs the caller."""
    assert callers(STARTS, PLUGINS) == {relative(HOST_DOOR), relative(FORK_DOOR)}


def test_one_file_opens_files_on_a_host() -> None:
    modules = [path for path in host_code() if path.parent == PLUGINS / "modules"]
    assert callers(FILES, HOST) <= {relative(HOST_DOOR), relative(FORK_DOOR)}
    assert [path.name for path in modules if any(FILES.fullmatch(name) for name in calls(path))] == []


def test_two_files_ask_nvml() -> None:
    """pynvml answers whatever a host can say. MIG must work without it, so one file binds the library itself."""
    assert users("pynvml") == {relative(NVML_DOOR)}
    assert users("ctypes") == {relative(NVML_DOOR), relative(MIG_DOOR)}


# ---- rooms --------------------------------------------------------------------------------------------------------


def declared_rooms() -> list[str]:
    """Return the rooms in the order of architecture.md's tables: the lowest first."""
    text = (ROOT / "docs" / "why" / "architecture.md").read_text().partition("\n## Rooms\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


ORDER = {room: position for position, room in enumerate(declared_rooms())}


def room_of(path: Path) -> str:
    """Return the room of a file: the file itself if that is declared, or else its folder."""
    inner = path.relative_to(UTILS)
    return str(inner) if str(inner) in ORDER else str(inner.parent)


def test_every_file_is_in_a_declared_room_and_every_room_has_files() -> None:
    assert {room_of(path) for path in python_files(UTILS)} == set(ORDER)


@pytest.mark.parametrize("room", sorted(ORDER))
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    beyond = {
        f"{relative(path)} imports {relative(other)}"
        for path in python_files(UTILS)
        if room_of(path) == room
        for other in own_files(path)
        if ORDER[room_of(other)] > ORDER[room]
    }
    assert beyond == set()


def own_lines(path: Path) -> int:
    """Return how many lines a file has, without what ansible-doc reads of it."""
    documentation = [
        node
        for node in parsed(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("DOCUMENTATION", "EXAMPLES", "RETURN")
    ]
    spent = sum((node.end_lineno or 0) - node.lineno + 1 for node in documentation)
    return len(path.read_text().splitlines()) - spent


def test_no_file_of_the_plugins_is_too_long() -> None:
    lengths = {relative(path): own_lines(path) for path in python_files(PLUGINS)}
    assert len(lengths) > 300
    assert {path for path, length in lengths.items() if length > LINES} == set()


# ---- names --------------------------------------------------------------------------------------------------------


def in_sight() -> dict[str, list[Path]]:
    """Return the files that one program may import: what stands on the controller, and what stands on a host."""
    return {
        "controller": [*python_files(CLUSTER, DIAGNOSIS, ROLLOUT), *shared_code()],
        "host": [*python_files(HOST), *shared_code()],
    }


def namesakes(names: t.Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    """Return the names that several files use. A leading underscore makes no other name."""
    homes: dict[str, list[str]] = collections.defaultdict(list)
    for name, path in names:
        homes[name.lstrip("_")].append(relative(path))
    return {name: sorted(found) for name, found in homes.items() if len(found) > 1}


@pytest.mark.parametrize("program", ["controller", "host"])
def test_files_in_sight_of_each_other_have_different_names(program: str) -> None:
    assert namesakes((path.name, path) for path in in_sight()[program]) == {}


@pytest.mark.parametrize("program", ["controller", "host"])
def test_classes_in_sight_of_each_other_have_different_names(program: str) -> None:
    classes = (
        (node.name, path)
        for path in in_sight()[program]
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    )
    assert namesakes(classes) == {}


def has_code(path: Path) -> bool:
    return any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in parsed(path).body)


def test_unit_tests_mirror_the_plugins() -> None:
    """Every file with code has a test file at the matching path, and every test file has a file to test."""
    for kind in ("module_utils", "modules", "filter", "plugin_utils"):
        tests = {path.relative_to(TESTS / kind) for path in (TESTS / kind).rglob("test_*.py")}
        # The argument specs of all modules, and hostile text for those that read; all rules over published evidence
        # and the lab's faults; fields and their list over the exporters' own answers.
        tests -= {Path("test_argument_specs.py"), Path("test_hostile.py"), Path("_xid/test_published.py")}
        tests -= {Path("_metrics/test_field_lists.py")}
        tests -= {Path(f"_diagnosis/rules/test_{name}.py") for name in ("corpus", "faults")}
        address = {
            path: path.relative_to(PLUGINS / kind).with_name(f"test_{path.name.lstrip('_')}")
            for path in python_files(PLUGINS / kind)
        }
        assert sorted({address[path] for path in address if has_code(path)} - tests) == []
        assert sorted(tests - set(address.values())) == []


def test_the_cores_of_the_mutation_test_are_files_with_tests() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutation"]
    patterns = [re.fullmatch(r"([^{]*)(?:\{(.*)\})?(.*)", core) for core in settings["cores"]]
    cores = [f"{each[1]}{name}{each[3]}" for each in patterns if each for name in (each[2] or "").split(",")]
    more = [test for tests in settings["more_tests"].values() for test in tests]
    assert len(cores) > 150
    assert [name for name in (*cores, *more) if not (ROOT / name).is_file()] == []
    assert [name for name in settings["more_tests"] if not list(ROOT.glob(name))] == []


@pytest.mark.parametrize("path", python_files(PLUGINS / "modules"), ids=lambda path: path.stem)
def test_a_module_is_options_documentation_and_one_call(path: Path) -> None:
    functions = [node for node in parsed(path).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert [node.name for node in functions] == ["main"]
    assert (functions[0].end_lineno or 0) - functions[0].lineno < 25


# ---- facts --------------------------------------------------------------------------------------------------------


def constants(path: Path) -> t.Iterator[tuple[str, str]]:
    """Yield the public constants of a file, each with the expression of its value."""
    for node in parsed(path).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9_]*", target.id) and node.value:
                yield target.id, ast.unparse(node.value)


# Constants that every module has, and constants that concern only their own folder.
LOCAL = {"DOCUMENTATION", "RULES", "EXAMPLES", "RETURN", "SPEC", "CHECKS", "MODULE"}


def test_constants_of_one_name_have_one_value() -> None:
    homes: dict[str, dict[str, str]] = collections.defaultdict(dict)
    for path in python_files(PLUGINS):
        for name, value in constants(path):
            homes[name][relative(path)] = value
    twice = {name: found for name, found in homes.items() if len(found) > 1 and name not in LOCAL}
    assert twice == {}


NVIDIA_LABEL = re.compile(
    r"(nvidia\.com/(gpu|mig|cuda)[\w.-]+|feature\.node\.kubernetes\.io/[\w.-]+|meta\.helm\.sh/[\w-]+)"
)


def test_labels_are_written_in_one_file() -> None:
    """Only whole strings count: messages may name a label."""
    spelt = collections.defaultdict(set)
    for path in python_files(UTILS, PLUGINS / "filter", PLUGINS / "plugin_utils"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NVIDIA_LABEL.fullmatch(node.value):
                spelt[relative(path)].add(node.value)
    home = relative(CLUSTER / "stack" / "names.py")
    # The default toleration belongs to the operands.
    allowed = {relative(CLUSTER / "stack" / "operands.py"): {"nvidia.com/gpu"}}
    assert {
        path: labels - allowed.get(path, set())
        for path, labels in spelt.items()
        if path != home and labels - allowed.get(path, set())
    } == {}


# ---- roles --------------------------------------------------------------------------------------------------------


def role_texts(role: Path) -> t.Iterator[tuple[Path, str]]:
    for path in role.rglob("*"):
        if path.is_file() and path.suffix in (".yml", ".j2"):
            yield path, path.read_text()


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_a_role_reads_no_internal_variable_of_another(role: str) -> None:
    others = {path.name for path in (ROOT / "roles").iterdir()} - {role}
    # The variables of mig_partition are not those of mig.
    internal = re.compile(rf"(?<![\w])(?!__{role}_){'__(' + '|'.join(sorted(others)) + ')'}_\w+")
    found = {
        relative(path): sorted({match[0] for match in internal.finditer(text)})
        for path, text in role_texts(ROOT / "roles" / role)
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_playbooks_read_no_internal_variable_of_a_role() -> None:
    for path in (ROOT / "playbooks").rglob("*.yml"):
        yaml.safe_load(path.read_text())
        assert re.findall(r"(?<!\w)__\w+", path.read_text()) == [], relative(path)


def test_roles_form_no_cycle() -> None:
    """No role includes itself through other roles."""
    names = sorted(path.name for path in (ROOT / "roles").iterdir())
    included = re.compile(r"name: gpuops\.nvidia\.(\w+)$", re.MULTILINE)
    uses = {
        name: {other for dummy, text in role_texts(ROOT / "roles" / name) for other in included.findall(text)}
        & set(names) - {name}
        for name in names
    }
    while any(not found for found in uses.values()):
        leaves = {name for name, found in uses.items() if not found}
        uses = {name: found - leaves for name, found in uses.items() if name not in leaves}
    assert uses == {}


# ---- the lab ------------------------------------------------------------------------------------------------------


def test_the_lab_imports_neither_tests_nor_plugins() -> None:
    """The tests depend on the lab, so the lab imports neither the tests nor the collection."""
    guests = {
        relative(path): {name for name in imports(path) if name.startswith(("tests", "benchmarks", "ansible"))}
        for path in python_files(LAB)
    }
    assert len(guests) > 40
    assert {path: names for path, names in guests.items() if names} == {}


def test_only_tests_import_tests() -> None:
    beside = [
        path
        for path in python_files(LAB, ROOT / "benchmarks", PLUGINS, ROOT / "scripts")
        if any(name.startswith("tests") for name in imports(path))
    ]
    assert list(map(relative, beside)) == []
