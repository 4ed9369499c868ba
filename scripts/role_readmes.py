# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write every role's README.md from its meta/argument_specs.yml; with --check, say which are out of date instead."""

from __future__ import annotations

import argparse
import json
import re
import sys
import typing as t
from pathlib import Path

import yaml

ROLES = Path(__file__).parent.parent / "roles"
_MARKUP = re.compile(r"\b[CEMOPV]\((?P<text>[^()]*(?:\([^()]*\)[^()]*)*)\)|\bRV\((?P<value>[^()]*)\)")
_LINK = re.compile(r"\bL\((?P<text>[^,]+),\s*(?P<url>[^)]+)\)")

Spec = dict[str, t.Any]


def readme(name: str, entry_points: Spec) -> str:
    """The README of one role."""
    main = entry_points["main"]
    lines = [
        "<!--",
        "SPDX-License-" + "Identifier: GPL-3.0-or-later",  # in two parts, so that it is not taken for this file's own
        "SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors",
        "Made from meta/argument_specs.yml by scripts/role_readmes.py: change that instead.",
        "-->",
        f"# gpuops.nvidia.{name}",
        "",
        f"{main['short_description']}.",
        "",
        *(f"- {prose(line)}" for line in main.get("description", [])),
        "",
        "```yaml",
        "- hosts: localhost",
        "  gather_facts: false",
        "  roles:",
        f"    - gpuops.nvidia.{name}",
        "```",
        "",
        "## Variables",
        "",
        "| Variable | Type | Default | Description |",
        "|---|---|---|---|",
        *rows(main["options"]),
    ]
    others = {entry: spec for entry, spec in entry_points.items() if entry != "main"}
    for entry, spec in others.items():
        lines += [
            "",
            f"## Entry point `{entry}`",
            "",
            f"{spec['short_description']}.",
            "",
            *(f"- {prose(line)}" for line in spec.get("description", [])),
        ]
    return "\n".join(lines) + "\n"


def rows(options: Spec, prefix: str = "") -> t.Iterator[str]:
    """One table row for each option, the options inside it after it."""
    for name, option in options.items():
        path = f"{prefix}{name}"
        yield f"| `{path}` | {kind(option)} | {default(option)} | {text(option)} |"
        yield from rows(option.get("options", {}), f"{path}.")


def kind(option: Spec) -> str:
    """The type in words."""
    return f"list of {option['elements']}" if "elements" in option else str(option["type"])


def default(option: Spec) -> str:
    """The default as one would write it in YAML."""
    if option.get("required"):
        return "required"
    if "default" not in option:
        return ""
    value = option["default"]
    shown = value if isinstance(value, str) and value else json.dumps(value)
    return f"`{shown}`"


def text(option: Spec) -> str:
    """The description with the choices."""
    description = option["description"]
    parts = [prose(line) for line in ([description] if isinstance(description, str) else description)]
    if "choices" in option:
        parts.append("One of " + ", ".join(f"`{choice}`" for choice in option["choices"]) + ".")
    return " ".join(parts).replace("|", "\\|")


def prose(line: str) -> str:
    """Ansible's markup as Markdown."""
    linked = _LINK.sub(lambda match: f"[{match['text']}]({match['url']})", line)
    return _MARKUP.sub(lambda match: f"`{match['text'] or match['value']}`", linked)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 when a README is out of date")
    check = parser.parse_args().check
    stale = []
    for specs in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        role = specs.parent.parent
        wanted = readme(role.name, yaml.safe_load(specs.read_text())["argument_specs"])
        path = role / "README.md"
        if not path.exists() or path.read_text() != wanted:
            stale.append(str(path.relative_to(ROLES.parent)))
            if not check:
                path.write_text(wanted)
    if check and stale:
        print(f"Out of date: {', '.join(stale)}. Run scripts/role_readmes.py.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
