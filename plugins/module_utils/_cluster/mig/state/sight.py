# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a node says about its MIG layout: its labels, and what it offers to pods."""

from __future__ import annotations

import dataclasses
import re
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

PRODUCT_NOTE = "gpuops.nvidia/gpu-product"
"""Annotation with the product label of the whole GPUs: with the profile behind it, it can be too long for a label."""

INVALID = "-MIG-INVALID"
_DIVIDED = "-MIG-"
_SHOWN = (names.GPU_PRODUCT, names.GPU_COUNT, names.MIG_RESOURCE_PREFIX)
"""How the labels begin with which GPU Feature Discovery says how the GPUs are divided."""


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
    def whole_product(self) -> str:
        """The product label as it is with whole GPUs, or as it was when an earlier run has divided them."""
        noted, shown = annotations_of(self.node).get(PRODUCT_NOTE, ""), whole_product(self.product)
        return noted if noted.startswith(shown) else shown

    @property
    def model(self) -> table.Model | None:
        """The model of the GPUs, if its profiles are known."""
        return table.model_of(product=self.whole_product) if self.whole_product else None

    @property
    def divisions(self) -> tuple[int, int] | None:
        """The compute slices and the memory (MiB) of each MIG device with the strategy single, if labels say so."""
        found = tuple(whole_number(self.labels.get(key)) for key in (names.GPU_SLICES, names.GPU_MEMORY))
        return None if None in found else t.cast("tuple[int, int]", found)

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
        """Whether the labels say that the node offers MIG devices as GPUs (strategy single)."""
        return _DIVIDED in self.product or (not self.product and self.divisions is not None)

    @property
    def gpus_in_capacity(self) -> int:
        """How many GPUs the device plugin has, healthy or not, if labels say that none of them is divided.

        The capacity also keeps resources that are no longer offered.
        """
        capacity = {
            name: number for name, number in gpu_quantities(self.node, "capacity").items() if name in self.offered
        }
        shares = max(whole_number(self.labels.get(names.GPU_REPLICAS)) or 1, 1)
        resources = {names.GPU_RESOURCE, f"{names.GPU_RESOURCE}.shared"}
        is_told = bool(self.product) and not self.is_divided and not capacity.keys() - resources
        return sum(capacity.values()) // shares if is_told else 0

    @property
    def counted(self) -> int | None:
        """The number of whole GPUs, if the node says it: by its labels, or by what an earlier run has noted."""
        note = whole_number(annotations_of(self.node).get(GPUS_NOTE))
        shown = None if self.is_divided else whole_number(self.labels.get(names.GPU_COUNT))
        return shown or note if self.product else note or shown  # without a product, the label may count MIG devices

    @property
    def marks(self) -> tuple[t.Any, ...]:
        """What changes while a change makes progress."""
        ours = {key: value for key, value in self.labels.items() if key.startswith("nvidia.com/")}
        return (tuple(sorted(ours.items())), tuple(sorted(self.offered.items())), self.is_ready, self.is_cordoned)

    def is_like(self, before: Sight) -> bool:
        """Return whether the node shows the same GPUs and MIG devices as at an earlier look at which it had some.

        Labels can be old. What it offers is not: without the device plugin, which the MIG manager ends and starts
        again around a change, the kubelet offers nothing.
        """
        return bool(before.offered) and self.is_ready and not self.paused and self._shown == before._shown

    @property
    def _shown(self) -> tuple[t.Any, ...]:
        shown = {key: value for key, value in self.labels.items() if key.startswith(_SHOWN)}
        return (tuple(sorted(shown.items())), tuple(sorted(self.offered.items())))


_SUFFIX = re.compile(r"(-MIG-[^-]+(-me)?)?(-SHARED)?$")


def whole_product(product: str) -> str:
    """Return a product label without what feature discovery appends, such as ``-MIG-1g.24gb-me`` and ``-SHARED``."""
    return _SUFFIX.sub("", product)


def _is_paused(key: str, value: str) -> bool:
    return key.startswith(names.DEPLOY_PREFIX) and names.MIG_PAUSED in value


def resumed(value: str) -> str:
    """Return the value of a deploy label without the pause. What a user had set stays in front of the pause."""
    kept = value.replace(names.MIG_PAUSED, "").strip("_")
    return kept or "true"
