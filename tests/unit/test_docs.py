# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The links, paths, names, variables and demo output on the pages agree with the tree."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.filter.gpu_table import gpu_table
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm_errors import MINIMUM_HELM
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import preflight
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof import proof

from scripts import check_site, publish_docs, role_readmes

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
UTILS = ROOT / "plugins" / "module_utils"
TREE = "https://github.com/gpuops/gpuops.nvidia/"
SITE = yaml.safe_load((ROOT / "galaxy.yml").read_text())["documentation"] + "main/"
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (DOCS / "why" / "architecture.md").read_text()
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
ROLES = sorted((ROOT / "roles").iterdir())
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


@pytest.mark.parametrize("page", PAGES)
def test_links_to_the_site_have_a_page(page: str) -> None:
    for link in links(page):
        if link.startswith(SITE):
            path, dummy, anchor = link.removeprefix(SITE).partition("#")
            generated = re.fullmatch(r"reference/collections/(\w+)_(module|role|filter)\.html", path)
            home = {"module": "plugins/modules/{}.py", "filter": "plugins/filter/{}.py", "role": "roles/{}"}
            source = ROOT / home[generated[2]].format(generated[1]) if generated else DOCS / f"{path[:-5]}.md"
            assert path.endswith(".html") and source.exists(), link
            assert not anchor or anchor in anchors(source), link


@pytest.mark.parametrize("page", PAGES)
def test_what_the_site_shows_is_not_linked_as_source(page: str) -> None:
    sources = rf"{re.escape(TREE)}blob/main/(docs/.*\.md|plugins/(modules|filter)/|roles/\w+/README)"
    assert [link for link in links(page) if re.match(sources, link)] == []


def test_the_links_of_the_readme_work_on_galaxy() -> None:
    assert [link for link in links("README.md") if not link.startswith("https://")] == []


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_a_page_names_exist(page: str) -> None:
    for path in NAMED_PATH.findall((ROOT / page).read_text()):
        assert (ROOT / path).exists() or any(ROOT.glob(f"roles/*/{path}")), path


def test_the_readme_and_the_front_page_link_each_other() -> None:
    assert f"{SITE}index.html" in links("README.md")
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


# ---- the site ----------------------------------------------------------------------------------------------------


def site_of(folder: Path, pages: dict[str, str]) -> Path:
    """Return a built site of these pages, whose search knows all but the page `unknown.html`."""
    for name, text in pages.items():
        (folder / name).write_text(text)
    names = [name.removesuffix(".html") for name in pages if name != "unknown.html"]
    (folder / "searchindex.js").write_text(f"Search.setIndex({json.dumps({'docnames': names})})")
    return folder


def test_a_site_without_faults_passes(tmp_path: Path) -> None:
    pages = {
        "index.html": '<a href="other.html#there">x</a> <a href="#here" id="here">y</a> <a href="https://a.org">z</a>',
        "other.html": '<h1 id="there">x</h1> <img src="index.html"> <nav class="toc-tree contents-like"></nav>',
    }
    assert list(check_site.problems(site_of(tmp_path, pages), SITE)) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.html", '<nav class="contents local"></nav>', "a.html shows Furo's error about a list of contents."),
        ("a.html", '<a href="b.html">x</a>', "a.html links to b.html, which does not exist."),
        ("a.html", '<a href="#b">x</a>', "a.html links to #b, which does not exist."),
        ("a.html", f'<a href="{SITE}a.html">x</a>', f"a.html leaves its version with {SITE}a.html."),
        ("unknown.html", "", "The search does not know unknown.html."),
    ],
)
def test_a_fault_of_a_site_is_named(tmp_path: Path, name: str, text: str, fault: str) -> None:
    assert list(check_site.problems(site_of(tmp_path, {name: text}), SITE)) == [fault]


def published(folder: Path) -> tuple[list[str], str]:
    """Return the versions that a site offers, and the one to which its front page leads."""
    front = re.search(r'url=([^"]+)/index.html"', (folder / "index.html").read_text())
    assert front and (folder / ".nojekyll").exists()
    return json.loads((folder / "versions.json").read_text()), front[1]


