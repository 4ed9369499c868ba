# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Talos and other immutable systems, Jetson and WSL2."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import platforms

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/NVIDIA/gpu-operator/issues/2239
        (
            '"error":"failed to retrieve GPU node OS tag: error processing OS major version v1: strconv.Atoi: parsing"',
            "OSVersionNotParsed",
            "certain",
        ),
        # https://github.com/NVIDIA/k8s-device-plugin/issues/1412
        (
            "error getting device paths: error getting GPU device minor number: Not Supported",
            "DevicePathsNotSupported",
            "certain",
        ),
        # https://github.com/NVIDIA/libnvidia-container/blob/main/src/nvc.c
        (
            "nvidia-container-cli: initialization error: WSL environment detected but no adapters were found: unknown.",
            "WSLWithoutGPU",
            "likely",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/2382
        (
            'Error: failed to generate container "cdc1" spec: failed to apply OCI options: failed to mkdir "/etc/containerd/conf.d": mkdir /etc/containerd/conf.d: read-only file system',
            "HostReadOnly",
            "likely",
        ),
    ],
)
def test_published_lines_of_platforms(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(platforms.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_another_program_that_meets_a_read_only_file_system() -> None:
    text = "mkdir /usr/share/x: read-only file system"
    line = diagnosed.log(text, "grafana-0", "grafana")
    assert diagnosed.found(platforms.RULES, line)["HostReadOnly"].certainty == "possible"
