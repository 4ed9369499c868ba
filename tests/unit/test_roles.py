# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the roles say about their variables is true: specs, defaults, READMEs and presets agree by value."""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())


def load(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text())


def options(role: Path) -> dict[str, t.Any]:
    return load(role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_are_the_ones_in_the_specs(role: Path) -> None:
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    # A default that is made of another variable cannot stand in a spec whose type is not a string.
    defaults = {
        name: value
        for name, value in load(role / "defaults" / "main.yml").items()
        if name in documented or "{{" not in str(value)
    }
    assert defaults == documented


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_public_variables_carry_the_name_of_the_role_and_internal_ones_two_underscores(role: Path) -> None:
    assert all(name.startswith(f"{role.name}_") for name in options(role))
    for path in (role / "vars").glob("**/*.yml"):
        assert all(name.startswith(f"__{role.name}_") for name in load(path)), path


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_option_is_typed_and_described(role: Path) -> None:
    def check(name: str, option: dict[str, t.Any]) -> None:
        assert option["type"] and option["description"], name
        assert "elements" in option or option["type"] != "list", name
        for inner, spec in option.get("options", {}).items():
            check(f"{name}.{inner}", spec)

    for name, option in options(role).items():
        check(name, option)


def test_readmes_are_made_from_the_specs() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "role_readmes.py", "--check"], check=True)


def test_every_preset_has_its_data() -> None:
    choices = options(ROOT / "roles" / "operator")["operator_preset"]["choices"]
    files = {path.stem: load(path) for path in (ROOT / "roles" / "operator" / "vars" / "presets").iterdir()}
    assert sorted(files) == sorted(choices)
    assert all(
        data.keys() == {"__operator_preset_values", "__operator_preset_critical_pods"} for data in files.values()
    )


def test_preflight_knows_the_checks_of_its_module() -> None:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import checks
    from ansible_collections.gpuops.nvidia.plugins.module_utils._host import preflight

    spec = options(ROOT / "roles" / "preflight")
    assert sorted(spec["preflight_skip"]["choices"]) == sorted([*checks.CHECKS, *preflight.CHECKS])
    assert spec["preflight_tolerate"]["choices"] == spec["preflight_skip"]["choices"]


def test_roles_name_the_units_of_nvidias_services_as_the_facts_do() -> None:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES

    texts = [path.read_text() for role in ROLES for path in [*role.glob("tasks/*.yml"), *role.glob("vars/*.yml")]]
    units = {unit for text in texts for unit in re.findall(r"\bnv[a-z-]+\.service\b", text)}
    assert units and units <= {service.unit for service in SERVICES.values()}
