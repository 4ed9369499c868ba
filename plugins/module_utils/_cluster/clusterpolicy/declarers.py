# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The field managers of this collection that declare parts of the ClusterPolicy, and the playbook of each. Pure.

They are one owner: what one of them has declared, the module clusterpolicy and the role operator leave alone. Else the
playbooks would undo each other's work on the same inventory.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    configmap_reference,
    ownership,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DRIVER_MANAGER = "gpuops.nvidia-driver"
"""Declares drivers."""
KEPT_DRIVER_MANAGER = "gpuops.nvidia-kept-driver"
"""Marks the driver that an upgrade of the operator has left as it was, until another one is declared."""

_UPGRADE_DRIVER = "gpuops.nvidia.upgrade_driver"
PLAYBOOKS = {
    DRIVER_MANAGER: _UPGRADE_DRIVER,
    KEPT_DRIVER_MANAGER: _UPGRADE_DRIVER,
    configmap_reference.MIG_REFERENCE.manager: "gpuops.nvidia.mig",
    configmap_reference.SHARING.manager: "gpuops.nvidia.sharing",
    configmap_reference.COUNTERS.manager: "gpuops.nvidia.monitoring",
    configmap_reference.SCRAPE.manager: "gpuops.nvidia.monitoring",
    configmap_reference.JOBS.manager: "gpuops.nvidia.monitoring",
}
"""The playbook by which what a manager has declared is changed."""


def is_ours(manager: str) -> bool:
    """Return whether a field manager is one of this collection's."""
    return manager == FIELD_MANAGER or manager in PLAYBOOKS


def respected(manifest: Json, before: Json | None) -> tuple[Json, list[str]]:
    """Return a ClusterPolicy without what other playbooks of this collection have declared.

    The sentences name the fields that would have got another value, and the playbook that changes them.
    """
    fields: dict[str, list[str]] = {}
    for manager, playbook in PLAYBOOKS.items():
        manifest, differing = ownership.left_to(manager, manifest, before, FIELD_MANAGER)
        fields.setdefault(playbook, []).extend(differing)
    return manifest, [_sentence(list(dict.fromkeys(found)), name) for name, found in fields.items() if found]


def _sentence(fields: list[str], playbook: str) -> str:
    stays = "stays as it is" if len(fields) == 1 else "stay as they are"
    return f"{first_few(fields)} {stays}, since {playbook} manages it. Run that playbook to change it."
