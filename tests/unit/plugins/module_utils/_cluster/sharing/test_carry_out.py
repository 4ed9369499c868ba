# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import carry_out

from tests.unit.fakes.stack import policy
from tests.unit.plugins.module_utils._cluster.sharing.test_sharing_scene import FOUR, scene_of

# Runs are tested in tests/unit/plugins/modules/test_gpu_sharing.py, with an API server.


@pytest.mark.parametrize(
    ("wanted", "referenced", "pointer"),
    [(True, "", "gpuops-sharing"), (True, "gpuops-sharing", None), (False, "gpuops-sharing", None), (False, "", None)],
)
def test_the_cluster_policy_shall_name_the_map_once_a_configuration_is_wanted(
    wanted: bool, referenced: str, pointer: str | None
) -> None:
    named: dict[str, t.Any] = policy()
    named["spec"]["devicePlugin"] = {"config": {"name": referenced}}
    found = dataclasses.replace(scene_of({}), policy=named, wanted={"gpu-0000": FOUR} if wanted else {})
    assert carry_out.pointer_of(found) == pointer
