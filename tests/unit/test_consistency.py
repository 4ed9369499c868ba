# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that stand in two places agree: metadata, README, documentation, requirements and code."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
import typing as t
from pathlib import Path

import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils import _compatibility
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MODULES = {path.stem: path for path in (ROOT / "plugins" / "modules").glob("[!_]*.py")}
ROLES = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())
RUNTIME = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())


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
    makers = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("Reason", "_about")]
    given = [
        node for call in makers for node in [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "code")]
    ]
    literal = {node.value for node in given if isinstance(node, ast.Constant)}
    # Those that pods give, and the one that the operator's own Error condition gives.
    return literal | set(pods.NEVER_STARTS) | {"CrashLoopBackOff", "PodsNotReady", "ReconcileFailed"}


def test_the_action_group_has_every_module_that_takes_the_connection_options() -> None:
    assert RUNTIME["action_groups"]["k8s"] == sorted(
        name
        for name in MODULES
        if "kubernetes.core.k8s_auth_options" in documentation(name).get("extends_documentation_fragment", [])
    )


def test_every_code_of_a_verdict_is_explained() -> None:
    assert first_column((ROOT / "docs" / "reference" / "verdict.md").read_text(), "Code") == codes_of_the_judge()


def test_minimum_versions_agree() -> None:
    requirements = README.split("## Requirements", 1)[1].split("\n## ", 1)[0]
    for name, bound in GALAXY["dependencies"].items():
        assert f"`{name}` {bound.removeprefix('>=')}" in requirements
    for line in (ROOT / "meta" / "ee-requirements.txt").read_text().splitlines():
        if line.startswith("kubernetes"):
            assert f"`kubernetes` {line.removeprefix('kubernetes>=')} or newer" in requirements
            stated = {
                need
                for module in MODULES
                for need in documentation(module).get("requirements", [])
                if need.startswith("kubernetes")
            }
            assert stated <= {line.replace(">=", " >= ")}
    helm = re.search(
        r'^MINIMUM_HELM = "(.*)"', (ROOT / "plugins/module_utils/_cluster/chart/helm.py").read_text(), re.M
    )[1]
    assert f"helm {helm} or newer" in requirements
    assert {
        need for module in MODULES for need in documentation(module).get("requirements", []) if need.startswith("helm")
    } == {f"helm >= {helm}"}
    cores = re.findall(r"2\.\d+", requirements.split("ansible-core", 1)[1].split(", helm", 1)[0])
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
    assert set(re.findall(r"v([\d.]+)", stated)) == set(_compatibility.LINES)


def test_every_development_tool_is_pinned_and_no_index_is_named() -> None:
    for name in ("dev", "importer"):
        wanted = {
            line
            for line in (ROOT / "requirements" / f"{name}.in").read_text().splitlines()
            if line and not line.startswith("#")
        }
        locked = (ROOT / "requirements" / f"{name}.txt").read_text()
        assert {tool.lower() for tool in wanted} <= set(re.findall(r"^([a-z0-9.-]+)==", locked, re.M))
        assert "://" not in locked and "--" not in re.sub(r"#.*", "", locked)


def test_the_set_up_brings_every_dependency() -> None:
    bootstrap = ast.parse((ROOT / "scripts" / "bootstrap.py").read_text())
    assigned = {
        node.targets[0].id: node.value
        for node in bootstrap.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    brought = {name.replace("/", ".") for name in ast.literal_eval(assigned["COLLECTIONS"])}
    # It also brings what those depend on.
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


def test_modules_that_wait_with_progress_have_an_action_of_their_name() -> None:
    actions = {path.stem for path in (ROOT / "plugins" / "action").glob("[!_]*.py")}
    assert actions == {name for name in MODULES if {"wait", "progress_path"} & set(documentation(name)["options"])}
