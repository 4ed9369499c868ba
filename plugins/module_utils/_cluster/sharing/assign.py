# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Which node gets which configuration, and why one must not. Pure.

Limits of MPS: the MPS control daemon refuses more replicas than an MPS server has clients. It counts 48 from compute
capability 7.5 on and 16 below, so V100 (7.0) is limited to 16, although CUDA allows 48 from Volta on. Source: NVIDIA
k8s-device-plugin v0.18.1 to v0.20.0, ``cmd/mps-control-daemon/mps/device.go`` and ``internal/plugin/mps.go``.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.config import Configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MPS_CLIENTS, OLD_MPS_CLIENTS = 48, 16
_NEW_MPS = (7, 5)

_RELAXES_MPS = (0, 20, 0)
"""The first device plugin that reads failRequestsGreaterThanOne of MPS, and sharedDevicesAllocationPolicy."""


_CHANGES = (".replicas", ".sharing-strategy")
"""Endings of labels that GPU Feature Discovery changes with the configuration."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """A configuration and the nodes that shall have it."""

    configuration: Configuration
    nodes: tuple[str, ...] | None
    selector: t.Mapping[str, str] | None

    @classmethod
    def of(cls, entry: t.Mapping[str, t.Any]) -> Choice:
        """Return the choice that an entry of the option ``configs`` describes."""
        named, selector = entry.get("nodes"), entry.get("node_selector")
        if (named is None) == (selector is None):
            raise _wrong(f"Configuration {entry['name']}: give either nodes or node_selector.")
        changing = [label for label in selector or {} if label.endswith(_CHANGES) or label == names.PLUGIN_CONFIG]
        if changing:
            raise _wrong(
                f"Configuration {entry['name']}: node_selector names {changing[0]}, which changes with the "
                "configuration. Choose the nodes by another label."
            )
        return cls(
            configuration=config.read(entry),
            nodes=None if named is None else tuple(dict.fromkeys(named)),
            selector=None if selector is None else _unmarked(nodes.selector_of(selector)),
        )


def choices_of(entries: t.Sequence[t.Mapping[str, t.Any]]) -> list[Choice]:
    """Return the choices of the option ``configs``, whose names must differ."""
    named = [entry["name"] for entry in entries]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise _wrong(f"configs has two configurations with the name {first_few(twice)}. Rename one of them.")
    return [Choice.of(entry) for entry in entries]


# ---- which nodes --------------------------------------------------------------------------------------------------


def assign(choices: t.Sequence[Choice], fleet: t.Sequence[Json], spec: Json) -> dict[str, Configuration]:
    """Return the configuration of each chosen node. ``spec`` is that of the ClusterPolicy."""
    by_name = {name_of(node): node for node in fleet}
    found: dict[str, Configuration] = {}
    for choice in choices:
        for name in _chosen(choice, by_name, spec):
            other = found.setdefault(name, choice.configuration)
            if other is not choice.configuration:
                raise _wrong(
                    f"Configurations {other.name} and {choice.configuration.name} both choose node {name}. "
                    "Let only one of them choose it."
                )
    return found


def _chosen(choice: Choice, by_name: t.Mapping[str, Json], spec: Json) -> list[str]:
    where = f"Configuration {choice.configuration.name}: "
    if choice.nodes is not None:
        return _named(choice.nodes, by_name, spec, where)
    selector = (choice.selector or {}).items()
    matching = [name for name, node in by_name.items() if selector <= _unmarked(labels_of(node)).items()]
    useful = [name for name in matching if _serves_containers(by_name[name], spec)]
    if not useful:
        labelled = f"has the labels {choice.selector}"
        which = f"that {labelled} gives GPUs to containers" if matching else labelled
        raise GpuOpsError(f"{where}no node {which}. Correct node_selector.", reason="NotFound")
    return useful


def _named(wanted: t.Sequence[str], by_name: t.Mapping[str, Json], spec: Json, where: str) -> list[str]:
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise GpuOpsError(f"{where}the cluster has no node {first_few(missing)}. Correct nodes.", reason="NotFound")
    useless = [name for name in wanted if not _serves_containers(by_name[name], spec)]
    if useless:
        raise _wrong(f"{where}{first_few(useless)} gives no GPUs to containers. Remove it from nodes.")
    return list(wanted)


def _unmarked(labels: t.Mapping[str, str]) -> dict[str, str]:
    """Return labels with the product as it is without sharing, so that a node is found again once it is shared."""
    product = labels.get(names.GPU_PRODUCT)
    return {**labels, **({names.GPU_PRODUCT: product.removesuffix("-SHARED")} if product else {})}


def _serves_containers(node: Json, spec: Json) -> bool:
    return nodes.is_gpu_node(node) and nodes.runs_containers(node, spec)


# ---- what a node cannot do ----------------------------------------------------------------------------------------


def refuse_impossible(wanted: t.Mapping[str, Configuration], by_name: t.Mapping[str, Json], spec: Json) -> None:
    """Raise if a configuration cannot work: with this ClusterPolicy, or on one of its nodes."""
    for configuration in {each.name: each for each in wanted.values()}.values():
        why = _against_policy(configuration, spec)
        if why:
            raise _wrong(f"Configuration {configuration.name}: {why}")
    found: dict[tuple[str, str], list[str]] = {}
    for name, configuration in wanted.items():
        why = against_node(configuration, by_name[name])
        if why:
            found.setdefault((configuration.name, why), []).append(name)
    for (name, why), where in found.items():
        raise _wrong(f"Configuration {name} cannot work on {first_few(where)}: {why}")


def mig_strategy(configuration: Configuration, spec: Json) -> str:
    """Return the MIG strategy that the device plugin follows. The ClusterPolicy's overrides the configuration's."""
    own = configuration.flags.get("migStrategy")
    return str((spec.get("mig") or {}).get("strategy") or own or config.NONE)


def _against_policy(configuration: Configuration, spec: Json) -> str:
    """Return why a configuration cannot work with a ClusterPolicy, or an empty string."""
    strategy, own = mig_strategy(configuration, spec), configuration.flags.get("migStrategy")
    if own not in (None, strategy):
        return (
            f"flags.migStrategy {own} has no effect, because the operator sets MIG_STRATEGY={strategy} for the device "
            "plugin. Set mig.strategy in the ClusterPolicy, and remove it here."
        )
    if configuration.strategy == config.MPS and strategy == "mixed":
        return (
            "the device plugin does not start with MPS and the MIG strategy mixed. Use time-slicing, or set "
            "mig.strategy to single or none in the ClusterPolicy."
        )
    devices = [name for name in configuration.shares if name != names.GPU_RESOURCE]
    if devices and strategy != "mixed":
        return (
            f"no node offers {devices[0]} with the MIG strategy {strategy}, under which MIG devices are "
            f"{names.GPU_RESOURCE}. Share {names.GPU_RESOURCE}, or set mig.strategy to mixed in the ClusterPolicy."
        )
    return _against_release(configuration, (spec.get("devicePlugin") or {}).get("version"))


def _against_release(configuration: Configuration, version: str | None) -> str:
    release = operands.release(version)
    if release is None or release >= _RELAXES_MPS:
        return ""
    if configuration.strategy == config.MPS and configuration.single is False:
        return (
            f"the device plugin {version} ignores failRequestsGreaterThanOne: false with MPS. Remove it, or use "
            "v0.20.0 or newer."
        )
    if "sharedDevicesAllocationPolicy" in (configuration.flags.get("plugin") or {}):
        return (
            f"the device plugin {version} ignores flags.plugin.sharedDevicesAllocationPolicy. Remove it, or use "
            "v0.20.0 or newer."
        )
    return ""


def against_node(configuration: Configuration, node: Json) -> str:
    """Return why a configuration cannot work on a node, or an empty string."""
    offered = offered_devices(node)
    if configuration.shares and offered and not offered & configuration.shares.keys():
        return (
            f"it shares {first_few(sorted(configuration.shares))}, and the node offers {first_few(sorted(offered))}. "
            "Name what the node offers, or change its MIG layout first."
        )
    return _against_mps(configuration, node) if configuration.strategy == config.MPS else ""


def _against_mps(configuration: Configuration, node: Json) -> str:
    labels = labels_of(node)
    if "-MIG-" in labels.get(names.GPU_PRODUCT, "") or offered_devices(node) - {names.GPU_RESOURCE}:
        return "its GPUs are divided into MIG devices, which MPS cannot share. Use time-slicing, or disable MIG first."
    capability = tuple(whole_number(labels.get(label)) or 0 for label in names.COMPUTE_CAPABILITY)
    known = any(capability)
    limit = OLD_MPS_CLIENTS if known and capability < _NEW_MPS else MPS_CLIENTS
    replicas = max(configuration.shares.values())
    if replicas <= limit:
        return ""
    kind = f"GPUs of compute capability {capability[0]}.{capability[1]}" if known else "a GPU"
    return f"MPS serves at most {limit} pods on {kind}, and replicas is {replicas}. Give {limit} or less."


def offered_devices(node: Json) -> set[str]:
    """Return the resources of which a node has devices, by their names without sharing."""
    capacity = nodes.gpu_quantities(node, "capacity")
    return {name.removesuffix(config.SHARED) for name, number in capacity.items() if number}


# ---- labels that others have set ----------------------------------------------------------------------------------


def refuse_foreign(
    wanted: t.Mapping[str, Configuration], by_name: t.Mapping[str, Json], owns: t.Callable[[Json], bool]
) -> None:
    """Raise if somebody else has given one of these nodes another configuration."""
    foreign = {}
    for name, configuration in wanted.items():
        value = labels_of(by_name[name]).get(names.PLUGIN_CONFIG)
        if value not in (None, "", configuration.key) and not owns(by_name[name]):
            foreign[name] = value
    if foreign:
        found = first_few([f"{name} ({value})" for name, value in foreign.items()])
        raise GpuOpsError(
            f"Somebody else has set the label {names.PLUGIN_CONFIG} of {found}. Remove the label, or set "
            "replace_labels: true.",
            reason="Conflict",
        )


def _wrong(message: str) -> GpuOpsError:
    return GpuOpsError(message, reason="Invalid")
