# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The services that GPUs need on a host: their state, and the errors that they wrote since the boot."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host import software
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import runtimes, services
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

UNITS = tuple(
    dict.fromkeys(
        (
            *services.SERVICE_UNITS,
            *runtimes.RUNTIME_UNITS,
            "kubelet.service",
            "snap.microk8s.daemon-kubelite.service",
            "nvidia-dcgm.service",
            "nvidia-gridd.service",
        )
    )
)

UNIT_LINE_LENGTH = 1000

_PROPERTIES = "Id,LoadState,ActiveState,SubState,Result,NRestarts,UnitFileState"
# kubelet and containerd write errors with the priority of information.
_WANTED = r"level=(error|warning|fatal)|^[EWF]\d{4} |[Ee]rror|ERROR|[Ff]ail|FAIL|[Mm]ismatch|don.t match|fatal|panic"


def query(host: Host) -> Output:
    """Ask systemd about the units, with one command."""
    return host.run(["systemctl", "show", f"--property={_PROPERTIES}", *UNITS])


def states(output: Output) -> dict[str, Json]:
    """Return the state of each unit that exists."""
    found = software.parse_units(output.stdout)
    return {
        name: {
            "load": row.get("LoadState"),
            "active": row.get("ActiveState"),
            "sub": row.get("SubState"),
            "result": row.get("Result"),
            "restarts": whole_number(row.get("NRestarts")),
            "enabled": row.get("UnitFileState") or None,
        }
        for name, row in found.items()
        if row.get("LoadState") not in ("not-found", None)
    }


def journal(host: Host, unit: str, most: int) -> list[str]:
    """Return the newest errors and warnings of a unit since the boot, the oldest first."""
    command = ["journalctl", "--boot", f"--unit={unit}", f"--grep={_WANTED}", f"--lines={most}", "--reverse"]
    output = host.run([*command, "--output=json", "--output-fields=MESSAGE", "--no-pager", "--quiet"])
    return list(_messages(output.stdout))[:most][::-1]


def _messages(text: str) -> t.Iterator[str]:
    for line in text.splitlines():
        try:
            message = json.loads(line).get("MESSAGE")
        except (ValueError, AttributeError):
            continue
        # What is no UTF-8 comes as a list of bytes.
        if isinstance(message, list):
            message = bytes(message).decode("utf-8", "replace")
        if isinstance(message, str):
            yield message[:UNIT_LINE_LENGTH]
