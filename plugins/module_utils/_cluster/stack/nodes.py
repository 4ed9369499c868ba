# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Pure functions about Node objects: whether a node has GPUs, what it offers, and whether a pod fits on it."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    DEPLOY_PREFIX,
    FEATURE_DISCOVERY,
    GPU_PRESENT,
    GPU_PRODUCT,
    GPU_REPLICAS,
    GPU_RESOURCE,
    MIG_RESOURCE_PREFIX,
    NFD_GPU_LABELS,
    NFD_PREFIX,
    OPERANDS_SWITCH,
    OS_ID,
    OS_VERSION,
    PAUSED,
    UPGRADE_SKIP,
    UPGRADE_STATE,
    WORKLOAD_CONFIG,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    labels_of,
    quantity,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.workload_words import CONTAINER, WORKLOAD_KINDS
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_GPU_RESOURCES = (GPU_RESOURCE + ".", MIG_RESOURCE_PREFIX)

# The DaemonSet controller adds these tolerations to its pods (kubernetes/pkg/controller/daemon/util/daemonset_util.go).
DAEMONSET_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
        # These two taints accompany the NoExecute taints above, and the controller ignores them.
        ("not-ready", "NoSchedule"),
        ("unreachable", "NoSchedule"),
    )
)


def is_discovered(label: str) -> bool:
    """Return whether GPU Feature Discovery sets a label. It runs on container nodes, and its labels end with it."""
    patterns = FEATURE_DISCOVERY
    return any(label.startswith(each[:-1]) if each.endswith("*") else label == each for each in patterns)


def is_gpu_node(node: Json) -> bool:
    """Return whether the operator counts this node as a GPU node: NFD or the operator itself has labelled it."""
    labels = labels_of(node)
    return labels.get(GPU_PRESENT) == "true" or has_nfd_gpu_label(node)


def has_nfd_gpu_label(node: Json) -> bool:
    """Return whether Node Feature Discovery found an NVIDIA device on this node."""
    labels = labels_of(node)
    return any(labels.get(key) == "true" for key in NFD_GPU_LABELS)


def has_nfd_labels(node: Json) -> bool:
    """Return whether Node Feature Discovery has labelled this node at all."""
    return any(key.startswith(NFD_PREFIX) for key in labels_of(node))


def is_switched_off(node: Json) -> bool:
    """Return whether a label that a user has set keeps the operands away from this node."""
    return labels_of(node).get(OPERANDS_SWITCH) == "false"


def has_deploy_labels(node: Json) -> bool:
    """Return whether the operator has labelled this node for the operands."""
    return any(key.startswith(DEPLOY_PREFIX) for key in labels_of(node))


def is_paused(node: Json) -> bool:
    """Return whether a driver upgrade or a MIG change keeps an operand away from this node at the moment."""
    return any(PAUSED in value for key, value in labels_of(node).items() if key.startswith(DEPLOY_PREFIX))


def upgrade_state(node: Json) -> str:
    """Return the state of the node's driver upgrade, or an empty string."""
    return labels_of(node).get(UPGRADE_STATE, "")


def skips_upgrades(node: Json) -> bool:
    """Return whether a label that a user has set keeps this node out of driver upgrades."""
    return labels_of(node).get(UPGRADE_SKIP) == "true"


def workload_kind(node: Json, spec: Json) -> str:
    """Return who gets this node's GPUs: ``container``, ``vm-passthrough`` or ``vm-vgpu``.

    ``spec`` is a ClusterPolicy's, whose default counts for a node without a known value of the label.
    """
    sandbox = spec.get("sandboxWorkloads") or {}
    if not sandbox.get("enabled"):
        return CONTAINER
    kind = labels_of(node).get(WORKLOAD_CONFIG, "")
    return kind if kind in WORKLOAD_KINDS else str(sandbox.get("defaultWorkload") or CONTAINER)


def runs_containers(node: Json, spec: Json) -> bool:
    """Return whether this node's GPUs are for containers rather than for virtual machines."""
    return workload_kind(node, spec) == CONTAINER


def is_ready(node: Json) -> bool:
    """Return whether the kubelet reports the node as Ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def is_cordoned(node: Json) -> bool:
    """Return whether the node is closed to new pods."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def taints_of(node: Json) -> list[Json]:
    """Return the node's taints that keep pods away (PreferNoSchedule does not)."""
    taints = (node.get("spec") or {}).get("taints") or []
    return [taint for taint in taints if taint.get("effect") != "PreferNoSchedule"]


def tolerates(toleration: t.Mapping[str, t.Any], taint: Json) -> bool:
    """Return whether one toleration covers one taint, by the scheduler's rule."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key") or ""
    if key and key != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


CORDON: Json = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""The taint that Kubernetes puts on a cordoned node."""


def ignores_cordons(pod_spec: Json) -> bool:
    """Return whether the scheduler may put a pod on a cordoned node, and so back to where it was evicted from."""
    return any(tolerates(each, CORDON) for each in pod_spec.get("tolerations") or [])


