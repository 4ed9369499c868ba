# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An operator whose nodes follow the label of their kind, and that of their sharing, at once."""

from __future__ import annotations

import re
import typing as t

from tests.unit.fakes.api import NODES
from tests.unit.fakes.node_kinds import Operator

Json = dict[str, t.Any]

CONFIG_MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
SHARING, SHARING_MARK = "nvidia.com/device-plugin.config", "gpuops.nvidia/sharing"
FOUR = {"strategy": "time-slicing", "replicas": 4}


class PoolOperator(Operator):
    """Plays what the device plugin and GPU Feature Discovery of container nodes make of their configuration, too."""

    def __post_init__(self) -> None:
        self.api.lists[CONFIG_MAPS] = []
        super().__post_init__()

    @property
    def texts(self) -> dict[str, str]:
        """The published configurations by their keys."""
        found = self.api.lists[CONFIG_MAPS]
        return t.cast("dict[str, str]", found[0]["data"]) if found else {}

    def act(self) -> None:
        """Follow the labels."""
        super().act()
        for item in self.api.lists[NODES]:
            if self.kind(item) != "container":
                continue
            labels, status = item["metadata"]["labels"], item["status"]
            found = re.search(r"replicas: (\d+)", self.texts.get(labels.get(SHARING, ""), ""))
            replicas = int(found[1]) if found else 1
            labels["nvidia.com/gpu.replicas"] = str(replicas)
            labels["nvidia.com/gpu.sharing-strategy"] = "time-slicing" if found else "none"
            labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3" + ("-SHARED" if found else "")
            offered = int(status["allocatable"].get("nvidia.com/gpu", "0")) * replicas
            status["allocatable"] = status["capacity"] = {**status["allocatable"], "nvidia.com/gpu": str(offered)}
