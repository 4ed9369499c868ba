# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which platform a node belongs to, by the signs of the known platforms. What has no sign is unknown."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.known_platforms import (
    PLATFORMS,
    UNKNOWN_PRESETS,
    Layer,
    Platform,
    Sign,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import node_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Recognised:
    """What a node was recognised as: the platforms of each layer whose signs it has."""

    systems: tuple[Platform, ...] = ()
    distributions: tuple[Platform, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the node has the sign of any platform."""
        return bool(self.systems or self.distributions)

    @property
    def is_ambiguous(self) -> bool:
        """Whether the node has signs of platforms that exclude each other."""
        return len(self.systems) > 1 or len(self.distributions) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the platforms, the system first."""
        return tuple(platform.name for platform in (*self.systems, *self.distributions))

    @property
    def title(self) -> str:
        """The platforms as people call them, such as ``Bottlerocket on EKS``, or an empty text for an unknown node."""
        systems, distributions = (
            "/".join(each.title for each in layer) for layer in (self.systems, self.distributions)
        )
        # EKS Auto Mode has its distribution in its name.
        if systems and distributions and not systems.startswith(distributions):
            return f"{systems} on {distributions}"
        return systems or distributions

    @property
    def presets(self) -> tuple[str, ...]:
        """The presets that fit, the most fitting first. Contradicting signs leave none."""
        if self.is_ambiguous:
            return ()
        decisive = self.systems or self.distributions
        return decisive[0].presets if decisive else UNKNOWN_PRESETS


def recognise(node: Json, api_groups: t.Collection[str] = ()) -> Recognised:
    """Return what a node is, by its own signs and the groups that the cluster's API server has."""
    facts = _facts(node, api_groups)
    found = [platform for platform in PLATFORMS if any(_shows(sign, facts) for sign in platform.signs)]
    return Recognised(_of_layer(found, "system"), _of_layer(found, "distribution"))


def grouped(nodes: t.Iterable[Json], api_groups: t.Collection[str]) -> dict[Recognised, list[Json]]:
    """Return the nodes by what they were recognised as, in the order of the nodes."""
    groups: dict[Recognised, list[Json]] = collections.defaultdict(list)
    for node in nodes:
        groups[recognise(node, api_groups)].append(node)
    return dict(groups)


def _of_layer(found: list[Platform], layer: Layer) -> tuple[Platform, ...]:
    return tuple(platform for platform in found if platform.layer == layer)


def _facts(node: Json, api_groups: t.Collection[str]) -> dict[str, list[str]]:
    info = {
        "os_image": node_info(node, "osImage"),
        "kernel": node_info(node, "kernelVersion"),
        "kubelet": node_info(node, "kubeletVersion"),
    }
    return {
        "label": _pairs(labels_of(node)),
        "annotation": _pairs(annotations_of(node)),
        "api_group": list(api_groups),
        **{field: [text or ""] for field, text in info.items()},
    }


def _pairs(mapping: t.Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in mapping.items()]


def _shows(sign: Sign, facts: t.Mapping[str, list[str]]) -> bool:
    return all(any(re.search(pattern, text) for text in facts[field]) for field, pattern in sign.patterns.items())
