# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether a change between two releases of the operator concerns a cluster: the conditions of its record. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import images, pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class UpgradeView:
    """The cluster before the upgrade, and what the user wants."""

    before: tuple[int, int, int]
    after: tuple[int, int, int]
    values: Json
    """The Helm values for the new chart, as far as the user and the preset give them."""
    policy: Json = dataclasses.field(default_factory=dict)
    """The ClusterPolicy's spec."""
    drivers: t.Sequence[Json] = ()
    """The NVIDIADrivers."""
    nodes: t.Sequence[Json] = ()
    groups: frozenset[str] = frozenset()
    """The API groups that the cluster serves."""
    schema: Json = dataclasses.field(default_factory=dict)
    """What the new CRD says about a ClusterPolicy, or an empty dict if that is not known."""

    @property
    def gpu_nodes(self) -> list[Json]:
        """The nodes with GPUs."""
        return [node for node in self.nodes if nodes.is_gpu_node(node)]

    @property
    def delegates(self) -> bool:
        """Whether NVIDIADrivers determine the driver now."""
        return disruption.delegates(self.policy)


def applies(when: Json, sight: UpgradeView) -> str | None:
    """Return None if a condition does not hold. Otherwise, return what was found, which may be an empty string."""
    unknown = set(when) - set(_CONDITIONS)
    if unknown:
        message = f"A record has the condition {', '.join(sorted(unknown))}. Use {', '.join(_CONDITIONS)}."
        raise GpuOpsError(message, reason="Invalid")
    found = [_CONDITIONS[name](value, sight, when) for name, value in when.items()]
    return None if None in found else " ".join(filter(None, found))


def _value(sight: UpgradeView, path: str) -> t.Any:
    return disruption.at(sight.values, path)


def _is_given(value: t.Any) -> bool:
    return value not in (None, "", [], {})


def _values(paths: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    given = [path for path in paths if _is_given(_value(sight, path))]
    return f"Your values have {', '.join(given)}." if given else None


def _values_unset(paths: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    return None if any(_is_given(_value(sight, path)) for path in paths) else ""


def _values_true(paths: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    return "" if any(_value(sight, path) is True for path in paths) else None


def _values_false(paths: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    return "" if any(_value(sight, path) is False for path in paths) else None


def _systems(wanted: t.Any, sight: UpgradeView, when: Json) -> str | None:
    found = [nodes.os_of(node) for node in sight.gpu_nodes]
    below = when.get("major_below")
    fitting = [(name, version) for name, version in found if name in wanted and (not below or _major(version) < below)]
    return "" if fitting else None


def _major(version: str) -> int:
    major = version.partition(".")[0]
    return int(major) if major.isdecimal() else 0


def _image_tag(wanted: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    """Compare the tags that the operator of each line gives to the image of a node's driver."""
    spec = sight.policy
    if not (sight.delegates or operands.enabled(operands.DRIVER, spec)):
        return None
    systems = {nodes.os_of(node) for node in sight.gpu_nodes if pools.has_driver_container(node)}
    tags = [
        (images.os_tag(*found, sight.before[:2]), images.os_tag(*found, sight.after[:2]))
        for found in sorted(systems)
        if found[0] in wanted
    ]
    changed = [f"{old} becomes {new}" for old, new in tags if old != new]
    return f"Here {', '.join(changed)}." if changed else None


def _runtimes(wanted: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    found = {nodes.runtime_of(node).partition(":")[0] for node in sight.gpu_nodes}
    return "" if found & set(wanted) else None


def _nvidiadrivers(wanted: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    return "" if sight.delegates is bool(wanted) else None


def _driver_below(release: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    kept = _value(sight, "driver.version") or (sight.policy.get("driver") or {}).get("version") or ""
    parts, limit = ([int(part) for part in str(text).split(".") if part.isdecimal()] for text in (kept, release))
    return f"The driver is {kept}." if parts and parts < limit else None


def _mirrored(wanted: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    found = [
        str(block["repository"])
        for name, block in sight.values.items()
        if name != "node-feature-discovery" and isinstance(block, dict) and block.get("repository")
    ]
    others = sorted({text for text in found if not text.startswith("nvcr.io/")})
    return "" if bool(others) is bool(wanted) else None


def _served(groups: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    return "" if sight.groups & set(groups) else None


def _tainted(keys: t.Any, sight: UpgradeView, dummy: Json) -> str | None:
    found = {taint["key"] for node in sight.nodes for taint in (node.get("spec") or {}).get("taints") or []}
    return "" if found & set(keys) else None


def _with_systems(dummy: t.Any, dummy_sight: UpgradeView, dummy_when: Json) -> str:
    """Hold: this condition belongs to ``systems``, which has looked at it."""
    return ""


_CONDITIONS: dict[str, t.Callable[[t.Any, UpgradeView, Json], str | None]] = {
    "values": _values,
    "values_unset": _values_unset,
    "values_true": _values_true,
    "values_false": _values_false,
    "systems": _systems,
    "major_below": _with_systems,
    "image_tag": _image_tag,
    "runtimes": _runtimes,
    "nvidiadrivers": _nvidiadrivers,
    "driver_below": _driver_below,
    "mirrored": _mirrored,
    "served": _served,
    "tainted": _tainted,
}
