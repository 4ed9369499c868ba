# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documented options of a module are the options that it accepts: names, types, defaults and choices."""

from __future__ import annotations

import importlib
import pkgutil
import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.gpuops.nvidia.plugins import modules

NAMES = [found.name for found in pkgutil.iter_modules(modules.__path__)]
DOCUMENTED = ("type", "elements", "default", "choices", "required")


def shape(options: dict[str, dict[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    """Reduce documented or coded options to what must agree, with the defaults ``str`` and ``False`` filled in."""
    shaped = {}
    for name, option in options.items():
        facts = {key: option.get(key) for key in DOCUMENTED} | {
            "type": option.get("type", "str"),
            "required": bool(option.get("required")),
        }
        shaped[name] = {**facts, "suboptions": shape(option.get("suboptions") or option.get("options") or {})}
    return shaped


def documented_options(documentation: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    """Return the options of a module's documentation, with those of this collection's own fragments."""
    found = dict(documentation["options"])
    for fragment in documentation.get("extends_documentation_fragment", []):
        folder, dummy, name = fragment.rpartition(".")
        if folder == "gpuops.nvidia":
            ours = importlib.import_module(f"ansible_collections.gpuops.nvidia.plugins.doc_fragments.{name}")
            found.update(yaml_load(ours.ModuleDocFragment.DOCUMENTATION).get("options") or {})
    return found


@pytest.mark.parametrize("name", NAMES)
def test_documented_options_match_the_code(name: str) -> None:
    module = importlib.import_module(f"{modules.__name__}.{name}")
    documentation = yaml_load(module.DOCUMENTATION)
    assert documentation["module"] == name
    assert shape(documented_options(documentation)) == shape(module.OPTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_options_that_sound_like_secrets_set_no_log(name: str) -> None:
    module = importlib.import_module(f"{modules.__name__}.{name}")
    words = ("pass", "token", "secret", "key")
    assert [
        option
        for option, spec in module.OPTIONS.items()
        if any(word in option for word in words) and "no_log" not in spec
    ] == []


WITH_RELATIONS = {
    "driver_packages",
    "explain",
    "mig_config",
    "mig_layout",
    "node_maintenance",
    "gpu_smoke_test",
    "operator_chart_info",
}


@pytest.mark.parametrize("name", NAMES)
def test_relations_name_options_that_exist(name: str) -> None:
    """Ansible ignores a relation between options that a module does not have."""
    module = importlib.import_module(f"{modules.__name__}.{name}")
    relations = getattr(module, "RELATIONS", {})
    assert bool(relations) is (name in WITH_RELATIONS)
    named = {
        option
        for kind in ("mutually_exclusive", "required_one_of", "required_together")
        for pair in relations.get(kind, ())
        for option in pair
    }
    for option, value, needed, *dummy in relations.get("required_if", ()):
        assert value in module.OPTIONS[option]["choices"]
        named |= {option, *needed}
    assert named <= set(module.OPTIONS)
