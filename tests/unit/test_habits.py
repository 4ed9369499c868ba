# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CI, the setup and the release cover the versions that the collection promises, and use pinned tools only."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm_errors import MINIMUM_HELM

from scripts import bootstrap, release
from tests.support import wording

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())
RUNTIME = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
REQUIREMENTS = (ROOT / "README.md").read_text().split("\n## Requirements\n", 1)[1].split("\n## ", 1)[0]
OLDEST = os.environ.get("GPUOPS_DEPENDENCIES") == "oldest"


def matrix(job: str) -> list[tuple[str, str]]:
    """Return the pairs of ansible-core and Python with which a job runs."""
    return [(entry["ansible-core"], entry["python"]) for entry in JOBS[job]["strategy"]["matrix"]["include"]]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def pins(text: str) -> dict[str, str]:
    """Return the version of each package in a requirements file, whichever operator precedes it."""
    return dict(re.findall(r"^([\w.-]+)[=>]=([\d.]+)", text, re.M))


def steps() -> t.Iterator[dict[str, t.Any]]:
    for workflow in WORKFLOWS:
        for job in yaml.safe_load(workflow.read_text())["jobs"].values():
            yield from job["steps"]


# ---- versions in CI ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", ["unit", "everything"])
def test_ci_runs_each_promised_line_of_ansible_core(job: str) -> None:
    promised = re.findall(r"2\.\d+", REQUIREMENTS.split("ansible-core", 1)[1].split(", helm", 1)[0])
    tested = {core for core, python in matrix(job)}
    assert tested == set(promised)
    assert RUNTIME["requires_ansible"] == f">={min(tested, key=numbers)}.0"


def test_ci_runs_each_python_that_ansible_core_supports() -> None:
    """Each job of the matrix checks the line that it has installed, by that line's own metadata."""
    core = importlib.metadata.metadata("ansible-core")
    line = ".".join(core["Version"].split(".")[:2])
    supported = re.findall(r":: (3\.\d+)$", "\n".join(core.get_all("Classifier") or []), re.M)
    assert sorted(python for tested, python in matrix("unit") if tested == line) == sorted(supported)


def test_ci_runs_the_oldest_promised_python() -> None:
    pythons = {python for core, python in matrix("unit")}
    oldest = min(pythons, key=numbers)
    assert f"Controller: Python {oldest} or newer" in REQUIREMENTS
    setup = next(step["with"] for step in JOBS["oldest"]["steps"] if "setup-python" in step.get("uses", ""))
    assert setup["python-version"] == oldest
    assert numbers(oldest) == bootstrap.MINIMUM


def test_every_test_runs_with_a_pair_that_the_unit_tests_cover() -> None:
    assert set(matrix("everything")) <= set(matrix("unit"))


def test_ci_installs_the_oldest_python_of_hosts_for_the_unit_tests() -> None:
    oldest = re.search(r"Managed hosts: their own Python, ([\d.]+) or newer", REQUIREMENTS)
    setup = next(step["with"] for step in JOBS["unit"]["steps"] if "setup-python" in step.get("uses", ""))
    assert oldest and setup["python-version"].splitlines()[0] == oldest[1]


def test_the_installed_ansible_core_is_of_the_chosen_line() -> None:
    line = os.environ.get("GPUOPS_ANSIBLE_CORE", "")
    assert importlib.metadata.version("ansible-core").startswith(line)


# ---- oldest versions ---------------------------------------------------------------------------------------------


def test_the_oldest_packages_are_the_promised_ones() -> None:
    promised = pins((ROOT / "meta" / "ee-requirements.txt").read_text())
    promised["ansible-core"] = RUNTIME["requires_ansible"].removeprefix(">=")
    assert pins((ROOT / "requirements" / "oldest.in").read_text()) == promised


def test_the_oldest_helm_is_the_promised_one() -> None:
    assert bootstrap.OLDEST_HELM.endswith(f"@v{MINIMUM_HELM}.0")


def test_every_dependency_has_an_oldest_version() -> None:
    assert {name.replace("/", ".") for name in bootstrap.OLDEST_COLLECTIONS} == set(GALAXY["dependencies"])


@pytest.mark.parametrize("name", GALAXY["dependencies"])
def test_the_installed_collections_are_the_chosen_ones(name: str) -> None:
    manifest = Path(sys.prefix) / "share" / "ansible_collections" / name.replace(".", "/") / "MANIFEST.json"
    installed = json.loads(manifest.read_text())["collection_info"]["version"]
    promised = GALAXY["dependencies"][name].removeprefix(">=")
    assert installed == promised if OLDEST else numbers(installed) >= numbers(promised)


@pytest.mark.parametrize("oldest", [True, False])
def test_the_setup_installs_each_collection_from_one_package(oldest: bool) -> None:
    packages = bootstrap.packages_of_collections(oldest)
    assert sorted(name for names in packages.values() for name in names) == sorted(bootstrap.COLLECTIONS)


def test_the_setup_refuses_an_unknown_choice_of_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "CHOICE", "newest")
    with pytest.raises(SystemExit, match="GPUOPS_DEPENDENCIES is newest: set it to pinned or oldest"):
        bootstrap.wants_oldest()


