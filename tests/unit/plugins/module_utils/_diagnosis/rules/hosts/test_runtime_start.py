# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container runtime that does not start: its configuration, its programs, its labels."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import runtime, runtime_start

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/NVIDIA/aicr/issues/1688
        (
            "containerd: drop-in config version 4 higher than root config version 2",
            "RuntimeConfigVersionsDiffer",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/1099
        (
            'msg="error running nvidia-toolkit: unable to load containerd config: failed to run command chroot [/host '
            'containerd config dump]: exit status 127"',
            "RuntimeConfigNotShown",
            "certain",
        ),
        # https://github.com/containerd/containerd/blob/301026e58/cmd/containerd/server/config/config.go
        (
            "containerd: expected containerd config version equal to or less than `3`, got `4`",
            "RuntimeConfigVersionsDiffer",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/143
        (
            "containerd[32689]: containerd: toml: cannot load TOML value of type string into a Go integer",
            "RuntimeConfigRefused",
            "certain",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/tree/d34b3046
        (
            'level=error msg="error running nvidia-toolkit: unable to setup runtime: unable to configure containerd: unable to load config: unsupported config version: 3"',
            "ToolkitKnowsNoConfigVersion",
            "certain",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/1956
        (
            "failed to create containerd container: create container failed validation: container.Runtime.Name must be set: invalid argument",
            "RuntimeTypeMissing",
            "likely",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/tree/d34b3046/cmd/nvidia-ctk-installer
        (
            'level=error msg="error running nvidia-toolkit: unable to restart containerd: error running systemctl: exit status 127"',
            "RuntimeRestartFails",
            "likely",
        ),
        # https://github.com/NVIDIA/nvidia-docker/issues/1190
        (
            'OCI runtime create failed: unable to retrieve OCI runtime error: exec: "nvidia-container-runtime": executable file not found in $PATH: : unknown.',
            "RuntimeProgramMissing",
            "likely",
        ),
        # https://github.com/cri-o/cri-o/tree/f954a17e5/internal
        (
            "SELinux relabeling of /run/nvidia failed: lsetxattr /run/nvidia/driver: operation not supported",
            "RelabelNotSupported",
            "likely",
        ),
    ],
)
def test_published_lines_of_runtime_start(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(runtime_start.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_a_refused_configuration_is_the_cause_of_the_missing_handler() -> None:
    lines = (
        "containerd: drop-in config version 4 higher than root config version 2",
        'Failed to create pod sandbox: no runtime for "nvidia" is configured',
    )
    found = diagnosed.found((*runtime_start.RULES, *runtime.RULES), *lines)
    assert [*found] == ["RuntimeConfigVersionsDiffer"]
    assert [each.code for each in found["RuntimeConfigVersionsDiffer"].consequences] == ["NoNvidiaRuntimeHandler"]
