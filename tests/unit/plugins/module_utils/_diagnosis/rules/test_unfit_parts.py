# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of the stack that do not fit each other."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import unfit_parts

from tests.unit import diagnosed

ENDED = (
    'kubelet[1655]: E1017 12:05:33.335816 1655 client.go:90] "ListAndWatch ended unexpectedly for device plugin" '
    'err="rpc error: code = Unavailable desc = error reading from server: EOF" resource="nvidia.com/gpu"'
)
RENEWED = "main.go:246] inotify: /var/lib/kubelet/device-plugins/kubelet.sock created, restarting."


@pytest.mark.parametrize(
    ("text", "code", "certainty", "words"),
    [
        # https://github.com/NVIDIA/gpu-operator/issues/1794
        ("error getting device memory: Not Supported", "PluginOlderThanGPU", "certain", "v0.17.4"),
        # https://github.com/Project-HAMi/HAMi/issues/2131
        (
            "WARNING: unable to get device name: [failed to find device with id '2bb5']",
            "MIGToolOlderThanGPU",
            "likely",
            "the device 2bb5",
        ),
        # https://github.com/NVIDIA/gpu-operator/pull/1541
        (
            "failed to initialize ClusterPolicy controller: ClusterPolicy validation failed: failed to validate DRA: "
            "the device-plugin and DRA driver for GPUs cannot both be enabled in ClusterPolicy",
            "PolicyRefused",
            "certain",
            "cannot both be enabled in ClusterPolicy.",
        ),
        # https://github.com/kata-containers/kata-containers/issues/9014
        (
            "failed to create shim task: cold_plug_vfio= or hot_plug_vfio= port is not set for device 0000:5e:02.1 (BridgePort)",
            "KataPortNotSet",
            "likely",
            "0000:5e:02.1",
        ),
        # https://github.com/Project-HAMi/HAMi/issues/710
        (
            "Allocate failed due to rpc error: code = Unknown desc = no binding pod found on node n1, which is unexpected",
            "NotBoundByItsScheduler",
            "likely",
            "nodeName",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/pull/1833
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            "NestedProcRefused",
            "possible",
            "disable-device-node-modification",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/2416
        ("nvidia-fs-ctr enters CrashLoopBackOff with exit 127.", "GPUDirectImageUnfit", "possible", "nvidia-fs-ctr"),
        # https://github.com/awslabs/amazon-eks-ami/issues/2544
        (
            "package nvidia-kmod-common-3:580.105.08-1.amzn2023.noarch from cuda-amzn2023-x86_64 requires "
            "nvidia-kmod = 3:580.105.08, but none of the providers can be installed",
            "DriverPackagesApart",
            "likely",
            "nvidia-kmod = 3:580.105.08",
        ),
    ],
)
def test_published_lines(text: str, code: str, certainty: str, words: str) -> None:
    found = diagnosed.found(unfit_parts.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}
    assert words in found[code].cause


def test_a_plugin_that_starts_together_with_the_kubelet() -> None:
    """As in https://github.com/bottlerocket-os/bottlerocket/issues/4250. A plugin that starts later is well."""
    found = diagnosed.found(unfit_parts.RULES, RENEWED, ENDED)
    assert [*found] == ["PluginRegisteredTooEarly"]
    assert "nvidia.com/gpu" in found["PluginRegisteredTooEarly"].cause
    assert "{.status.allocatable}" in found["PluginRegisteredTooEarly"].remedy
    assert diagnosed.found(unfit_parts.RULES, RENEWED) == diagnosed.found(unfit_parts.RULES, ENDED) == {}


def test_a_newer_plugin_goes_on() -> None:
    text = "W1204 18:29:54.725748 Ignoring error getting device memory: Not Supported"
    assert diagnosed.found(unfit_parts.RULES, text) == {}
