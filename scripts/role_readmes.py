# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the README.md of every role, and the generated parts of docs/reference/playbooks.md.

The sources are the argument specs, meta/readme.yml of each role, and the tasks. With --check, nothing is written, and the
exit status is 1 if a file is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
ROLES = sorted(path.parent.parent for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
PLAYBOOKS = ROOT / "docs" / "reference" / "playbooks.md"
HEADER = [
    "<!--",
    "SPDX-License-" + "Identifier: GPL-3.0-or-later",  # in two parts, so that it is not taken for this file's own
    "SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors",
    "Generated from meta/argument_specs.yml and meta/readme.yml by scripts/role_readmes.py: change those instead.",
    "-->",
]
LONGEST_CHOICES = 60
"""Longer lists of choices stand below the table instead of in its cell."""

_MARKUP = re.compile(r"\b[CEMOPV]\((?P<text>[^()]*(?:\([^()]*\)[^()]*)*)\)|\bRV\((?P<value>[^()]*)\)")
_LINK = re.compile(r"\bL\((?P<text>[^,]+),\s*(?P<url>[^)]+)\)")

Spec = dict[str, t.Any]
Lines = t.Iterator[str]


def load(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text())


def entry_points(specs: Path) -> dict[str, Spec]:
    return load(specs)["argument_specs"]


# ---- the README of a role ----------------------------------------------------------------------------------------


def readme(role: Path) -> str:
    """Return the README of a role."""
    specs, about = entry_points(role / "meta" / "argument_specs.yml"), load(role / "meta" / "readme.yml")
    lines = [*HEADER, f"# gpuops.nvidia.{role.name}", "", *introduction(role.name, "main", specs["main"], about)]
    lines += ["", "## Variables", "", *variables(specs["main"]["options"])]
    lines += ["", "## Exports", "", "| Name | Content |", "|---|---|"]
    lines += [f"| `{name}` | {prose(text)} |" for name, text in about["exports"].items()]
    for entry, spec in specs.items():
        if entry != "main":
            lines += ["", f"## Entry point `{entry}`", "", *introduction(role.name, entry, spec, about)]
    return "\n".join(lines) + "\n"


def introduction(role: str, entry: str, spec: Spec, about: Spec) -> Lines:
    """Yield what an entry point does, and a play that runs it."""
    yield from [f"{spec['short_description']}.", ""]
    yield from (f"- {prose(line)}" for line in spec["description"])
    yield from ["", "```yaml", dump([play(role, entry, spec["short_description"], about["plays"][entry])]), "```"]


def play(role: str, entry: str, name: str, about: Spec) -> Spec:
    """Return a play that runs an entry point of a role. Only GPU hosts need root."""
    on_hosts = about["hosts"] == "gpu_hosts"
    base = {"hosts": about["hosts"], **({"become": True} if on_hosts else {}), "gather_facts": False}
    base |= about.get("play", {})
    variables = {"vars": about["vars"]} if "vars" in about else {}
    if entry == "main":
        return {**base, "roles": [{"role": f"gpuops.nvidia.{role}", **variables}]}
    task = {"name": name, "ansible.builtin.include_role": {"name": f"gpuops.nvidia.{role}", "tasks_from": entry}}
    return {**base, "tasks": [{**task, **variables}]}


class _Indented(yaml.SafeDumper):
    """Indents the elements of a list, as ansible-lint wants them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def dump(value: t.Any) -> str:
    return yaml.dump(value, Dumper=_Indented, sort_keys=False, width=100).rstrip()


# ---- tables of variables -----------------------------------------------------------------------------------------


def variables(options: Spec) -> Lines:
    """Yield a table with one row for each option, and below it what does not fit into a cell."""
    described = list(flattened(options))
    yield from ["| Variable | Type | Default | Description |", "|---|---|---|---|"]
    for name, option in described:
        yield f"| `{name}` | {kind(option)} | {default(option)} | {cell(option)} |"
    for name, option in described:
        details = further(option)
        if details:
            yield from ["", f"`{name}`:", "", *(f"- {line}" for line in details)]


def flattened(options: Spec, prefix: str = "") -> t.Iterator[tuple[str, Spec]]:
    """Yield each option with its name, followed by its suboptions."""
    for name, option in options.items():
        yield f"{prefix}{name}", option
        yield from flattened(option.get("options", {}), f"{prefix}{name}.")


def kind(option: Spec) -> str:
    """Return the type in words."""
    return f"list of {option['elements']}" if "elements" in option else str(option["type"])


def default(option: Spec) -> str:
    """Return the default as it is written in YAML."""
    if option.get("required"):
        return "required"
    if "default" not in option:
        return ""
    value = option["default"]
    shown = value if isinstance(value, str) and value else json.dumps(value)
    return f"`{shown}`"


def description(option: Spec) -> list[str]:
    text = option["description"]
    return [text] if isinstance(text, str) else text


def choices(option: Spec) -> str:
    names = ", ".join(f"`{choice}`" for choice in option.get("choices", []) if choice)
    return f"One of {names}." if names else ""


def cell(option: Spec) -> str:
    """Return the first line of the description, with the choices if they are few."""
    listed = choices(option)
    parts = [prose(description(option)[0]), listed if len(listed) <= LONGEST_CHOICES else ""]
    return " ".join(filter(None, parts)).replace("|", "\\|")


def further(option: Spec) -> list[str]:
    """Return what the cell leaves out."""
    listed = choices(option)
    lines = [prose(line) for line in description(option)[1:]]
    return [*lines, *([listed] if len(listed) > LONGEST_CHOICES else [])]


def prose(line: str) -> str:
    """Return a text with Ansible's markup as Markdown."""
    linked = _LINK.sub(lambda match: f"[{match['text']}]({match['url']})", line)
    return _MARKUP.sub(lambda match: f"`{match['text'] or match['value']}`", linked)


# ---- the page of the playbooks -----------------------------------------------------------------------------------


def playbooks_page() -> str:
    """Return docs/reference/playbooks.md with its generated parts renewed."""
    options = entry_points(ROOT / "playbooks" / "meta" / "argument_specs.yml")["site"]["options"]
    parts = {"variables": variables(options), "facts": facts_table()}
    page = PLAYBOOKS.read_text()
    for name, lines in parts.items():
        begin, end = f"<!-- {name}: generated by scripts/role_readmes.py -->\n", f"<!-- end of {name} -->\n"
        before, rest = page.split(begin, 1)
        page = "".join([before, begin, "\n", "\n".join(lines), "\n\n", end, rest.split(end, 1)[1]])
    return page


def facts_table() -> Lines:
    """Yield which task of which role reads the facts of a host, and when."""
    yield from ["| Role | Tasks | Subsets | Condition |", "|---|---|---|---|"]
    for role in ROLES:
        for path in sorted(role.glob("tasks/*.yml")):
            for task in load(path):
                if "gpuops.nvidia.gpu_facts" in task:
                    subsets = ", ".join(task["gpuops.nvidia.gpu_facts"]["gather_subset"])
                    condition = f"`{task['when']}`" if "when" in task else "always"
                    yield f"| `{role.name}` | `{path.stem}` | {subsets} | {condition} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    check = parser.parse_args().check
    wanted = {role / "README.md": readme(role) for role in ROLES} | {PLAYBOOKS: playbooks_page()}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        print(f"Out of date: {names}. Run scripts/role_readmes.py.", file=sys.stderr)
        return 1
    for path in stale:
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
