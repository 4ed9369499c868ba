# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that appear in two places agree: metadata, README, documentation, requirements and code."""

from __future__ import annotations

import ast
import configparser
import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import typing as t
from pathlib import Path

import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm_errors import MINIMUM_HELM
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release.prepare import CRITICAL_PODS_QUOTA
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection.request_errors import MINIMUM_KUBERNETES
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import driver_reasons, judge
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import operator_lines

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MODULES = {path.stem: path for path in (ROOT / "plugins" / "modules").glob("[!_]*.py")}
ROLES = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())
RUNTIME = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
NEEDED = README.split("## Requirements", 1)[1].split("\n## ", 1)[0]
FRAGMENTS = "ansible_collections.gpuops.nvidia.plugins.doc_fragments"
AUTH_OPTIONS = "kubernetes.core.k8s_auth_options"
PROGRESS = "gpuops.nvidia.progress"


def documentation(module: str) -> dict[str, t.Any]:
    return yaml.safe_load(re.search(r'^DOCUMENTATION = r"""\n(.*?)^"""', MODULES[module].read_text(), re.M | re.S)[1])


def tracked() -> list[str]:
    return (
        subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        .stdout.rstrip("\0")
        .split("\0")
    )


def first_column(text: str, heading: str) -> set[str]:
    """Return the names in backticks or links in the first column of the table whose first column has this heading."""
    table = text.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return {
        name
        for row in table.splitlines()[2:]
        for name in re.findall(r"`([\w.]+)`|\[(\w+)\]", row.split("|")[1])
        for name in name
        if name
    }


def codes_of_the_judge() -> set[str]:
    """Return every code that a reason of the judge can have, read from the source."""
    files = Path(judge.__file__).parent.glob("*.py")
    calls = [node for path in files for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    makers = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("Reason", "NodeFinding")]
    given = [
        node for call in makers for node in [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "code")]
    ]
    literal = {node.value for node in given if isinstance(node, ast.Constant)}
    # The codes of nodes that are left out, of pods, of NVIDIADrivers in conflict, and of the operator's own Error condition.
    literal |= {"VirtualMachineNodes", "NodesNotSelected", "NodesExcluded", "OperandsSwitchedOff", "NodesTolerated"}
    named = {"CrashLoopBackOff", "PodsNotReady", "ReconcileFailed", driver_reasons.CONFLICT}
    return literal | set(pods.NEVER_STARTS) | named


def test_the_action_group_has_every_module_that_takes_the_connection_options() -> None:
    assert RUNTIME["action_groups"]["k8s"] == sorted(
        name for name in MODULES if AUTH_OPTIONS in documentation(name).get("extends_documentation_fragment", [])
    )


def test_every_code_of_a_verdict_is_explained() -> None:
    assert first_column((ROOT / "docs" / "reference" / "verdict.md").read_text(), "Code") == codes_of_the_judge()


def requirements_of(module: str) -> set[str]:
    """Return what a module's documentation requires, with what the collection's documentation fragments add."""
    stated = documentation(module)
    required = set(stated.get("requirements", []))
    for fragment in stated.get("extends_documentation_fragment", []):
        if fragment.startswith("gpuops.nvidia."):
            file = importlib.import_module(f"{FRAGMENTS}.{fragment.rpartition('.')[2]}")
            required |= set(yaml.safe_load(file.ModuleDocFragment.DOCUMENTATION).get("requirements", []))
    return required


def test_the_minimum_of_each_collection_is_in_the_readme() -> None:
    for name, bound in GALAXY["dependencies"].items():
        assert f"`{name}` {bound.removeprefix('>=')}" in NEEDED


def test_the_minimum_of_the_kubernetes_client_is_stated_wherever_it_is_needed() -> None:
    lines = (ROOT / "meta" / "ee-requirements.txt").read_text().splitlines()
    minimum = next(line.removeprefix("kubernetes>=") for line in lines if line.startswith("kubernetes>="))
    assert minimum == MINIMUM_KUBERNETES
    assert f"`kubernetes` {minimum} or newer" in NEEDED
    stated = {module: {need for need in requirements_of(module) if need.startswith("kubernetes")} for module in MODULES}
    connects = {
        name for name in MODULES if AUTH_OPTIONS in documentation(name).get("extends_documentation_fragment", [])
    }
    assert {name for name, needs in stated.items() if needs} == connects
    assert set.union(*stated.values()) == {f"kubernetes >= {minimum}"}


def test_the_minimum_of_helm_is_stated_wherever_it_is_needed() -> None:
    assert f"helm {MINIMUM_HELM} or newer" in NEEDED
    stated = {need for module in MODULES for need in requirements_of(module) if need.startswith("helm")}
    assert stated == {f"helm >= {MINIMUM_HELM}"}


def test_the_oldest_ansible_core_is_in_the_readme() -> None:
    cores = re.findall(r"2\.\d+", NEEDED.split("ansible-core", 1)[1].split(", helm", 1)[0])
    assert RUNTIME["requires_ansible"] == f">={min(cores)}.0"


