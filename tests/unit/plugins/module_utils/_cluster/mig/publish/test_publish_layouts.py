# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Publishing in one call after another. The module's tests cover the rest, and the lab a real API server."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.publish import publish_layouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import mig_layout
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import POLICIES, FakeApi

MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
DEFAULTS = {name: option.get("default") for name, option in mig_layout.SPEC.options.items()}


def publish(api: FakeApi, **given: t.Any) -> dict[str, t.Any]:
    return publish_layouts.publish(Cluster(api.connection), {**DEFAULTS, **given}, pytest.fail)


def test_another_configmap_takes_over_what_is_in_use(api: FakeApi) -> None:
    api.lists[MAPS] = []
    publish(api, layouts={"mine": {"fit": "1g"}})
    api.lists["/api/v1/nodes"][0]["metadata"]["labels"] |= {
        "nvidia.com/mig.config": "mine",
        "nvidia.com/mig.config.state": "success",
    }
    with pytest.raises(GpuOpsError) as error:
        publish(api, layouts={"new": {"fit": "1g"}}, config_map="other")
    assert error.value.reason == "NodesBusy"
    assert error.value.msg == wording(
        "This would take away the layout in use on gpu-0000 (mine). Give these nodes another layout first (mig_config), or choose another name."
    )
    publish(api, layouts={"mine": {"fit": "1g"}}, config_map="other")
    assert api.lists[POLICIES][0]["spec"]["migManager"]["config"] == {"name": "other"}
    # The first one is no longer used, so it can go; the reference is not its own any more.
    with pytest.raises(GpuOpsError, match="would take away"):
        publish(api, state="absent", config_map="other")


def test_a_missing_policy_is_named_before_anything_else(api: FakeApi) -> None:
    api.lists[POLICIES] = []
    with pytest.raises(GpuOpsError) as error:
        publish(api, layouts={"mine": {"fit": "1g"}})
    assert error.value.reason == "NotFound"
    assert error.value.msg == wording(
        "There is no ClusterPolicy cluster-policy. Install the GPU Operator with one (role gpuops.nvidia.operator)."
    )
