# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.options import (
    CHECKS,
    DECLARATION,
    POLICY,
    given,
    refuse,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

REGISTRY = {"timeout": 10, "username": None, "password": None}


def options(**chosen: t.Any) -> dict[str, t.Any]:
    plain = {name: spec.get("default") for name, spec in DECLARATION.items()}
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
        ({"registry": {**REGISTRY, "timeout": 0}}, "timeout is 0"),
        ({"registry": {**REGISTRY, "username": "a"}}, "username and password go together"),
        ({"registry": {**REGISTRY, "password": "a"}}, "username and password go together"),
        ({"resource": POLICY, "pools": [{"name": "a"}]}, "A ClusterPolicy has none"),
        ({"purge": True}, "give pools"),
        ({"version": "1.2.3", "branch": "1"}, "are both given"),
        ({"branch": "595.91"}, "give the number alone"),
        ({"pools": [{"name": "a", "version": "595.91.07"}], "use_precompiled": True}, "pools: a: version is 595.91.07"),
        ({"pools": [{"name": "a"}, {"name": "a"}]}, "is given twice"),
        ({"pools": [{"name": "-a"}]}, "cannot be the name"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_remedy(chosen: dict, said: str) -> None:
    with pytest.raises(GpuOpsError, match=said) as caught:
        refuse(options(**chosen))
    assert caught.value.reason == "Invalid"


def test_options_without_a_value_are_not_given() -> None:
    assert given({"a": None, "b": False, "c": ""}) == {"b": False, "c": ""}


def test_each_check_can_be_left_out() -> None:
    assert DECLARATION["skip"]["choices"] == list(CHECKS) and len(set(CHECKS)) == len(CHECKS)