# ---- workflows and hooks -----------------------------------------------------------------------------------------


def test_each_action_is_pinned_to_one_commit() -> None:
    used = re.findall(r"uses: (\S+?)@(.*)", "\n".join(workflow.read_text() for workflow in WORKFLOWS))
    assert [pin for action, pin in used if not re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin)] == []
    assert len({action for action, pin in used}) == len(set(used))


def test_jobs_run_make_targets() -> None:
    commands = [step["run"] for step in steps() if "run" in step]
    others = [command for command in commands if not re.match(r"(sudo .* )?make [a-z-]+", command)]
    # The exceptions: the job that gathers the results, and the release on GitHub.
    assert [command.split()[0] for command in others] == ["exit", "gh"]
    targets = {match[1] for match in re.finditer(r"\bmake ([a-z-]+)", "\n".join(commands))}
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_have_least_permissions_and_a_limit(workflow: Path) -> None:
    text = yaml.safe_load(workflow.read_text())
    assert text["permissions"] == {} and "concurrency" in text
    for job in text["jobs"].values():
        assert "permissions" in job and "timeout-minutes" in job


def test_the_required_job_waits_for_every_job_of_a_pull_request() -> None:
    assert set(JOBS["passed"]["needs"]) == {name for name, job in JOBS.items() if "if" not in job}


def test_hooks_call_the_tools_of_the_checks() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert {repository["repo"] for repository in config["repos"]} == {"local"}
    assert {hook["language"] for hook in hooks} == {"system"}
    makefile = (ROOT / "Makefile").read_text()
    called = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert [tool for tool in called if f"$(BIN)/{tool}" not in makefile] == []


def test_dependabot_looks_at_folders_that_exist() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    folders = {update["package-ecosystem"]: ROOT / update["directory"].lstrip("/") for update in updates}
    assert folders["github-actions"] == ROOT
    assert (folders["pip"] / "dev.in").is_file()
    assert (folders["gomod"] / "go.mod").is_file()


# ---- wording -----------------------------------------------------------------------------------------------------


OTHERS = ("NVRM: ", "No space left on device", "Error! Bad return status", "Unable to retrieve some image pull secrets")
"""The beginnings of other programs' messages, which plugins know and tests quote."""


def test_tests_leave_sentences_to_snapshots() -> None:
    """Tests of modules take them from ``wording("...")``. Tests with labs and hosts ask for names, codes and key words."""
    known = wording.messages()
    files = [
        path for folder in ("unit", "roles", "integration") for path in (ROOT / "tests" / folder).rglob("test_*.py")
    ]
    copied = [copy for file in files for copy in wording.copies(file, known)]
    assert [copy for copy in copied if not any(words in copy for words in OTHERS)] == []


# ---- releases ----------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean tree at 1.0.0 with one fragment for the next release."""
    (tmp_path / "changelogs" / "fragments").mkdir(parents=True)
    (tmp_path / "galaxy.yml").write_text("version: 1.0.0\n")
    (tmp_path / "changelogs" / "changelog.yaml").write_text("releases: {1.0.0: {}}\n")
    (tmp_path / "changelogs" / "fragments" / "news.yml").write_text("minor_changes: [news]\n")
    for name in ("ROOT", "GALAXY", "CHANGELOG", "FRAGMENTS"):
        monkeypatch.setattr(release, name, tmp_path / getattr(release, name).relative_to(ROOT))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=test")
    return tmp_path


def test_a_clean_tree_with_a_fragment_can_be_released(tree: Path) -> None:
    assert release.before_release("1.0.1") == []


def test_a_release_needs_a_clean_tree(tree: Path) -> None:
    (tree / "new").touch()
    assert release.before_release("1.0.1") == ["The working tree has changes: commit or remove them."]


def test_a_release_needs_a_fragment(tree: Path) -> None:
    git(tree, "rm", "--quiet", "changelogs/fragments/news.yml")
    git(tree, "commit", "--quiet", "--message=test")
    assert release.before_release("1.0.1") == [
        "changelogs/fragments is empty: a release needs at least one fragment that says what is new."
    ]


@pytest.mark.parametrize("version", ["1.0.0", "0.9.12"])
def test_a_release_needs_a_newer_version(tree: Path, version: str) -> None:
    assert release.before_release(version) == [f"{version} is not newer than the last release, 1.0.0."]


def test_a_release_needs_a_new_tag(tree: Path) -> None:
    git(tree, "tag", "1.0.1")
    assert release.before_release("1.0.1") == ["The tag 1.0.1 exists already: choose a new version."]


def test_a_tag_must_match_the_version_and_its_changelog_must_hold_every_fragment(tree: Path) -> None:
    assert release.after_release("1.0.0") == ["These fragments are in no release: news.yml."]
    (tree / "changelogs" / "fragments" / "news.yml").unlink()
    assert release.after_release("1.0.0") == []
    assert release.after_release("1.0.1") == [
        "galaxy.yml says 1.0.0, and the tag says 1.0.1.",
        "changelogs/changelog.yaml has no release 1.0.1: run `make release VERSION=1.0.1`.",
    ]