def untolerated(node: Json, tolerations: t.Iterable[t.Mapping[str, t.Any]]) -> list[Json]:
    """Return the node's taints that a DaemonSet pod with these tolerations does not tolerate."""
    taints = taints_of(node)
    if not taints:  # true for nearly every node, and this function runs for every operand
        return []
    accepted = [*tolerations, *DAEMONSET_TOLERATIONS]
    return [taint for taint in taints if not any(tolerates(toleration, taint) for toleration in accepted)]


def matches(selector: t.Mapping[str, str] | None, node: Json) -> bool:
    """Return whether a nodeSelector selects this node."""
    labels = labels_of(node)
    return all(labels.get(key) == value for key, value in (selector or {}).items())


def fits_affinity(affinity: Json, node: Json) -> bool:
    """Return whether a nodeAffinity allows this node: what it requires. Of several terms, one is enough."""
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_fits_term(term, node) for term in required.get("nodeSelectorTerms") or [])


def fits_selector(selector: Json, labels: t.Mapping[str, str]) -> bool:
    """Return whether a selector of pods selects labels. An empty one selects everything."""
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    return wanted.items() <= labels.items() and all(_fits_expression(item, labels) for item in expressions)


def _fits_term(term: Json, node: Json) -> bool:
    """Return whether a term of a nodeAffinity selects a node. An empty term selects no node, as in Kubernetes."""
    by_label, by_field = term.get("matchExpressions") or [], term.get("matchFields") or []
    labels, fields = labels_of(node), {"metadata.name": node["metadata"]["name"]}
    tests = [_fits_expression(item, labels) for item in by_label]
    return bool(by_label or by_field) and all([*tests, *(_fits_expression(item, fields) for item in by_field)])


def _fits_expression(expression: Json, labels: t.Mapping[str, str]) -> bool:
    """Return whether labels satisfy one expression, by the scheduler's rule."""
    value, values = labels.get(expression["key"]), expression.get("values") or []
    if expression["operator"] in ("Gt", "Lt"):
        sign = 1 if expression["operator"] == "Gt" else -1
        return value is not None and value.lstrip("-").isdecimal() and sign * (int(value) - int(values[0])) > 0
    answers = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return answers[expression["operator"]]


