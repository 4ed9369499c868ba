# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documented options of a module are those that it accepts, and their relations name options that there are."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.gpuops.nvidia.plugins import modules
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION

NAMES = [found.name for found in pkgutil.iter_modules(modules.__path__)]
AUTH_OPTIONS = "kubernetes.core.k8s_auth_options"
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


def spec_of(name: str) -> ArgumentSpec:
    """Return what a module accepts."""
    spec = importlib.import_module(f"{modules.__name__}.{name}").SPEC
    assert isinstance(spec, ArgumentSpec)
    return spec


def documentation_of(name: str) -> dict[str, t.Any]:
    return dict(yaml_load(importlib.import_module(f"{modules.__name__}.{name}").DOCUMENTATION))


@pytest.mark.parametrize("name", NAMES)
def test_documented_options_match_the_code(name: str) -> None:
    documentation, options = documentation_of(name), dict(spec_of(name).options)
    assert documentation["module"] == name
    if AUTH_OPTIONS in documentation.get("extends_documentation_fragment", []):
        assert CONNECTION.options.items() <= options.items()
        options = {option: spec for option, spec in options.items() if option not in CONNECTION.options}
    assert shape(documented_options(documentation)) == shape(options)


@pytest.mark.parametrize("name", NAMES)
def test_options_that_sound_like_secrets_set_no_log(name: str) -> None:
    words = ("pass", "token", "secret", "key")
    assert [
        option
        for option, spec in spec_of(name).options.items()
        if option not in CONNECTION.options and any(word in option for word in words) and "no_log" not in spec
    ] == []


WITH_RELATIONS = {
    "driver_packages",
    "explain",
    "image_mirror",
    "mig_config",
    "mig_layout",
    "node_maintenance",
    "gpu_smoke_test",
    "operator_chart_info",
}


def specs_below(spec: ArgumentSpec) -> t.Iterator[ArgumentSpec]:
    """Yield a spec, and those of its options that have options of their own."""
    kinds = [field.name for field in dataclasses.fields(ArgumentSpec)]
    yield spec
    for option in spec.options.values():
        if "options" in option:
            yield from specs_below(ArgumentSpec(**{kind: value for kind, value in option.items() if kind in kinds}))


@pytest.mark.parametrize("name", NAMES)
def test_relations_name_options_that_exist(name: str) -> None:
    """Ansible ignores a relation between options that a module does not have."""
    assert bool(spec_of(name).relations) is (name in WITH_RELATIONS)
    for spec in specs_below(spec_of(name)):
        groups = [*spec.mutually_exclusive, *spec.required_one_of, *spec.required_together]
        named = {option for group in groups for option in group}
        named |= {option for first, others in spec.required_by.items() for option in (first, *others)}
        for option, value, needed, *dummy in spec.required_if:
            assert value in spec.options[option]["choices"]
            named |= {option, *needed}
        assert named <= set(spec.options)
