# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vGPUs that a node does not offer."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import vgpus

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # https://github.com/NVIDIA/vgpu-device-manager/pull/15
        (
            'level=fatal msg="error getting vGPU config: error getting all vGPU devices: unable to read MDEV devices '
            'directory: open /sys/bus/mdev/devices: no such file or directory"',
            "VGPUBusMissing",
        ),
        # https://github.com/NVIDIA/cloud-native-docs/pull/76
        (
            "level=fatal msg=\"error setting VGPU config: no parent devices found for GPU at index '1'\"",
            "VGPUParentMissing",
        ),
        # https://github.com/mrzenc/vgpu4nixos/issues/4
        (
            "nvidia-vgpu-mgr[20000]: error: vmiop_env_log: Failed to initialize RM client: 0x26",
            "VGPUManagerWithoutDriver",
        ),
    ],
)
def test_published_lines_of_vgpus(text: str, code: str) -> None:
    found = diagnosed.found(vgpus.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: "likely"}


def test_what_tells_the_two_kinds_of_missing_vgpus_apart_is_said() -> None:
    lines = ("unable to read MDEV devices directory: open /sys/bus/mdev/devices: no such file or directory",)
    other = "no parent devices found for GPU at index '1'"
    found = diagnosed.found(vgpus.RULES, *lines, other)
    assert "lspci -d 10de:" in found["VGPUBusMissing"].tell_apart[0]
