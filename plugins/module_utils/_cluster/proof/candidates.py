# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes the smoke test covers, which resource it requests on each, and why it leaves a node out."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import NO_DEVICES, Offered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import smoke_claims
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import WorkloadVerdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.slimmer import Slimmer
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

DEPLOY_SANDBOX = names.DEPLOY_PREFIX + "sandbox-validator"
"""The operator sets this label on the nodes whose GPUs are for virtual machines, whatever their kind."""

NOT_FOR_PODS = (tolerance.SWITCHED_OFF, tolerance.VIRTUAL)
"""Codes of nodes that give no GPU to a pod because a user wants it so. They do not count for ``min_tested``."""


@dataclasses.dataclass(frozen=True)
class Selection:
    """The nodes that the options select: ``testable`` maps some to a resource, the others have a verdict already."""

    names: list[str]
    testable: dict[str, str]
    verdicts: list[WorkloadVerdict]

    @property
    def countable(self) -> int:
        """How many of the nodes could be tested at another time."""
        return len(self.names) - sum(verdict.code in NOT_FOR_PODS for verdict in self.verdicts)


def select(all_nodes: list[Json], options: Options, offered: Offered = NO_DEVICES) -> Selection:
    """Choose the nodes, and the resource or DeviceClass of each. Raises an error without a node to test."""
    by_name = {name_of(node): node for node in all_nodes}
    chosen = _chosen(all_nodes, options, offered)
    if not chosen:
        raise _nothing_to_test(options)
    testable, verdicts = {}, []
    for name in chosen:
        node = by_name.get(name)
        resource = _resource(node, options, offered) if node else None
        verdict = _without_pod(name, node, resource, options, offered)
        if verdict:
            verdicts.append(verdict)
        else:
            testable[name] = str(resource)
    return Selection(chosen, testable, verdicts)


def too_few_tested(verdicts: t.Iterable[WorkloadVerdict], countable: int, min_tested: str) -> str:
    """Return one sentence if too few of the nodes were tested, or an empty string. A percentage is rounded up."""
    verdicts = list(verdicts)
    number, percent = tolerance.parse_limit(min_tested, "min_tested")
    wanted = math.ceil(countable * number / 100) if percent else min(number, countable)
    untested = [verdict for verdict in verdicts if not _was_tested(verdict)]
    tested = len(verdicts) - len(untested)
    if tested >= wanted:
        return ""
    causes = [
        f"{verdict.node}: {verdict.code or 'NotTestable'}" for verdict in untested if verdict.code not in NOT_FOR_PODS
    ]
    return (
        f"Only {tested} of {countable} nodes were tested, but at least {wanted} must be ({first_few(causes)}). "
        "Run the test when GPUs are free, or lower min_tested."
    )


def _was_tested(verdict: WorkloadVerdict) -> bool:
    """Return whether a workload ran to a verdict. A node that is down has failed, but without a test."""
    return verdict.passed or (verdict.phase is not None and not verdict.skipped)


class CandidateSlimmer(Slimmer):
    """Reduces nodes to the parts that this file reads: also why a node is not Ready."""

    def __call__(self, node: Json) -> Json:
        """Return the parts of a node."""
        kept = super().__call__(node)
        for condition in kept["status"]["conditions"]:
            condition["message"] = _why_not_ready(node)
        return kept


def _chosen(all_nodes: list[Json], options: Options, offered: Offered) -> list[str]:
    if options["nodes"] is not None:
        return list(dict.fromkeys(options["nodes"]))
    tests = tolerance.parse_selector(options["node_selector"] or "")
    pools = offered.by_node
    gpu_nodes = (node for node in all_nodes if name_of(node) in pools or _has_gpus(node, options["resource"]))
    selected = {name_of(node) for node in gpu_nodes if all(test(labels_of(node)) for test in tests)}
    return sorted(selected.difference(options["exclude_nodes"]))


def _has_gpus(node: Json, resource: str | None) -> bool:
    """Return whether this is a GPU node: by its labels, or by what it offers where the nodes lack labels."""
    return nodes.is_gpu_node(node) or bool(
        nodes.gpu_quantities(node, "capacity") or nodes.offered(node, resource or "")
    )


def _nothing_to_test(options: Options) -> GpuOpsError:
    selector = options["node_selector"]
    among = f" with the labels {selector}" if selector else ""
    return GpuOpsError(
        f"Cannot test: the cluster has no GPU node{among}. "
        "Check that Node Feature Discovery runs and that the nodes have joined the cluster; gpu_stack_info shows both.",
        reason="NoGpuNodes",
    )


def _resource(node: Json, options: Options, offered_devices: Offered) -> str | None:
    """Return the resource or DeviceClass to request on a node, or None if the node does not offer enough of any."""
    if smoke_claims.is_class(options["resource"]):
        return _class(node, [options["resource"]], options, offered_devices)
    if options["resource"]:
        enough = nodes.offered(node, options["resource"]) >= options["count"]
        return str(options["resource"]) if enough else None
    offered = nodes.gpu_quantities(node, "allocatable")
    enough_of = [name for name, number in offered.items() if number >= options["count"]]
    found = min(enough_of, key=lambda name: (_rank(name), -offered[name], name), default=None)
    return found or _class(node, [names.DEVICE_CLASSES["gpu"], names.DEVICE_CLASSES["mig"]], options, offered_devices)


