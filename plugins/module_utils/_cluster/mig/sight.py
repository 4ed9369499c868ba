# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a node says about its MIG layout: its labels, and what it offers to pods."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import (
    gpu_quantities,
    is_cordoned,
    is_ready,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    labels_of,
    name_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import table
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MIG_PURPOSE = "mig"
"""What nodes are held for during a change."""

GPUS_NOTE = "gpuops.nvidia/gpus"
"""Annotation with the number of GPUs: with the strategy single, a divided node counts only its MIG devices."""

INVALID = "-MIG-INVALID"
_DIVIDED = "-MIG-"


@dataclasses.dataclass(frozen=True)
class Sight:
    """A node at one look."""

    node: Json

    @property
    def name(self) -> str:
        """The node's name."""
        return name_of(self.node)

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return labels_of(self.node)

    @property
    def config(self) -> str:
        """The layout that somebody wants, or an empty string."""
        return self.labels.get(names.MIG_CONFIG, "")

    @property
    def state(self) -> str:
        """What the MIG manager says about its last run, or an empty string."""
        return self.labels.get(names.MIG_STATE, "")

    @property
    def is_changing(self) -> bool:
        """Whether the MIG manager says that it is at work."""
        return self.state in names.MIG_CHANGING

    @property
    def strategy(self) -> str:
        """How the device plugin offers MIG devices, according to GPU Feature Discovery, or an empty string."""
        return self.labels.get(names.MIG_STRATEGY, "")

    @property
    def is_capable(self) -> bool:
        """Whether the node's GPUs can be divided."""
        return self.labels.get(names.MIG_CAPABLE) == "true"

    @property
    def product(self) -> str:
        """The product label, with what GPU Feature Discovery has appended to it."""
        return self.labels.get(names.GPU_PRODUCT, "")

    @property
    def model(self) -> table.Model | None:
        """The model of the GPUs, if its profiles are known."""
        return table.model_of(product=self.product) if self.product else None

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet reports the node as Ready."""
        return is_ready(self.node)

    @property
    def is_cordoned(self) -> bool:
        """Whether the node is closed to new pods."""
        return is_cordoned(self.node)

    @property
    def is_held(self) -> bool:
        """Whether a run of this module holds the node."""
        return MIG_PURPOSE in hold.hold_of(self.node).purposes

    @property
    def paused(self) -> tuple[str, ...]:
        """The deploy labels with which the MIG manager keeps operands away."""
        return tuple(sorted(key for key, value in self.labels.items() if _is_paused(key, value)))

    @property
    def offered(self) -> dict[str, int]:
        """The GPUs and MIG devices that pods can get, without those of which there are none."""
        return {name: number for name, number in gpu_quantities(self.node, "allocatable").items() if number}

    @property
    def is_divided(self) -> bool:
        """Whether the product label says that the node offers MIG devices as GPUs (strategy single)."""
        return _DIVIDED in self.product

    @property
    def counted(self) -> int | None:
        """The number of whole GPUs, if the node says it: by its labels, or by what an earlier run has noted."""
        note = whole_number(annotations_of(self.node).get(GPUS_NOTE))
        return note if self.is_divided else whole_number(self.labels.get(names.GPU_COUNT)) or note

    @property
    def marks(self) -> tuple[t.Any, ...]:
        """What changes while a change makes progress."""
        ours = {key: value for key, value in self.labels.items() if key.startswith("nvidia.com/")}
        return (tuple(sorted(ours.items())), tuple(sorted(self.offered.items())), self.is_ready, self.is_cordoned)


def _is_paused(key: str, value: str) -> bool:
    return key.startswith(names.DEPLOY_PREFIX) and names.MIG_PAUSED in value


def resumed(value: str) -> str:
    """Return the value of a deploy label without the pause. What a user had set stays in front of the pause."""
    kept = value.replace(names.MIG_PAUSED, "").strip("_")
    return kept or "true"