def test_supported_python_agrees() -> None:
    oldest = yaml.safe_load((ROOT / "tests" / "config.yml").read_text())["modules"]["python_requires"].removeprefix(
        ">="
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert f"Python {oldest} or newer" in README
    assert project["mypy"]["python_version"] == oldest
    assert project["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"


def test_supported_operators_agree() -> None:
    stated = re.search(r"GPU Operator (.*?);", README)[1]
    assert stated == f"v{list(operator_lines.LINES)[-1]} or newer"


def test_every_development_tool_is_pinned_and_no_index_is_named() -> None:
    for name in ("dev", "importer", "mutation", "oldest", "go", "release"):
        wanted = {
            line
            for line in (ROOT / "requirements" / f"{name}.in").read_text().splitlines()
            if line and not line.startswith("#")
        }
        locked = (ROOT / "requirements" / f"{name}.txt").read_text()
        pins = re.findall(r"^([a-z0-9.-]+)==(?=.* \\\n    --hash=sha256:)", locked, re.M)
        assert {re.split("==|[[]", tool.lower())[0] for tool in wanted} <= set(pins)
        assert len(pins) == len(re.findall(r"^\S", re.sub(r"(?m)^#.*\n", "", locked), re.M)), "something has no hash"
        assert "://" not in locked and "--" not in re.sub(r"#.*|--hash=sha256:", "", locked)


def test_the_setup_installs_every_dependency() -> None:
    bootstrap = ast.parse((ROOT / "scripts" / "bootstrap.py").read_text())
    assigned = {
        node.targets[0].id: node.value
        for node in bootstrap.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    brought = {name.replace("/", ".") for name in ast.literal_eval(assigned["COLLECTIONS"])}
    # It also installs their dependencies.
    assert set(GALAXY["dependencies"]) <= brought


def test_ci_runs_what_the_readme_says() -> None:
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec make test")
    assert "$ make test" in README


def test_the_archive_holds_the_collection_and_nothing_else() -> None:
    shipped = {path.split("/")[0] for path in tracked()} - set(GALAXY["build_ignore"])
    texts = {
        "README.md",
        "CHANGELOG.md",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "LICENSES",
        "RELEASING.md",
        "REUSE.toml",
        "SECURITY.md",
        "STYLE.md",
        "docs",
        "examples",
    }
    assert shipped == texts | {"galaxy.yml", "meta", "plugins", "roles", "playbooks", "changelogs"}


def test_what_people_leave_in_a_checkout_stays_out_of_the_archive(tmp_path: Path) -> None:
    left = ["kubeconfig", "prod.kubeconfig", "inventory.yml", "inventory/hosts", "reports/gpus.xml", ".vault_pass"]
    left += ["tls.key", "ca.pem", "site.retry", "artifacts/1/stdout", ".env", "group.vault", "venv/pyvenv.cfg"]
    wanted = ["galaxy.yml", "README.md", "meta/runtime.yml", "plugins/inventory/a.py", "examples/on_prem/inventory.yml"]
    for name in (*left, *wanted):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    shutil.copy(ROOT / "galaxy.yml", tmp_path)
    build = [sys.executable, "-m", "ansible", "galaxy", "collection", "build", f"--output-path={tmp_path / 'build'}"]
    subprocess.run([*build, tmp_path], check=True, capture_output=True)
    with tarfile.open(next((tmp_path / "build").glob("*.tar.gz"))) as archive:
        packed = {entry.name for entry in archive.getmembers() if entry.isfile()}
    assert packed == {*wanted, "MANIFEST.json", "FILES.json"} - {"galaxy.yml"}


def test_modules_that_wait_with_progress_have_an_action_of_the_same_name() -> None:
    actions = {path.stem for path in (ROOT / "plugins" / "action").glob("[!_]*.py")}
    waiting = {name for name in MODULES if "wait" in documentation(name)["options"]}
    telling = {name for name in MODULES if PROGRESS in documentation(name).get("extends_documentation_fragment", [])}
    # The third kind writes its result on the controller.
    assert actions == waiting | telling | {"fleet_report"}


def test_the_module_looks_for_the_quota_that_the_role_creates_and_removes() -> None:
    named = [
        task["kubernetes.core.k8s"]
        for task in yaml.safe_load((ROOT / "roles" / "operator" / "tasks" / "namespace.yml").read_text())
        if "quota" in task["name"] or "critical" in task["name"]
    ]
    names = [task.get("name") or task["definition"]["metadata"]["name"] for task in named]
    assert names == [CRITICAL_PODS_QUOTA] * 2


def test_the_examples_show_what_ran_and_nothing_that_was_skipped() -> None:
    folders = {path.parent for path in (ROOT / "examples").glob("**/inventory.yml")}
    assert len(folders) > 5
    for folder in folders:
        found = configparser.ConfigParser()
        found.read(folder / "ansible.cfg")
        assert not found.getboolean("defaults", "display_skipped_hosts"), folder
        assert found.get("defaults", "callback_result_format") == "yaml"