def test_a_version_is_published_beside_the_others(tmp_path: Path) -> None:
    site, pages = tmp_path / "site", tmp_path / "html"
    for folder in (site, pages):
        folder.mkdir()
    (pages / "page.html").write_text("old")
    publish_docs.put(pages, site, "main")
    assert published(site) == (["main"], "main")
    for version in ("1.9.0", "1.10.0", "1.2.3"):
        publish_docs.put(pages, site, version)
    assert published(site) == (["1.10.0", "1.9.0", "1.2.3", "main"], "1.10.0")
    (pages / "page.html").rename(pages / "new.html")
    publish_docs.put(pages, site, "main")
    assert [path.name for path in (site / "main").iterdir()] == ["new.html"]
    assert [path.name for path in (site / "1.9.0").iterdir()] == ["page.html"]


@pytest.mark.parametrize("version", ["", "feature", "1.2", "../1.2.3"])
def test_a_version_that_is_none_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(SystemExit, match="is not a version"):
        publish_docs.put(tmp_path, tmp_path, version)


def git(*arguments: str, folder: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_publishing_adds_to_the_branch_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@example.com")
    remote, root = tmp_path / "remote", tmp_path / "root"
    git("init", "--quiet", "--bare", str(remote), folder=tmp_path)
    git("clone", "--quiet", str(remote), str(root), folder=tmp_path)
    (root / "README.md").write_text("x")
    (root / ".gitignore").write_text("/build/\n")
    git("add", ".", folder=root)
    git("commit", "--quiet", "--message=x", folder=root)
    html = root / "build" / "docs" / "html"
    html.mkdir(parents=True)
    (html / "index.html").write_text("x")
    for version in ("main", "1.0.0", "1.0.0"):
        publish_docs.publish(root, version)
    names = git("ls-tree", "-r", "--name-only", "gh-pages", folder=remote).split()
    assert names == [".nojekyll", "1.0.0/index.html", "index.html", "main/index.html", "versions.json"]
    assert git("log", "--format=%s", "gh-pages", folder=remote).splitlines()[0] == "The pages of 1.0.0"
    assert git("worktree", "list", folder=root).count("\n") == 1


def test_docsite_links_where_the_metadata_link() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    given = yaml.safe_load((DOCS / "docsite" / "links.yml").read_text())
    assert galaxy["repository"] == f"https://github.com/{given['edit_on_github']['repository']}"
    assert galaxy["documentation"] in [link["url"] for link in given["extra_links"]]
    assert given["communication"]
    sections = yaml.safe_load((DOCS / "docsite" / "extra-docs.yml").read_text())["sections"]
    guides = {f"{name}.rst" for section in sections for name in section["toctree"]}
    assert guides == {path.name for path in (DOCS / "docsite" / "rst").iterdir()}


# ---- what roles say before they are used ---------------------------------------------------------------------------


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_every_role_says_what_to_consider(role: str) -> None:
    given = yaml.safe_load((ROOT / "roles" / role / "meta" / "readme.yml").read_text())["considerations"]
    assert list(given) == list(role_readmes.CONSIDERATIONS) and all(given.values())
    text = " ".join(given.values())
    specs = [*ROOT.glob("roles/*/meta/argument_specs.yml"), ROOT / "playbooks" / "meta" / "argument_specs.yml"]
    variables = set(re.findall(r"^      (\w+):", "".join(path.read_text() for path in specs), re.M))
    named = set(re.findall(rf"C\(((?:{'|'.join(path.name for path in ROLES)}|gpuops)_\w+)", text))
    exported = set(yaml.safe_load((ROOT / "roles" / role / "meta" / "readme.yml").read_text())["exports"])
    assert named <= variables | exported | {path.name for path in ROLES}
    files = (ROOT / "roles" / "preflight" / "files").glob("cluster_role_*.yml")
    assert set(re.findall(r"C\((gpuops-\w+)\)", text)) <= {f"gpuops-{path.stem[13:]}" for path in files}


# ---- the reference -----------------------------------------------------------------------------------------------


def test_generated_pages_are_up_to_date() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "reference_pages.py", "--check"], check=True)


def test_the_readme_shows_a_dozen_to_start_with_and_links_to_the_rest() -> None:
    names = [row[1] for row in table(README, "Wing")]
    assert 10 <= len(names) <= 14
    start = [(f"role {name}", wing["roles"]) for wing in WINGS.values() for name in wing["start"]["roles"]]
    start += [(name, wing["modules"]) for wing in WINGS.values() for name in wing["start"]["modules"]]
    assert sorted(re.sub(r"[\[`\]]|\(.*\)", "", name) for name in names) == sorted(name for name, dummy in start)
    assert all(name.removeprefix("role ") in listed for name, listed in start), "It is on the page, and no plumbing."
    assert {f"{SITE}reference/{wing}.html" for wing in WINGS} <= set(links("README.md"))


