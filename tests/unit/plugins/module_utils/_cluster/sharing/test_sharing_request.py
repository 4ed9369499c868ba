# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_request import (
    SharingRequest,
    request_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.gpu_sharing import SPEC
from inline_snapshot import snapshot as wording

GIVEN: dict[str, t.Any] = {name: option.get("default") for name, option in SPEC.options.items()}
OF_CONFIG = dict.fromkeys(t.cast("dict[str, t.Any]", SPEC.options["configs"]["options"]))
FOUR: dict[str, t.Any] = {**OF_CONFIG, "name": "four", "nodes": ["a"], "strategy": "time-slicing", "replicas": 4}


def asked(**options: t.Any) -> SharingRequest:
    return request_of({**GIVEN, **options})


def test_configurations_become_choices() -> None:
    made = asked(configs=[FOUR], allow_disruption=True, canary=["a"], timeout=9)
    (choice,) = made.choices
    assert (choice.configuration.name, choice.nodes, made.names) == ("four", ("a",), {"four"})
    assert (made.allows_disruption, made.rollout.canaries, made.timeout_s, made.config_map) == (
        True,
        ["a"],
        9,
        "gpuops-sharing",
    )
    assert not made.is_end and not made.purges and made.waits and made.rollout.maintenance.purpose == "sharing"


def test_the_end_of_sharing_needs_only_names() -> None:
    made = asked(state="absent", configs=[{**OF_CONFIG, "name": "four"}])
    assert (made.is_end, made.names, made.choices) == (True, {"four"}, ())
    assert asked(state="absent").names == frozenset() and asked(purge=True).purges


def test_a_number_of_canaries_names_none() -> None:
    assert asked(configs=[FOUR], canary="25%").rollout.canaries == [] and not asked(configs=[FOUR]).allows_disruption


def refused(**options: t.Any) -> str:
    """Return the message with which these options are refused."""
    with pytest.raises(GpuOpsError) as error:
        asked(**options)
    assert error.value.reason == "Invalid"
    return error.value.msg


def test_what_cannot_be_meant_is_refused() -> None:
    assert refused() == wording("Give configs, or purge: true to end all sharing of this collection.")
    assert refused(configs=[FOUR, FOUR]) == wording(
        "configs has two configurations with the name four. Rename one of them."
    )
    assert "lease" in refused(configs=[FOUR], lease=0)
    assert "max_unavailable" in refused(configs=[FOUR], max_unavailable="many")
