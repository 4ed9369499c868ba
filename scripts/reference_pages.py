# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write a page of docs/reference for each wing, the tables of README.md, and the table of docs/reference/playbooks.md.

docs/reference/wings.yml lists what belongs to each wing. The text of a row is the short description of the role or
plugin. The variables of the playbooks are those of playbooks/meta/argument_specs.yml. With --check, nothing is written,
and the exit status is 1 if a file is out of date. With --html FOLDER, the pages are written into FOLDER for Sphinx:
their links lead to the pages that antsibull-docs makes.
"""

from __future__ import annotations

import argparse
import sys
import typing as t
from pathlib import Path

import role_readmes
import yaml

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reference"
README = ROOT / "README.md"
PLAYBOOKS = PAGES / "playbooks.md"
TREE = "https://github.com/gpuops/gpuops.nvidia/blob/main"
NOTE = "<!-- Made by scripts/reference_pages.py from wings.yml and the short descriptions: change those instead. -->"
MARKS = ("<!-- Made by scripts/reference_pages.py -->\n", "<!-- End of what it makes -->\n")

Wing = dict[str, t.Any]
Link = t.Callable[[str, str], str]


def source(kind: str, name: str) -> str:
    """Return the path of the file that documents a role or plugin in the repository."""
    return {
        "role": f"roles/{name}/README.md",
        "module": f"plugins/modules/{name}.py",
        "filter": f"plugins/filter/{name}.py",
    }[kind]


def in_the_tree(kind: str, name: str) -> str:
    """Return the address of a role's or plugin's documentation for readers of the repository, and of Galaxy."""
    return f"{TREE}/{source(kind, name)}"


def in_the_html(kind: str, name: str) -> str:
    """Return the page that antsibull-docs makes for a role or plugin."""
    return f"collections/{name}_{kind}.rst"


def short_description(kind: str, name: str) -> str:
    """Return what a role or plugin says of itself in one line."""
    if kind == "role":
        specs = yaml.safe_load((ROOT / "roles" / name / "meta" / "argument_specs.yml").read_text())
        return str(specs["argument_specs"]["main"]["short_description"])
    text = (ROOT / source(kind, name)).read_text()
    documentation = text.split('DOCUMENTATION = r"""\n', 1)[1].split('\n"""', 1)[0]
    return str(yaml.safe_load(documentation)["short_description"])


def linked(kind: str, name: str, link: Link) -> str:
    """Return a name that links to its documentation."""
    return f"[`{name}`]({link(kind, name)})"


def page(wing: Wing, link: Link) -> str:
    """Return the reference page of a wing."""
    lines = [NOTE, f"# {wing['title']}", "", wing["about"]]
    for kind in ("role", "module", "filter"):
        names = wing[f"{kind}s"]
        if names:
            lines += ["", f"## {kind.capitalize()}s", "", f"| {kind.capitalize()} | What it does |", "|---|---|"]
            lines += [f"| {linked(kind, name, link)} | {short_description(kind, name)} |" for name in names]
    return "\n".join(lines) + "\n"


def tables(wings: dict[str, Wing]) -> str:
    """Return the tables of the README: the roles and modules of each wing."""
    lines = []
    for wing in wings.values():
        lines += [f"### {wing['title']}", "", "| | Name | What it does |", "|---|---|---|"]
        for name in wing["roles"]:
            lines.append(f"| role | {linked('role', name, in_the_tree)} | {short_description('role', name)} |")
        for name in wing["modules"]:
            lines.append(f"| module | `{name}` | {short_description('module', name)} |")
        lines.append("")
    return "\n".join(lines)


def variables() -> str:
    """Return the table of the variables that belong to no role."""
    specs = yaml.safe_load((ROOT / "playbooks" / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    titles = ["| Variable | Type | Default | Description |", "|---|---|---|---|"]
    return "\n".join([*titles, *role_readmes.rows(specs["site"]["options"]), ""])


def renewed(path: Path, made: str) -> str:
    """Return the text of a page with its made part replaced."""
    before, rest = path.read_text().split(MARKS[0], 1)
    after = rest.split(MARKS[1], 1)[1]
    return f"{before}{MARKS[0]}\n{made}\n{MARKS[1]}{after}"


def check_complete(wings: dict[str, Wing]) -> None:
    """Stop unless every role, module and filter stands in exactly one wing."""
    for kind, pattern in {
        "role": "roles/*",
        "module": "plugins/modules/[!_]*.py",
        "filter": "plugins/filter/[!_]*.py",
    }.items():
        found = sorted(path.stem for path in ROOT.glob(pattern))
        listed = sorted(name for wing in wings.values() for name in wing[f"{kind}s"])
        if listed != found:
            sys.exit(f"docs/reference/wings.yml lists the {kind}s {listed}, but there are {found}.")


def write(wanted: dict[Path, str]) -> None:
    """Write the files."""
    for path, text in wanted.items():
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    parser.add_argument("--html", type=Path, metavar="FOLDER", help="write the pages into FOLDER for Sphinx")
    arguments = parser.parse_args()
    wings = yaml.safe_load((PAGES / "wings.yml").read_text())
    check_complete(wings)
    if arguments.html:
        write({arguments.html / f"{name}.md": page(wing, in_the_html) for name, wing in wings.items()})
        return 0
    wanted = {PAGES / f"{name}.md": page(wing, in_the_tree) for name, wing in wings.items()}
    wanted |= {README: renewed(README, tables(wings)), PLAYBOOKS: renewed(PLAYBOOKS, variables())}
    stale = {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}
    if arguments.check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        print(f"Out of date: {names}. Run scripts/reference_pages.py.", file=sys.stderr)
        return 1
    write(stale)
    return 0


if __name__ == "__main__":
    sys.exit(main())