def selector_of(option: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return a selector option with strings as values, as in labels: YAML reads ``true`` and ``7`` as other types."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in option.items()}


def gpu_quantities(node: Json, field: str) -> dict[str, int]:
    """Return the GPU resources in ``capacity`` or ``allocatable``, for example ``{"nvidia.com/gpu": 8}``."""
    listed = (node.get("status") or {}).get(field) or {}
    return {key: quantity(value) for key, value in listed.items() if is_gpu_resource(key)}


def has_allocatable_gpus(node: Json) -> bool:
    """Return whether the node has GPUs for pods."""
    return any(gpu_quantities(node, "allocatable").values())


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a node has for pods of one kind: whole GPUs or MIG devices of one profile, shared or not.

    ``expected`` is how many pods should be able to get, and ``allocatable`` how many they can get. ``devices`` and
    ``replicas`` (how many pods share a device) are what GPU Feature Discovery has counted, or None.
    """

    resource: str
    """The resource's name without the suffix of renamed shares: ``nvidia.com/gpu``, ``nvidia.com/mig-1g.10gb``."""
    profile: str | None
    """The MIG profile, also for MIG devices that are offered as ``nvidia.com/gpu`` (strategy single)."""
    devices: int | None
    replicas: int | None
    expected: int
    allocatable: int


RENAMED = ".shared"
"""The end of a resource's name if its shares are renamed."""


def base_resource(name: str) -> str:
    """Return the name of a resource without the suffix of renamed shares."""
    return name.removesuffix(RENAMED)


def gpu_offers(node: Json) -> list[Offer]:
    """Return what a node has for pods beside what it should have.

    It should have all that the device plugin knows (capacity), and all that GPU Feature Discovery has counted. For five
    minutes after a resource has gone, the kubelet still reports a capacity, of which 0 are allocatable: what GPU
    Feature Discovery no longer counts then is not expected. Source: endpointStopGracePeriod in
    kubernetes/pkg/kubelet/cm/devicemanager.
    """
    counted = _counted(node)
    listed = map(base_resource, [*gpu_quantities(node, "capacity"), *gpu_quantities(node, "allocatable"), *counted])
    found = [_offer(node, base, counted) for base in sorted(set(listed), key=lambda base: (base != GPU_RESOURCE, base))]
    return [offer for offer in found if offer.expected or offer.allocatable]


def _offer(node: Json, base: str, counted: t.Mapping[str, tuple[int, int]]) -> Offer:
    names, allocatable = (base, base + RENAMED), gpu_quantities(node, "allocatable")
    offered_names = [name for name in names if allocatable.get(name)]
    devices, replicas = counted.get(base, (None, None))
    is_gone = bool(counted) and not offered_names and not _is_partly_divided(node, base)
    known = 0 if is_gone else _total(gpu_quantities(node, "capacity"), offered_names or names)
    expected = max(known, (devices or 0) * (replicas or 0))
    found = _total(allocatable, offered_names)
    return Offer(base, profile_of(base, labels_of(node)), devices, replicas, expected, found)


def _total(quantities: t.Mapping[str, int], names: t.Iterable[str]) -> int:
    return sum(quantities.get(name, 0) for name in names)


_COUNT = ".count"


def _counted(node: Json) -> dict[str, tuple[int, int]]:
    """Return devices and replicas by resource, as GPU Feature Discovery has counted them."""
    found, labels = {}, labels_of(node)
    for key, text in labels.items():
        if key.endswith(_COUNT) and is_gpu_resource(base := key.removesuffix(_COUNT)):
            number = whole_number(text)
            if number is not None and not _is_partly_divided(node, base):
                found[base] = (number, whole_number(labels.get(f"{base}.replicas", "1")) or 0)
    return found


def _is_partly_divided(node: Json, resource: str) -> bool:
    """Return whether the count of whole GPUs may include GPUs that MIG divides, beside others that it does not."""
    allocatable = gpu_quantities(node, "allocatable")
    has_mig = any(number for name, number in allocatable.items() if name.startswith(MIG_RESOURCE_PREFIX))
    return resource == GPU_RESOURCE and has_mig and labels_of(node).get(GPU_REPLICAS) != "0"


_MIG_PRODUCT = re.compile(r"-MIG-((?:\d+c\.)?\d+g\.\d+gb)([a-zA-Z.]*|-me)(?:-SHARED)?$")
"""A product with the strategy single. GPU Feature Discovery leaves out the plus sign of a profile's attribute."""


def profile_of(resource: str, labels: t.Mapping[str, str]) -> str | None:
    """Return the MIG profile of a resource as mig-parted writes it (``1g.10gb+me``), or None for whole GPUs."""
    if resource.startswith(MIG_RESOURCE_PREFIX):
        return profile_names.undotted(base_resource(resource).removeprefix(MIG_RESOURCE_PREFIX))
    found = _MIG_PRODUCT.search(labels.get(GPU_PRODUCT, ""))
    if not found:
        return None
    attribute = found[2].removeprefix(".")
    return found[1] + (f"+{attribute}" if attribute and not attribute.startswith("-") else attribute)


def missing_gpus(node: Json) -> int:
    """Return how many GPUs, MIG devices and shares a node that offers some has less for pods than it should have."""
    if not has_allocatable_gpus(node):
        return 0
    return sum(max(offer.expected - offer.allocatable, 0) for offer in gpu_offers(node))


def offered(node: Json, resource: str) -> int:
    """Return how much of a resource the node has for pods."""
    return quantity(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


def is_gpu_resource(name: str) -> bool:
    """Return whether a resource name is a whole, shared or MIG GPU of NVIDIA's device plugin."""
    return name == GPU_RESOURCE or name.startswith(_GPU_RESOURCES)


def format_taint(taint: Json) -> str:
    """Return a taint as kubectl writes it: ``key=value:effect``."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect', '')}"


_OS_IMAGES = (
    ("Ubuntu", "ubuntu"),
    ("Red Hat Enterprise Linux CoreOS", "rhcos"),
    ("Red Hat Enterprise Linux", "rhel"),
    ("Rocky Linux", "rocky"),
)
"""Prefixes of the names that the kubelet reports, each with the ID in /etc/os-release."""


def os_of(node: Json) -> tuple[str, str]:
    """Return the operating system's ID and version: from Node Feature Discovery, or else from the kubelet."""
    labels = labels_of(node)
    if OS_ID in labels:
        return labels[OS_ID], labels.get(OS_VERSION, "")
    image = node_info(node, "osImage") or "unknown"
    version = re.search(r"\d+(\.\d+)?", image)
    known = (os_id for prefix, os_id in _OS_IMAGES if image.startswith(prefix))
    before_version = image.split("(", maxsplit=1)[0].strip(" 0123456789.")
    return next(known, before_version or image), version[0] if version else ""


def os_text(node: Json) -> str | None:
    """Return the operating system in Node Feature Discovery's spelling (``ubuntu24.04``), or else in the kubelet's."""
    return "".join(os_of(node)) if OS_ID in labels_of(node) else node_info(node, "osImage")


def kernel_of(node: Json) -> str:
    """Return the running kernel as the kubelet reports it, or unknown."""
    return node_info(node, "kernelVersion") or "unknown"


def runtime_of(node: Json) -> str:
    """Return the container runtime and its version as the kubelet reports them (``containerd://2.1.4``), or unknown."""
    return node_info(node, "containerRuntimeVersion") or "unknown"


def node_info(node: Json, field: str) -> str | None:
    """Return what the kubelet reports about its node in a field of ``nodeInfo``, or None if it has not reported it."""
    return ((node.get("status") or {}).get("nodeInfo") or {}).get(field) or None