PLUMBING = {
    (kind, name): owner
    for wing in WINGS.values()
    for kind in ("module", "filter")
    for name, owner in wing["plumbing"][f"{kind}s"].items()
}


def test_the_page_of_goals_leads_to_every_role_and_to_no_plumbing() -> None:
    named = set(re.findall(r"/(\w+)_(role|module)\.html", " ".join(links("docs/tasks/which_role.md"))))
    assert {name for name, kind in named if kind == "role"} == {path.name for path in ROLES}
    assert {(kind, name) for name, kind in named} & set(PLUMBING) == set()
    playbooks = {path.name for path in (ROOT / "playbooks").glob("*.yml")}
    for page in ("tasks/which_role.md", "reference/durations.md"):
        assert set(re.findall(r"`(\w+\.yml)`", (DOCS / page).read_text())) == playbooks, page


@pytest.mark.parametrize(("kind", "folder"), [("module", "modules"), ("filter", "filter")])
def test_what_serves_one_role_says_so_in_its_first_line(kind: str, folder: str) -> None:
    for path in sorted((ROOT / "plugins" / folder).glob("[!_]*.py")):
        text = yaml.safe_load(path.read_text().split('DOCUMENTATION = r"""', 1)[1].split('"""', 1)[0])
        said = re.match(r"Plumbing of the (.*?): [a-z]", text["short_description"])
        assert (said[1] if said else None) == PLUMBING.get((kind, path.stem)), path.name


@pytest.mark.parametrize(("kind", "name"), PLUMBING)
def test_plumbing_is_used_by_its_owner_only(kind: str, name: str) -> None:
    """A role that includes another one sets the connection of its modules, which is no use."""
    call = re.compile(rf"\bgpuops\.nvidia\.{name}\b(?!: [&*])")
    found = {
        path for top in ("roles", "playbooks") for path in (ROOT / top).rglob("*.yml") if path.parent.name != "meta"
    }
    users = {path.relative_to(ROOT) for path in found if call.search(path.read_text())}
    owner = PLUMBING[kind, name]
    folder = Path("roles", owner.removeprefix("role ")) if owner.startswith("role ") else Path("playbooks")
    assert users and all(folder in path.parents for path in users)


@pytest.mark.parametrize("wing", WINGS)
def test_plumbing_stands_last_on_its_page(wing: str) -> None:
    before, last = (DOCS / "reference" / f"{wing}.md").read_text().split("\n## Plumbing\n")
    marked = [name for kind in ("modules", "filters") for name in WINGS[wing]["plumbing"][kind]]
    assert re.findall(r"^\| \[`(\w+)`\]", last, re.MULTILINE) == marked
    assert "Plumbing of the" not in before and last.count("Plumbing of the") == len(marked)


def test_the_variables_without_a_role_are_documented() -> None:
    page = (DOCS / "reference" / "playbooks.md").read_text()
    used = set()
    for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("*.yml")]:
        used |= set(re.findall(r"\b(?:gpuops|explain|claims|images)_[a-z_]+", path.read_text()))
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


def test_modules_have_the_shape_that_the_architecture_describes() -> None:
    for path in (ROOT / "plugins" / "modules").glob("[!_]*.py"):
        assert {"DOCUMENTATION", "EXAMPLES", "RETURN", "SPEC", "main"} <= defined_in(path), path.name


def test_the_picture_of_the_architecture_names_what_exists() -> None:
    """It shows examples. The tables of the page and of the reference are complete."""
    picture = (DOCS / "images" / "architecture.svg").read_text()
    words = set(re.findall(r"[\w/.]+", " ".join(re.findall(r"<text[^>]*>(.*?)</text>", picture))))
    homes: t.Sequence[Path] = (ROOT, UTILS, UTILS / "_host", UTILS / "_cluster")
    paths = {word for word in words if re.fullmatch(r"[\w/]+(\.(py|yml)|/)", word)}
    assert {path for path in paths if not any((home / path).exists() for home in homes)} == set()
    known = {name for wing in WINGS.values() for kind in ("roles", "modules") for name in wing[kind]}
    known |= {name for wing in WINGS.values() for name in wing["plumbing"].get("modules", {})}
    assert {word for word in words if re.fullmatch(r"[a-z]+(_[a-z]+)+", word)} <= known
