# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The links, paths, names, variables and demo output on the pages agree with the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.filter.gpu_table import gpu_table
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import MINIMUM_HELM
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import preflight
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof import proof

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
UTILS = ROOT / "plugins" / "module_utils"
TREE = "https://github.com/gpuops/gpuops.nvidia/"
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (DOCS / "why" / "architecture.md").read_text()
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
WINGS = yaml.safe_load((DOCS / "reference" / "wings.yml").read_text())

LINK = re.compile(r"\]\(([^)\s]+)\)")
OWN_FOLDERS = "benchmarks|changelogs|docs|examples|lab|meta|molecule|playbooks|plugins|requirements|roles|scripts|tests"
NAMED_PATH = re.compile(rf"`((?:{OWN_FOLDERS})/[\w./-]*)`")


def links(page: str) -> list[str]:
    """Return the targets of a page's links, without those in blocks of code."""
    return LINK.findall(re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.S))


def table(text: str, first_title: str) -> list[list[str]]:
    """Return the rows of the table whose first column has this title, each as a list of its cells."""
    rows = text.split(f"\n| {first_title} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def code(cell: str) -> str:
    """Return the text of a cell that is one piece of code."""
    match = re.fullmatch(r"`([^`]+)`", cell)
    assert match, cell
    return match[1]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def defined_in(path: Path) -> set[str]:
    """Return the names that a Python file defines at its top level."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


# ---- links and paths ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_between_files_have_a_target(page: str) -> None:
    for link in links(page):
        target, dummy, anchor = link.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


@pytest.mark.parametrize("page", PAGES)
def test_links_to_the_repository_have_a_target(page: str) -> None:
    for link in links(page):
        if link.startswith((f"{TREE}blob/", f"{TREE}tree/")):
            path = re.sub(rf"^{re.escape(TREE)}(blob|tree)/main/", "", link).partition("#")[0]
            assert (ROOT / path).exists(), link


def test_the_links_of_the_readme_work_on_galaxy() -> None:
    assert [link for link in links("README.md") if not link.startswith("https://")] == []


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_a_page_names_exist(page: str) -> None:
    for path in NAMED_PATH.findall((ROOT / page).read_text()):
        assert (ROOT / path).exists() or any(ROOT.glob(f"roles/*/{path}")), path


def test_the_readme_and_the_front_page_link_each_other() -> None:
    assert f"{TREE}blob/main/docs/index.md" in links("README.md")
    assert f"{TREE}blob/main/README.md" in links("docs/index.md")


def test_the_pictures_of_the_mig_profiles_are_up_to_date() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "mig_pictures.py", "--check"], check=True)


def test_every_page_is_in_the_index_of_its_folder() -> None:
    rooms = sorted(path.name for path in DOCS.iterdir() if any(path.glob("*.md")))
    assert [room for room in rooms if f"{room}/index.md" not in links("docs/index.md")] == []
    assert sorted(path.name for path in DOCS.glob("*.md")) == ["index.md"]
    for room in rooms:
        pages = {path.name for path in (DOCS / room).glob("*.md")} - {"index.md"}
        assert pages <= set(links(f"docs/{room}/index.md")), room


# ---- the quick start ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/start/lab.md"])
def test_the_quick_start_shows_what_the_demo_prints(page: str) -> None:
    node = {
        "product": "NVIDIA-H100-80GB-HBM3",
        "driver": "595.91.07",
        "allocatable": {"nvidia.com/gpu": 8},
        "slices": [
            {"resource": "nvidia.com/gpu", "profile": None, "replicas": 1, "allocatable": 8, "allocated": 0},
        ],
        "ready": True,
    }
    fleet = gpu_table([{**node, "name": f"gpu-{number:04}"} for number in range(4)]).splitlines()
    printed = ",\n".join(f'        "{line}"' for line in fleet)
    text = (ROOT / page).read_text()
    assert f'ok: [localhost] => {{\n    "msg": [\n{printed}\n    ]\n}}\n' in text
    tasks = yaml.safe_load((ROOT / "roles" / "verify" / "tasks" / "report.yml").read_text())
    assert re.search(r"TASK \[gpuops.nvidia.verify : (.*)\] \*", text)[1] in [task["name"] for task in tasks]
    assert "make demo" in text


def test_minimum_versions_are_those_of_the_readme() -> None:
    helm = f"{MINIMUM_HELM} or newer"
    assert f"helm {helm}" in README
    assert f"[helm](https://helm.sh) {helm}" in (DOCS / "start" / "real_cluster.md").read_text()
    python = re.search(r"Python [\d.]+ or newer", README)[0]
    assert python in (DOCS / "start" / "lab.md").read_text().replace("\n", " ")


def test_the_installation_installs_the_packages_that_the_metadata_names() -> None:
    environment = yaml.safe_load((ROOT / "meta" / "execution-environment.yml").read_text())
    requirements = environment["dependencies"]["python"]
    assert f"-r {requirements}" in README
    assert f"-r {requirements}" in (DOCS / "start" / "real_cluster.md").read_text()


# ---- the reference -----------------------------------------------------------------------------------------------


def test_generated_pages_are_up_to_date() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "reference_pages.py", "--check"], check=True)


def test_the_readme_lists_every_role_and_module() -> None:
    names = [row[1] for row in table(README, "Wing")]
    roles = {match[1] for name in names if (match := re.match(r"role \[`(\w+)`\]", name))}
    assert roles == {path.name for path in (ROOT / "roles").iterdir()}
    modules = {code(name) for name in names if not name.startswith("role ")}
    assert modules == {path.stem for path in (ROOT / "plugins" / "modules").glob("[!_]*.py")}


def test_the_variables_without_a_role_are_documented() -> None:
    page = (DOCS / "reference" / "playbooks.md").read_text()
    used = set()
    for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("*.yml")]:
        used |= set(re.findall(r"\b(?:gpuops|explain)_[a-z_]+", path.read_text()))
    assert {code(row[0]) for row in table(page, "Variable")} == used


def plays_of(playbook: Path) -> list[str]:
    """Return the names of a playbook's plays, those of the playbooks that it imports among them."""
    plays = yaml.safe_load(playbook.read_text())
    imported = [play.get("ansible.builtin.import_playbook") for play in plays]
    names = [plays_of(playbook.parent / path) if path else [play["name"]] for play, path in zip(plays, imported)]
    return [name for each in names for name in each]


def test_the_plays_of_site_yml_are_documented() -> None:
    page = (DOCS / "reference" / "playbooks.md").read_text()
    assert [row[0] for row in table(page, "Play")] == plays_of(ROOT / "playbooks" / "site.yml")
    playbooks = {f"gpuops.nvidia.{path.stem}" for path in (ROOT / "playbooks").glob("*.yml")}
    assert {code(row[0]) for row in table(page, "Playbook")} == playbooks


def test_the_checks_of_a_host_are_documented() -> None:
    page = (DOCS / "tasks" / "preflight.md").read_text()
    assert {code(row[0]) for row in table(page, "Check")} == set(preflight.CHECKS)


def test_the_checks_of_a_proof_are_documented() -> None:
    page = (DOCS / "reference" / "gpu_facts.md").read_text()
    assert [code(row[0]) for row in table(page, "Check")] == list(proof.CHECKS)


# ---- the architecture --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fact", "file", "name"), table(ARCHITECTURE, "Fact"), ids=lambda cell: cell.strip("`"))
def test_each_fact_is_defined_where_the_architecture_says(fact: str, file: str, name: str) -> None:
    assert code(name) in defined_in(ROOT / code(file)), fact


def test_the_architecture_names_every_room() -> None:
    rooms = {
        str(path.relative_to(UTILS))
        for wing in ("_host", "_cluster")
        for path in (UTILS / wing).iterdir()
        if any(path.glob("*.py"))
    }
    assert {code(row[0]) for row in table(ARCHITECTURE, "Room")} == rooms


def test_the_architecture_names_every_file_that_both_wings_share() -> None:
    shared = {f"plugins/module_utils/{path.name}" for path in UTILS.glob("*.py")}
    assert shared <= set(NAMED_PATH.findall(ARCHITECTURE))


def test_modules_have_the_shape_that_the_architecture_describes() -> None:
    for path in (ROOT / "plugins" / "modules").glob("[!_]*.py"):
        assert {"DOCUMENTATION", "EXAMPLES", "RETURN", "OPTIONS", "main"} <= defined_in(path), path.name


def test_the_picture_of_the_architecture_names_what_exists() -> None:
    picture = (DOCS / "images" / "architecture.svg").read_text()
    words = set(re.findall(r"[\w/.]+", " ".join(re.findall(r"<text[^>]*>(.*?)</text>", picture))))
    assert words >= {name for wing in WINGS.values() for kind in ("roles", "modules") for name in wing[kind]}
    assert words >= {path.stem for path in UTILS.glob("*.py")}
    assert words >= {f"{path.name}/" for path in (UTILS / "_cluster").iterdir() if any(path.glob("*.py"))}
    files = {word for word in words if re.fullmatch(r"[\w/]+\.(py|yml)", word)}
    homes: t.Sequence[Path] = (ROOT, UTILS / "_host", UTILS / "_cluster")
    assert {file for file in files if not any((home / file).exists() for home in homes)} == set()