def _class(node: Json, classes: t.Iterable[str], options: Options, offered: Offered) -> str | None:
    """Return the first DeviceClass of which claims can get enough on a node."""
    found = (each for each in classes if smoke_claims.enough_of(offered, name_of(node), each, options["count"]))
    return next(found, None)


def _rank(resource: str) -> int:
    """Rank whole GPUs before shared ones, and both before MIG devices."""
    return 2 if resource.startswith(names.MIG_RESOURCE_PREFIX) else int(resource != names.GPU_RESOURCE)


def _without_pod(
    name: str, node: Json | None, resource: str | None, options: Options, offered: Offered
) -> WorkloadVerdict | None:
    """Return the verdict on a node that needs no pod, or None for a node that can be tested."""
    if node is None:
        return WorkloadVerdict(name, reason="There is no such node.")
    is_ready = nodes.is_ready(node)
    kept_out = None if is_ready and resource else _not_for_pods(node)
    if not kept_out and nodes.is_cordoned(node) and options["nodes"] is None:
        kept_out = "Cordoned", _why_cordoned(node)
    if kept_out:
        return WorkloadVerdict(name, skipped=True, code=kept_out[0], reason=kept_out[1])
    if not is_ready:
        return WorkloadVerdict(name, reason=f"The node is not Ready: {_why_not_ready(node)}.")
    return None if resource else _offers_too_little(name, node, options, offered)


def _not_for_pods(node: Json) -> tuple[str, str] | None:
    """Return why a node gives pods no GPU through a device plugin, as a code and a sentence."""
    labels = labels_of(node)
    if operands.are_switched_off(node):
        return tolerance.SWITCHED_OFF, f"The label {names.OPERANDS_SWITCH}=false keeps the operands away from the node."
    if labels.get(operands.DEVICE_PLUGIN.deploy_label):
        return None
    if labels.get(DEPLOY_SANDBOX) == "true":
        return tolerance.VIRTUAL, f"The node's GPUs are for virtual machines (label {names.WORKLOAD_CONFIG})."
    return None


def _why_cordoned(node: Json) -> str:
    """Return the reason, with the other maintainers that keep the node cordoned if they have marked it."""
    holders = [str(holder) for holder in marks.holders(node, {}) if holder.needs_cordon]
    return f"The node is cordoned{' for ' if holders else ''}{' and '.join(holders)}."


def _why_not_ready(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    ready: Json = next((item for item in conditions if item["type"] == "Ready"), {})
    return ready.get("message") or "its kubelet has not reported yet"


def _offers_too_little(name: str, node: Json, options: Options, offered_devices: Offered) -> WorkloadVerdict:
    """Judge a node that does not offer the resource, or not enough of it."""
    wanted = options["resource"]
    if smoke_claims.is_class(wanted) or _is_claimed(node, offered_devices):
        return WorkloadVerdict(name, reason=_devices_missing(name, wanted, options["count"], offered_devices))
    offered = {key: number for key, number in nodes.gpu_quantities(node, "allocatable").items() if number}
    what = ", ".join(f"{number} {key}" for key, number in sorted(offered.items())) or "no GPU"
    if wanted and offered and wanted not in offered and options["nodes"] is None:
        return WorkloadVerdict(
            name, skipped=True, code="OtherResource", reason=f"The node offers {what}, and no {wanted}."
        )
    reason = f"The node offers {what}, but the test needs {_needs(options)}. Check the node's device plugin."
    return WorkloadVerdict(name, reason=reason)


def _is_claimed(node: Json, offered: Offered) -> bool:
    """Return whether pods get GPUs of a node by claims, and not from a device plugin."""
    is_labelled = labels_of(node).get(operands.DRA_PLUGIN.deploy_label) == "true"
    return (is_labelled or name_of(node) in offered.by_node) and not nodes.has_allocatable_gpus(node)


def _devices_missing(name: str, wanted: str | None, count: int, offered: Offered) -> str:
    """Return why claims cannot get enough devices of a node."""
    if offered.refusal:
        return "What the node offers to claims is unknown, because this user may not list ResourceSlices."
    pool = offered.by_node.get(name)
    usable = sum(not device.is_kept_away for device in pool.devices) if pool and not pool.missing else 0
    what = f"offers {usable} device{'' if usable == 1 else 's'} to claims" if pool else "has no ResourceSlice"
    needed = f"{count} of {wanted}" if wanted else f"{count} GPU{'' if count == 1 else 's'}"
    return (
        f"The node {what}, but the test needs {needed}. gpu_stack_info shows its devices and their "
        f"taints. See also the log of {operands.DRA_PLUGIN.daemonset} on the node."
    )


def _needs(options: Options) -> str:
    wanted, count = options["resource"], options["count"]
    return f"{count} {wanted or 'GPU'}" if wanted or count == 1 else f"{count} of one resource"
