# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.gpu_hints import says_gpu


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-k80", True),
        ("cloud.google.com/gke-accelerator", "tpu-v5", False),
        ("kubernetes.azure.com/accelerator", "nvidia", True),
        ("node.kubernetes.io/instance-type", "p5.48xlarge", True),
        ("node.kubernetes.io/instance-type", "p6-b300.48xlarge", True),
        ("node.kubernetes.io/instance-type", "g4dn.xlarge", True),
        ("node.kubernetes.io/instance-type", "gr6f.4xlarge", True),
        ("node.kubernetes.io/instance-type", "g4ad.xlarge", False),
        ("node.kubernetes.io/instance-type", "m6g.xlarge", False),
        ("node.kubernetes.io/instance-type", "k3s", False),
        ("extensions.talos.dev/nvidia-open-gpu-kernel-modules-production", "570.211.01-v1.12.4", True),
        ("extensions.talos.dev/nonfree-kmod-nvidia-lts", "535", True),
        ("extensions.talos.dev/iscsi-tools", "v0.2.0", False),
    ],
)
def test_the_labels_of_platforms(key: str, value: str, expected: bool) -> None:
    assert says_gpu({"metadata": {"name": "n", "labels": {"a": "b", key: value}}}) is expected


def test_without_a_label_nothing_is_said() -> None:
    assert not says_gpu({"metadata": {"name": "n"}})
