# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CDI specifications whose hooks or devices do not fit."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import cdi_specs

from tests.unit import diagnosed

OCI = "OCI runtime create failed: runc create failed: unable to start container process: error during container init: "


@pytest.mark.parametrize(
    ("text", "code", "certainty", "words"),
    [
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/568
        (
            f"{OCI}error running createContainer hook #5: exit status 3, stdout: , stderr: "
            "No help topic for 'disable-device-node-modification': unknown",
            "CDIHookUnknown",
            "likely",
            "disable-device-node-modification",
        ),
        # https://github.com/Azure/AgentBaker/pull/9150
        (
            r'level=error msg="failed to write spec: invalid CDI Spec: failed add device \"all\": invalid device, empty device edits"',
            "CDIDevicesEmpty",
            "likely",
            "the device all",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/772
        (
            "failed to create link [libcuda.so.1 /usr/lib/libcuda.so]: failed to check if link exists: unexpected link target: libcuda.so.560",
            "CDILinkRefused",
            "likely",
            "1.17.0",
        ),
        # https://github.com/podman-container-tools/podman/issues/24502
        ("NVIDIA CDI Hook version 1.17.0", "CDILinkRefused", "likely", "1.17.0"),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/795
        (
            f"{OCI}error running createContainer hook #1: exit status 1, stdout: ",
            "CDIHookFails",
            "possible",
            "number 1",
        ),
        # https://github.com/kubernetes/kubernetes/issues/124090
        (
            "error preparing devices for claim 71d5: unable to create CDI spec file for claim: failed to set permissions on spec file",
            "ClaimSpecNotWritten",
            "likely",
            "failed to set permissions on spec file",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/1376
        ('level=error msg="invalid discovery mode: cdi"', "CDIModeForGenerate", "likely", "the mode cdi"),
    ],
)
def test_published_lines(text: str, code: str, certainty: str, words: str) -> None:
    found = diagnosed.found(cdi_specs.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}
    assert words in found[code].cause


@pytest.mark.parametrize(
    "text", ["NVIDIA CDI Hook version 1.17.1", "error running createContainer hook #1: exit status 0"]
)
def test_lines_without_a_fault(text: str) -> None:
    assert diagnosed.found(cdi_specs.RULES, text) == {}
