# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a driver manager pauses a node's operands by their labels, and puts them back."""

from __future__ import annotations

import re
import typing as t

from lab.cluster.api import Json
from lab.cluster.nodes.agents.pods import labels_of

PAUSED = "paused-for-driver-upgrade"
DEPLOY = "nvidia.com/gpu.deploy."
_ALWAYS = (
    "operator-validator",
    "container-toolkit",
    "device-plugin",
    "gpu-feature-discovery",
    "dcgm-exporter",
    "dcgm",
    "nvsm",
    "sandbox-validator",
    "sandbox-device-plugin",
    "vgpu-device-manager",
    "dra-validator",
    "dcgm-dra",
    "dcgm-exporter-dra",
)
_IF_SET = ("mig-manager", "client")
_LAST = "dra-driver"
"""It is paused after the others have gone, since it serves their claims."""


def paused(node: Json) -> dict[str, str]:
    """Return the labels that keep the operands away. Those that a node lacks get an empty value, as NVIDIA's do."""
    return _each(node, _pause, _ALWAYS)


def plugin_paused(node: Json) -> dict[str, str]:
    """Return the label that keeps the plugin of the DRA driver away; nothing if the node has none."""
    value = labels_of(node).get(DEPLOY + _LAST)
    return {DEPLOY + _LAST: _pause(value)} if value else {}


def restored(node: Json) -> dict[str, str]:
    """Return the labels that bring the operands back, also after an earlier manager has left them paused."""
    return _each(node, _restore, (*_ALWAYS, _LAST))


def changes(node: Json, wanted: t.Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a node does not have yet."""
    have = labels_of(node)
    return {key: value for key, value in wanted.items() if have.get(key) != value}


def _each(node: Json, change: t.Callable[[str], str], names: t.Iterable[str]) -> dict[str, str]:
    have = labels_of(node)
    keys = [DEPLOY + name for name in (*names, *_present(node, _IF_SET))]
    return {key: change(have.get(key, "")) for key in keys}


def _present(node: Json, names: t.Iterable[str]) -> list[str]:
    return [name for name in names if labels_of(node).get(DEPLOY + name)]


def _pause(value: str) -> str:
    if value in ("", "false") or PAUSED in value:
        return value
    return PAUSED if value == "true" else f"{value}_{PAUSED}"


def _restore(value: str) -> str:
    return "true" if value == PAUSED else re.sub(f"{PAUSED}_?", "", value).strip("_")
