# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    CHECKS,
    DECLARATION,
    POLICY,
    DeclaredPool,
    declaration_of,
    given,
    refuse,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

REGISTRY = {"timeout": 10, "username": None, "password": None}


def options(**chosen: t.Any) -> dict[str, t.Any]:
    plain = {name: spec.get("default") for name, spec in DECLARATION.options.items()}
    return {**plain, "registry": REGISTRY, **chosen}


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"version": "595.91.07"},
        {"version": "595.91"},
        {"version": "sha256:abc"},
        {"branch": "595"},
        {"branch": "595", "use_precompiled": True},
        {"version": "595"},
        {"pools": [{"name": "a", "default": True}, {"name": "b", "node_selector": {"x": "y"}}], "purge": True},
        {
            "use_precompiled": True,
            "branch": "595",
            "pools": [{"name": "a", "use_precompiled": False, "version": "1.2.3"}],
        },
    ],
)
def test_what_can_be_meant_is_accepted(chosen: dict) -> None:
    if chosen.get("pools") and chosen.get("branch"):
        chosen["branch"] = None
    refuse(options(**chosen))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"registry": {**REGISTRY, "timeout": 0}}, wording("timeout is 0: give 1 or more.")),
        (
            {"registry": {**REGISTRY, "username": "a"}},
            wording(
                "registry: username and password go together. Without both, the pull secrets of the driver are used."
            ),
        ),
        (
            {"registry": {**REGISTRY, "password": "a"}},
            wording(
                "registry: username and password go together. Without both, the pull secrets of the driver are used."
            ),
        ),
        (
            {"resource": POLICY, "pools": [{"name": "a"}]},
            wording("pools are NVIDIADriver objects: leave resource out, or set it to NVIDIADriver."),
        ),
        ({"purge": True}, wording("purge deletes the NVIDIADrivers that pools does not name: give pools.")),
        (
            {"version": "1.2.3", "branch": "1"},
            wording(
                "version (1.2.3) and branch (1) are both given. A precompiled driver has a branch, and any other a version."
            ),
        ),
        ({"branch": "595.91"}, wording("branch is 595.91: give the number alone, for example 595.")),
        (
            {"pools": [{"name": "a", "version": "595.91.07"}], "use_precompiled": True},
            wording(
                "pools: a: version is 595.91.07, and the images of precompiled drivers are published for branches. Set branch: '595' instead of version, or use_precompiled: false."
            ),
        ),
        (
            {"pools": [{"name": "a"}, {"name": "a"}]},
            wording("pools: a is given twice. Give each pool a name of its own."),
        ),
        (
            {"pools": [{"name": "-a"}]},
            wording("pools: -a cannot be the name of an object. Use lower-case letters, digits and dashes."),
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_remedy(chosen: dict, said: str) -> None:
    with pytest.raises(GpuOpsError) as caught:
        refuse(options(**chosen))
    assert caught.value.msg == said
    assert caught.value.reason == "Invalid"


def test_a_declaration_has_the_settings_with_a_value_for_all_pools_and_for_each() -> None:
    pools = [{"name": "a", "default": True, "version": "1.2.3", "branch": None}]
    made = declaration_of(options(pools=pools, kernel_module_type="open", skip=["gpus"], allow_disruption=True))
    assert made.settings == {"kernel_module_type": "open"}
    assert made.pools == (DeclaredPool("a", default=True, settings={"version": "1.2.3"}),)
    assert made.skipped == {"gpus"} and made.allows_disruption and not made.purges and not made.forces_conflicts
    with pytest.raises(GpuOpsError, match="give pools"):
        declaration_of(options(purge=True))


def test_options_without_a_value_are_not_given() -> None:
    assert given({"a": None, "b": False, "c": ""}) == {"b": False, "c": ""}


def test_each_check_can_be_left_out() -> None:
    assert DECLARATION.options["skip"]["choices"] == list(CHECKS) and len(set(CHECKS)) == len(CHECKS)
