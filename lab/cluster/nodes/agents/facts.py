# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's annotations of a node, and the metrics of its GPUs."""

from __future__ import annotations

import uuid

from lab.cluster.api import Json
from lab.cluster.nodes.fleet import MODELS, NOTE


def note(item: Json, name: str, default: str = "") -> str:
    """Return one of the lab's annotations."""
    return str((item["metadata"].get("annotations") or {}).get(NOTE + name, default))


def metrics(node: Json) -> str:
    """Return the metrics of a node's DCGM exporter, with a line for each GPU that it still sees.

    Without a GPU there is no text at all, as in https://github.com/NVIDIA/dcgm-exporter/issues/250.
    """
    seen = int(note(node, "exporter-gpus") or note(node, "gpus"))
    if not seen:
        return ""
    model, name = MODELS[note(node, "model")], node["metadata"]["name"]
    series = {
        "DCGM_FI_DEV_SM_CLOCK": ("gauge", "SM clock frequency (in MHz).", 1980),
        "DCGM_FI_DEV_GPU_TEMP": ("gauge", "GPU temperature (in C).", 34),
        "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power draw (in W).", 72.5),
        "DCGM_FI_DEV_GPU_UTIL": ("gauge", "GPU utilization (in %).", 0),
        "DCGM_FI_DEV_FB_FREE": ("gauge", "Framebuffer memory free (in MiB).", model.memory_mib - 512),
        "DCGM_FI_DEV_FB_USED": ("gauge", "Framebuffer memory used (in MiB).", 512),
        "DCGM_FI_DEV_XID_ERRORS": ("gauge", "Value of the last XID error encountered.", 0),
    }
    lines = []
    for metric, (kind, text, value) in series.items():
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
        for index in range(seen):
            gpu = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}-{index}")
            device = f'gpu="{index}",UUID="GPU-{gpu}",device="nvidia{index}"'
            lines.append(f'{metric}{{{device},modelName="{model.product}",Hostname="{name}"}} {value}')
    return "\n".join(lines) + "\n"
