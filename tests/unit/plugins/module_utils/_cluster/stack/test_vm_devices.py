# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import vm_devices

Json = dict[str, t.Any]


def machine(name: str, **status: str) -> Json:
    """Return a machine with a GPU, another device, and a GPU that it claims."""
    gpus = [{"name": "gpu", "deviceName": "nvidia.com/GA102GL_A10"}, {"name": "claimed", "claimName": "x"}]
    devices = {"gpus": gpus, "hostDevices": [{"name": "qat", "deviceName": "intel.com/qat"}]}
    return {
        "metadata": {"namespace": "research", "name": name},
        "spec": {"domain": {"devices": devices}},
        "status": status,
    }


def test_machines_that_run_are_listed_by_node_with_what_they_have() -> None:
    bare = machine("bare", nodeName="gpu-0000")
    bare["spec"] = {}
    listed = [
        machine("windows", nodeName="gpu-0000", phase="Running"),
        machine("linux", nodeName="gpu-0000", phase="Running"),
        machine("ended", nodeName="gpu-0000", phase="Failed"),
        machine("pending"),
        bare,
    ]
    has = ["nvidia.com/GA102GL_A10", "intel.com/qat"]
    expected = [{"name": f"research/{name}", "devices": has} for name in ("linux", "windows")]
    assert vm_devices.on_nodes(listed) == {"gpu-0000": expected}
