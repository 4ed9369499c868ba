# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's services on a host that fail, or that systemd starts again and again."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_GAVE_UP = pattern(
    r"\b(?P<service>(?:nvidia-(?:fabricmanager|persistenced|imex|dcgm|gridd)|nvlsm)\.service): "
    r"Start request repeated too quickly",
    "start request repeated too quickly",
)
_OURS = ("nvidia-", "nvlsm")


def _fails(view: View) -> t.Iterator[Sighting]:
    for node in view.names:
        # What is left of a driver on the host cannot run beside a driver container, and is unused.
        if seen.part(view, node, "driver").get("containerised"):
            continue
        for name, row in (seen.state(view, node).get("services") or {}).items():
            if name.startswith(_OURS) and (row.get("active") == "failed" or row.get("sub") == "auto-restart"):
                text = f"{name}: {row.get('active')} ({row.get('result')}), restarts: {row.get('restarts')}"
                yield Sighting(node, "", fact(text, seen.HOST_STATE, node), "certain", {"service": name})
    for hit in view.hits(_GAVE_UP):
        # An old line does not count for a host whose services were examined now.
        if seen.state(view, hit.line.node).get("services") is None:
            yield matches.sighting(hit, "likely")


RULES = (
    Rule(
        code="HostServiceFails",
        title="One of NVIDIA's services fails",
        severity="warning",
        cause="{service} has failed on the host. systemd has given up on it, or starts it again and again.",
        remedy="Read why it failed (journalctl -b -u {service}), and repair that. Then run playbooks/site.yml, which "
        "starts the services that the host needs, or start this one (systemctl restart {service}).",
        sources=(
            "https://github.com/ollama/ollama/issues/11932",
            "https://github.com/NVIDIA/nvidia-persistenced/issues/2",
        ),
        check=_fails,
        patterns=(_GAVE_UP,),
    ),
)
