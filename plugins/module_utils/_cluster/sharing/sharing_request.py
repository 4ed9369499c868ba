# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What the options of the module ask of the sharing. It is read once, first, and every later step takes it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import (
    NodeRolloutRequest,
    rollout_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import assign, sharing_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

Options = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class SharingRequest:
    """What a call asks for."""

    rollout: NodeRolloutRequest
    choices: tuple[assign.Choice, ...] = ()
    """The configurations to give to nodes."""
    names: frozenset[str] = frozenset()
    """The names of the configurations that the call is about."""
    is_end: bool = False
    """Whether these configurations shall go."""
    purges: bool = False
    """Whether other configurations of this collection shall go."""
    config_map: str = ""
    policy_name: str = ""
    namespace: str = ""
    replaces_labels: bool = False
    keeps_keys: bool = False
    """Whether keys that no node uses stay, for nodes that do not exist yet."""
    waits: bool = True
    only_warns: bool = False
    """Whether check mode warns where a run would refuse to go on."""
    timeout_s: int = 600

    @property
    def allows_disruption(self) -> bool:
        """Whether pods may be interrupted."""
        return self.rollout.maintenance.permits.disruption


def request_of(options: Options) -> SharingRequest:
    """Return what the options ask for. Raises an error for a value that cannot be meant."""
    rollout = rollout_of(options, sharing_plan.HELD_FOR)
    configs, is_end = options["configs"] or [], options["state"] == "absent"
    if not is_end and options["configs"] is None and not options["purge"]:
        raise GpuOpsError("Give configs, or purge: true to end all sharing of this collection.", reason="Invalid")
    request = SharingRequest(
        rollout=rollout,
        names=frozenset(entry["name"] for entry in configs),
        is_end=is_end,
        purges=options["purge"],
        config_map=options["config_map"],
        policy_name=options["policy_name"],
        namespace=options["namespace"],
        replaces_labels=options["replace_labels"],
        keeps_keys=options["keep_unused"],
        waits=options["wait"],
        only_warns=_check_refusal.only_warns(options, check_mode=True),
        timeout_s=options["timeout"],
    )
    rollout.pace.wishes.check(rollout.canaries)
    return request if is_end else dataclasses.replace(request, choices=tuple(assign.choices_of(configs)))
