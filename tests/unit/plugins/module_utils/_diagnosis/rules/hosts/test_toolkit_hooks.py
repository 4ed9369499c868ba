# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The toolkit's hook fails for one container."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import toolkit_hooks

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/pytorch/test-infra/pull/5852
        (
            "nvidia-container-cli: error parsing IMEX info: unsupported IMEX channel value: all: unknown.",
            "ToolkitIMEXFault",
            "certain",
        ),
        # https://github.com/ublue-os/aurora/issues/606
        (
            "nvidia-container-cli: detection error: open failed: /usr/lib/libnvidia-tls.so.570.153.02: no such file or directory: unknown",
            "LibraryCacheStale",
            "likely",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/396
        (
            "nvidia-container-cli: mount error: failed to add device rules: unable to generate new device filter program from existing programs",
            "DeviceFilterRefused",
            "likely",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/1598
        (
            "Error: container create failed: error executing hook `/usr/local/nvidia/toolkit/nvidia-container-runtime-hook` (exit code: 1)",
            "ToolkitHookFails",
            "possible",
        ),
        # https://github.com/SyneRBI/PETRIC2/issues/27
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version",
            "ImageNeedsNewerDriver",
            "certain",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/1517
        (
            "systemd[1]: nvidia-cdi-refresh.service: Start request repeated too quickly.",
            "CDIRefreshFails",
            "likely",
        ),
        # https://github.com/confidential-dot-ai/confidential-os-builder/pull/57
        (
            "nvidia-device-plugin: runtime/cgo: pthread_create failed: Invalid argument",
            "LibrariesShadowed",
            "possible",
        ),
    ],
)
def test_published_lines_of_toolkit_hooks(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(toolkit_hooks.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}
