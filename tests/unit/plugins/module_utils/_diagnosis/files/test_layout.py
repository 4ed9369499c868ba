# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What names of files say, in the layouts of oc adm must-gather and of the operator's must-gather.sh."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.layout import SECRETS, Origin, origin_of

OC = "must-gather.local.1/quay-io-x/namespaces/nvidia-gpu-operator/pods/nvidia-driver-x/ctr/ctr/logs"


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        (
            f"{OC}/current.log",
            Origin(
                "pod",
                "pod nvidia-gpu-operator/nvidia-driver-x, container ctr",
                "",
                "pod nvidia-gpu-operator/nvidia-driver-x",
                "nvidia-gpu-operator",
            ),
        ),
        (
            f"{OC}/previous.insecure.log",
            Origin(
                "pod",
                "pod nvidia-gpu-operator/nvidia-driver-x, container ctr, previous run",
                "",
                "pod nvidia-gpu-operator/nvidia-driver-x",
                "nvidia-gpu-operator",
            ),
        ),
        ("x/gpu_operand_pod_nvidia-dcgm-abc.log", Origin("pod", "pod nvidia-dcgm-abc", "", "pod nvidia-dcgm-abc")),
        (
            "gpu_operand_pod_nvidia-dcgm-abc.previous.log",
            Origin("pod", "pod nvidia-dcgm-abc, previous run", "", "pod nvidia-dcgm-abc"),
        ),
        ("gpu_operator_pod.log", Origin("pod", "pod gpu-operator", "", "pod gpu-operator")),
        ("x/nvidia-bug-report_gpu-0001.log.gz", Origin("text", "bug report of gpu-0001", "gpu-0001")),
        ("x/gpu_device_usage_gpu-0001.log", Origin("text", "device usage of gpu-0001", "gpu-0001")),
        ("host_service_logs/masters/kubelet_service.log", Origin("unit", "journal of kubelet")),
        ("dmesg.txt", Origin("kernel", "kernel log")),
        ("node1-dmesg", Origin("kernel", "kernel log")),
        ("var/log/kern.log", Origin("kernel", "kernel log")),
        ("a/namespaces/ns/core/pods.yaml", Origin(source="a/namespaces/ns/core/pods.yaml", namespace="ns")),
        ("kernels.md", Origin(source="kernels.md")),
    ],
)
def test_the_layouts_of_the_collectors(name: str, origin: Origin) -> None:
    assert origin_of(name) == origin


@pytest.mark.parametrize(
    "name", ["namespaces/a/core/secrets.yaml", "core/secrets/x.yaml", "tls.key", "a/ca.pem", ".kubeconfig", "id_rsa"]
)
def test_files_with_secrets_are_known(name: str) -> None:
    assert SECRETS.fullmatch(name)
    assert not SECRETS.fullmatch("pods.yaml")
