# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What would keep the GPU Operator from working on a cluster: pure checks on one snapshot of it."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _findings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.names import (
    DEPLOY_PREFIX,
    NFD_GPU_LABELS,
    OPERANDS_SWITCH,
    UPGRADE_STATE,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import (
    has_nfd_gpu_label,
    has_nfd_labels,
    is_ready,
    is_switched_off,
    untolerated,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._compatibility import (
    LIFE_CYCLE,
    LINES,
    MINIMUM_DRIVERS,
    NEWEST,
    Line,
    Minor,
    line_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level, worst_first
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
PRODUCT = "nvidia.com/gpu.product"
ENFORCE = "pod-security.kubernetes.io/enforce"

DEFAULT_TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
"""The tolerations that operands carry unless daemonsets.tolerations replaces them."""

EXAMPLES = 5


@dataclasses.dataclass(frozen=True)
class Finding(_findings.Finding):
    """The outcome of one check, with the nodes that it is about."""

    nodes: tuple[str, ...] = ()
    count: int = 0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the user is about to install."""

    namespace: str
    release_name: str
    operator_version: str | None
    values: Json

    def value(self, path: str, default: t.Any) -> t.Any:
        """Return a Helm value by its dotted path."""
        found: t.Any = self.values
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return default if found is None else found

    @property
    def manages_driver(self) -> bool:
        """Whether the operator is to install the driver."""
        return bool(self.value("driver.enabled", True))

    @property
    def per_pool_driver(self) -> bool:
        """Whether NVIDIADriver resources give each pool of nodes its own driver."""
        return bool(self.value("driver.nvidiaDriverCRD.enabled", False))

    @functools.cached_property
    def line(self) -> Line | None:
        """The compatibility data of the operator's release line; the newest without a version, None for an unknown one."""
        return line_of(self.operator_version)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The cluster as one pass of requests saw it."""

    version: str
    nodes: list[Json]
    daemonsets: list[Json]
    operators: list[Json]
    """Deployments of GPU Operators in any namespace."""
    clusterpolicies: list[Json]
    gpuclusters: list[Json]
    namespace: Json | None
    missing_permissions: list[str] = dataclasses.field(default_factory=list)
    ungranted: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """By role of the chart, what it gives away that the user does not have."""
    unreadable: frozenset[str] = frozenset()
    """Names of the collections that this user may not list. They are empty here."""

    @functools.cached_property
    def nfd_ran(self) -> bool:
        """Whether Node Feature Discovery has labelled any node."""
        return any(has_nfd_labels(node) for node in self.nodes)

    @functools.cached_property
    def gpu_nodes(self) -> list[Json]:
        """The nodes that carry an NVIDIA GPU by the labels of Node Feature Discovery."""
        return [node for node in self.nodes if has_nfd_gpu_label(node)]

    @functools.cached_property
    def candidates(self) -> list[Json]:
        """The GPU nodes, or while nothing has labelled them every node that runs workloads."""
        return self.gpu_nodes or [
            node for node in self.nodes if "node-role.kubernetes.io/control-plane" not in labels_of(node)
        ]

    @property
    def severity(self) -> Level:
        """How bad it is that candidates differ: while the GPU nodes are unknown, those that differ may have no GPU."""
        return "failure" if self.gpu_nodes else "warning"

    @property
    def who(self) -> str:
        """What to call the candidates."""
        return "GPU nodes" if self.gpu_nodes else "Nodes (which of them carry a GPU is not known yet)"


def name_of(item: Json) -> str:
    """Return an object's name, with its namespace where it has one."""
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _on(nodes: list[Json]) -> dict[str, t.Any]:
    """Return a finding's nodes: a few names and the count."""
    return {"nodes": tuple(name_of(node) for node in nodes[:EXAMPLES]), "count": len(nodes)}


def _versions(pairs: t.Iterable[Minor]) -> str:
    return " to ".join(f"{major}.{minor}" for major, minor in pairs)


def _minor(version: str) -> Minor | None:
    found = re.search(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def check_kubernetes_version(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Compare the API server and the operator's line with the compatibility data."""
    check, line, version = "kubernetes_version", plan.line, _minor(snapshot.version)
    if line is None:
        known = ", ".join(LINES)
        yield Finding(
            check,
            "warning",
            f"There is no compatibility data for GPU Operator {plan.operator_version}; known lines are {known}.",
        )
        return
    if LIFE_CYCLE[line.name] != "supported":
        yield Finding(
            check,
            "warning",
            f"NVIDIA's status of GPU Operator {line.name} is: {LIFE_CYCLE[line.name]}.",
            f"Plan to move to {NEWEST.name}.",
        )
    oldest, newest = line.kubernetes
    range_ = f"NVIDIA validated GPU Operator {line.name} with Kubernetes {_versions(line.kubernetes)}"
    if version is None or oldest <= version <= newest:
        yield Finding(check, "ok", f"{range_}; this is {snapshot.version}.")
    elif version < oldest:
        yield Finding(
            check,
            "failure",
            f"{range_}; this is {snapshot.version}, which is older.",
            "Upgrade Kubernetes, or install an older operator.",
        )
    else:
        yield Finding(
            check,
            "warning",
            f"{range_}; this is {snapshot.version}, which is newer.",
            "Use a newer operator when there is one.",
        )


def check_permissions(snapshot: Snapshot, dummy: Plan) -> t.Iterator[Finding]:
    """Name what the user may not do."""
    missing = snapshot.missing_permissions
    if not missing:
        yield Finding("permissions", "ok", "This user may do all that a deployment needs.")
        return
    yield Finding(
        "permissions",
        "failure",
        f"This user may not: {_first(missing, 8)}.",
        "Grant these permissions, or use a kubeconfig of a cluster administrator.",
    )


def check_role_grants(snapshot: Snapshot, dummy: Plan) -> t.Iterator[Finding]:
    """Name the chart's roles that Kubernetes would not let the user create."""
    if not snapshot.ungranted:
        yield Finding("role_grants", "ok", "The chart's roles give away nothing that this user could not give.")
        return
    roles = [f"{role} ({_first(grants, 4)})" for role, grants in snapshot.ungranted.items()]
    yield Finding(
        "role_grants",
        "failure",
        f"Kubernetes refuses roles that give away more than their creator has, and Helm would create as this user: {_first(roles, EXAMPLES, '; ')}.",
        "Grant these permissions, or the verbs escalate and bind on clusterroles and roles, or use a kubeconfig of a cluster administrator.",
    )


def _first(items: t.Sequence[str], count: int, separator: str = ", ") -> str:
    more = f"{separator}and {len(items) - count} more" if len(items) > count else ""
    return separator.join(items[:count]) + more


def check_gpu_nodes(snapshot: Snapshot, dummy: Plan) -> t.Iterator[Finding]:
    """Count the nodes that carry a GPU."""
    check = "gpu_nodes"
    if not snapshot.nodes:
        yield Finding(check, "failure", "The cluster has no nodes.", "Join nodes first.")
    elif snapshot.gpu_nodes:
        yield Finding(
            check,
            "ok",
            f"{len(snapshot.gpu_nodes)} of {len(snapshot.nodes)} nodes carry an NVIDIA GPU.",
            **_on(snapshot.gpu_nodes),
        )
    elif snapshot.nfd_ran:
        yield Finding(
            check,
            "warning",
            "Node Feature Discovery has labelled the nodes, and none of them carries an NVIDIA GPU by its labels.",
            f"Check with lspci that the GPUs are visible to the hosts, and that a Node Feature Discovery of your own writes the label {NFD_GPU_LABELS[0]} "
            "(sources.pci.deviceLabelFields: [vendor], and 02, 03 in deviceClassWhitelist).",
        )
    else:
        yield Finding(check, "ok", "Which nodes carry a GPU is not known before Node Feature Discovery has run.")


def check_nfd(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Find a Node Feature Discovery that is there already, or that is missing."""
    check, wanted = "nfd", bool(plan.value("nfd.enabled", True))
    found = nfd.installations(snapshot.daemonsets)
    foreign = [worker for worker in found if not worker.belongs_to(plan.release_name, plan.namespace)]
    names = ", ".join(str(worker) for worker in foreign)
    if foreign and wanted:
        yield Finding(
            check,
            "failure",
            f"Node Feature Discovery runs already ({names}), and a second one would fight with it over labels.",
            "Set nfd.enabled to false.",
        )
    elif len(found) > 1:
        everywhere = ", ".join(str(worker) for worker in found)
        yield Finding(
            check, "failure", f"Node Feature Discovery runs {len(found)} times ({everywhere}).", "Keep one of them."
        )
    elif not found and not wanted and not snapshot.gpu_nodes:
        yield Finding(
            check,
            "failure",
            "nfd.enabled is false and no Node Feature Discovery runs, so nothing would mark the GPU nodes.",
            "Set nfd.enabled to true.",
        )
    elif not found and not wanted:
        yield Finding(
            check,
            "warning",
            "Nodes carry labels of Node Feature Discovery, but it does not run, so they go stale.",
            "Set nfd.enabled to true.",
        )
    else:
        yield Finding(
            check,
            "ok",
            f"Node Feature Discovery runs as {names}."
            if foreign
            else "The operator's chart brings Node Feature Discovery.",
        )


@dataclasses.dataclass(frozen=True)
class _Stack:
    """Something that does an operand's work already."""

    what: str
    words: tuple[str, ...]
    """Parts of the name or image of its DaemonSet."""
    value: str
    """The Helm value that turns our operand off."""
    level: Level = "failure"
    default: bool = True


_STACKS = (
    _Stack(
        "device plugin",
        ("nvidia-device-plugin", "k8s-device-plugin", "nvidia-gpu-device-plugin"),
        "devicePlugin.enabled",
    ),
    _Stack("driver installer", ("nvidia-driver-installer", "nvidia-gpu-driver-installer"), "driver.enabled"),
    _Stack("container toolkit", ("nvidia-container-toolkit",), "toolkit.enabled"),
    _Stack("DCGM exporter", ("dcgm-exporter",), "dcgmExporter.enabled", "warning"),
    _Stack("GPU feature discovery", ("gpu-feature-discovery",), "gfd.enabled"),
    _Stack("MIG manager", ("mig-manager",), "migManager.enabled"),
)
_DRA_WORDS = ("k8s-dra-driver-gpu", "dra-driver-nvidia-gpu", "nvidia-dra-driver")
_OPERATOR_KINDS = ("ClusterPolicy", "NVIDIADriver", "GPUCluster")


def check_other_stacks(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Find other things that manage the GPUs of the same nodes."""
    check = "other_stacks"
    found = [*_other_operators(snapshot, plan), *_other_daemonsets(snapshot, plan)]
    yield from found
    if not found:
        yield Finding(check, "ok", "Nothing else manages the GPUs of this cluster.")


def _other_operators(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    check = "other_stacks"
    others = [item for item in snapshot.operators if not _is_ours(item, plan)]
    if others:
        names = ", ".join(name_of(item) for item in others)
        yield Finding(
            check,
            "failure",
            f"Another GPU Operator is installed ({names}).",
            "Name it in namespace and release_name, or uninstall it.",
        )
    if len(snapshot.clusterpolicies) > 1:
        names = ", ".join(name_of(item) for item in snapshot.clusterpolicies)
        yield Finding(
            check,
            "failure",
            f"There are several ClusterPolicies ({names}); the operator silently ignores all but one.",
            "Delete the others.",
        )
    wants_gpucluster = bool(plan.value("gpuCluster.deployCR", False))
    if snapshot.gpuclusters and not wants_gpucluster:
        yield Finding(
            check,
            "failure",
            "There is a GPUCluster, and the operator serves it or a ClusterPolicy, never both.",
            "Delete the GPUCluster.",
        )
    if snapshot.clusterpolicies and wants_gpucluster:
        yield Finding(
            check,
            "failure",
            "There is a ClusterPolicy, and the operator serves it or a GPUCluster, never both.",
            "Set gpuCluster.deployCR to false.",
        )


def _is_ours(deployment: Json, plan: Plan) -> bool:
    annotations = deployment["metadata"].get("annotations") or {}
    release = annotations.get("meta.helm.sh/release-name", plan.release_name)
    return (deployment["metadata"]["namespace"], release) == (plan.namespace, plan.release_name)


def _other_daemonsets(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    # One that is scheduled nowhere does no harm: managed clouds keep theirs in place and steer it by node labels.
    active = [
        item
        for item in snapshot.daemonsets
        if not _by_operator(item) and (item.get("status") or {}).get("desiredNumberScheduled")
    ]
    for stack in _STACKS:
        names = ", ".join(name_of(item) for item in active if _mentions(item, stack.words))
        if names and plan.value(stack.value, stack.default):
            remedy = f"Remove it, or set {stack.value} to false."
            yield Finding(
                "other_stacks",
                stack.level,
                f"A {stack.what} that is not the operator's runs already ({names}).",
                remedy,
            )
    drivers = ", ".join(name_of(item) for item in active if _mentions(item, _DRA_WORDS))
    if drivers:
        remedy = "Keep the two off the same nodes, or remove one."
        yield Finding(
            "other_stacks",
            "warning",
            f"NVIDIA's DRA driver runs apart from the operator ({drivers}), and both hand out GPUs.",
            remedy,
        )


def _by_operator(daemonset: Json) -> bool:
    return any(owner.get("kind") in _OPERATOR_KINDS for owner in daemonset["metadata"].get("ownerReferences") or [])


def _mentions(daemonset: Json, words: tuple[str, ...]) -> bool:
    containers = daemonset["spec"]["template"]["spec"].get("containers") or []
    texts = [daemonset["metadata"]["name"], *(container.get("image", "") for container in containers)]
    return any(word in text for word in words for text in texts)


def runtime_of(node: Json) -> str:
    """Return a node's container runtime with its version, as the kubelet reports it."""
    return str(node["status"]["nodeInfo"].get("containerRuntimeVersion") or "unknown")


def check_container_runtime(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Compare the container runtimes with what the operator can configure."""
    check, nodes, found = "container_runtime", snapshot.candidates, []
    kinds = sorted({runtime_of(node).partition("://")[0] for node in nodes})
    unknown = [node for node in nodes if runtime_of(node).partition("://")[0] not in ("containerd", "cri-o")]
    if unknown:
        used = ", ".join(sorted({runtime_of(node) for node in unknown}))
        message = f"These nodes run {used}; the operator supports containerd and CRI-O."
        found.append(
            Finding(check, snapshot.severity, message, "Move those that carry GPUs to containerd.", **_on(unknown))
        )
    if len(kinds) > 1 and plan.value("toolkit.enabled", True):
        message = (
            f"{snapshot.who} mix container runtimes ({', '.join(kinds)}), and the operator configures one for all."
        )
        remedy = "Use one container runtime on all GPU nodes, or set toolkit.enabled to false and prepare the hosts."
        found.append(Finding(check, snapshot.severity, message, remedy))
    odd = _outside_containerd(nodes, plan)
    if odd and plan.line:
        used = ", ".join(sorted({runtime_of(node) for node in odd}))
        message = f"NVIDIA validated containerd {_versions(plan.line.containerd)}; these nodes run {used}."
        found.append(Finding(check, "warning", message, "Plan to change containerd.", **_on(odd)))
    yield from found
    if not found:
        yield Finding(check, "ok", f"The container runtime is {' and '.join(kinds) or 'not known yet'}.")


def _outside_containerd(nodes: list[Json], plan: Plan) -> list[Json]:
    if plan.line is None:
        return []
    oldest, newest = plan.line.containerd
    found = []
    for node in nodes:
        kind, dummy, text = runtime_of(node).partition("://")
        version = _minor(text)
        if kind == "containerd" and version and not oldest <= version <= newest:
            found.append(node)
    return found


_OS_IMAGES = (
    ("Ubuntu", "ubuntu"),
    ("Red Hat Enterprise Linux CoreOS", "rhcos"),
    ("Red Hat Enterprise Linux", "rhel"),
    ("Rocky Linux", "rocky"),
)


def os_of(node: Json) -> tuple[str, str]:
    """Return a node's operating system and version, by Node Feature Discovery or else by what the kubelet reports."""
    if OS_ID in labels_of(node):
        return labels_of(node)[OS_ID], labels_of(node).get(OS_VERSION, "")
    image = str(node["status"]["nodeInfo"].get("osImage") or "unknown")
    version = re.search(r"\d+(\.\d+)?", image)
    name = next(
        (os_id for prefix, os_id in _OS_IMAGES if image.startswith(prefix)),
        image.split("(", maxsplit=1)[0].strip(" 0123456789.") or image,
    )
    return name, version[0] if version else ""


def _os_name(node: Json) -> str:
    return " ".join(os_of(node)).strip()


def kernel_of(node: Json) -> str:
    """Return a node's running kernel."""
    return str(node["status"]["nodeInfo"].get("kernelVersion") or "unknown")


def _driver_os(node: Json) -> str:
    """Return what a driver image is chosen by: the major version only, for the Red Hat family."""
    os_id, version = os_of(node)
    return f"{os_id} {version.split('.')[0] if os_id in ('rhel', 'rocky', 'ol') else version}".strip()


def check_operating_system(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Find what one driver container cannot serve: mixed systems, mixed kernels, unknown systems."""
    check, nodes = "operating_system", snapshot.candidates
    if not plan.manages_driver:
        yield Finding(check, "ok", "The driver is installed on the hosts, so any operating system will do.")
        return
    found = []
    systems = sorted({_driver_os(node) for node in nodes})
    if len(systems) > 1 and not plan.per_pool_driver:
        message = f"{snapshot.who} run different operating systems ({', '.join(systems)}), and a ClusterPolicy installs the driver of the first one on all."
        found.append(
            Finding(
                check,
                snapshot.severity,
                message,
                "Use NVIDIADriver (driver.nvidiaDriverCRD.enabled), or install the driver on the hosts.",
            )
        )
    kernels = sorted({kernel_of(node) for node in nodes})
    if len(kernels) > 1 and plan.value("driver.usePrecompiled", False) and not plan.per_pool_driver:
        message = f"{snapshot.who} run different kernels ({', '.join(kernels[:EXAMPLES])}), and precompiled drivers are made for one."
        found.append(
            Finding(
                check,
                snapshot.severity,
                message,
                "Use NVIDIADriver (driver.nvidiaDriverCRD.enabled), or bring the nodes to one kernel.",
            )
        )
    unknown = [node for node in nodes if not _is_validated(node, plan)]
    if unknown and plan.line:
        names = ", ".join(sorted({_os_name(node) for node in unknown}))
        message = f"NVIDIA did not validate GPU Operator {plan.line.name} on {names}, and there may be no driver container for it."
        found.append(
            Finding(
                check,
                "warning",
                message,
                "Install the driver on the hosts and set driver.enabled to false.",
                **_on(unknown),
            )
        )
    yield from found
    if not found:
        yield Finding(check, "ok", f"The driver containers fit {', '.join(systems) or 'the nodes'}.")


def _is_validated(node: Json, plan: Plan) -> bool:
    os_id, version = os_of(node)
    if plan.line is None or os_id == "unknown":
        return True
    versions = plan.line.operating_systems.get(os_id)
    return versions is not None and (not versions or version in versions)


def check_driver(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Find GPUs that the chosen driver is too old for."""
    check = "driver"
    version = str(plan.value("driver.version", plan.line.driver if plan.line else ""))
    found = False
    for product, oldest in MINIMUM_DRIVERS.items():
        nodes = [node for node in snapshot.gpu_nodes if labels_of(node).get(PRODUCT, "").startswith(product)]
        if nodes and plan.manages_driver and re.match(r"\d+\.\d+", version) and _numbers(version) < _numbers(oldest):
            found = True
            yield Finding(
                check,
                "failure",
                f"{product} needs driver {oldest} or newer, and driver.version is {version}.",
                "Set driver.version.",
                **_on(nodes),
            )
    if not found:
        yield Finding(
            check,
            "ok",
            f"The driver is {version}."
            if plan.manages_driver and version
            else "The operator does not choose the driver.",
        )


def check_taints(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Find nodes that the operands are kept off by taints. The operator is `ready` all the same."""
    check, nodes = "taints", snapshot.candidates
    tolerations = plan.value("daemonsets.tolerations", DEFAULT_TOLERATIONS)
    blocked = {name_of(node): untolerated(node, tolerations) for node in nodes}
    kept_off = [node for node in nodes if blocked[name_of(node)]]
    if not kept_off:
        yield Finding(check, "ok", "The operands tolerate the taints of all GPU nodes.")
        return
    keys = sorted({taint["key"] for taints in blocked.values() for taint in taints})
    all_of_them = len(kept_off) == len(nodes)
    which = "Every GPU node has" if all_of_them else f"{len(kept_off)} GPU nodes have"
    message = f"{which} a taint that the operands do not tolerate ({', '.join(keys)})."
    remedy = "Add it to daemonsets.tolerations, which replaces the default list, and to node-feature-discovery.worker.tolerations; or remove the taint."
    yield Finding(check, "failure" if all_of_them else "warning", message, remedy, **_on(kept_off))


def check_pod_security(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Find a namespace that refuses the operands' privileged pods."""
    check = "pod_security"
    level = labels_of(snapshot.namespace).get(ENFORCE) if snapshot.namespace else None
    if level in (None, "privileged") or plan.value("psa.enabled", False):
        yield Finding(
            check,
            "ok",
            f"Namespace {plan.namespace} admits privileged pods."
            if level
            else f"Namespace {plan.namespace} has no pod security level of its own.",
        )
        return
    message = f"Namespace {plan.namespace} enforces the pod security level {level}, which refuses the operands."
    yield Finding(
        check,
        "warning",
        message,
        f"Label it {ENFORCE}=privileged, or set psa.enabled to true so that the operator does.",
    )


def check_node_state(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Find nodes that an interrupted job left in a state that does not heal by itself."""
    found = [
        Finding(
            "node_state", level, f"{len(nodes)} GPU node{'s' if len(nodes) > 1 else ''} {what}", remedy, **_on(nodes)
        )
        for level, what, remedy, test in _NODE_STATES
        if (nodes := [node for node in snapshot.gpu_nodes if test(node, plan)])
    ]
    yield from found
    if not found:
        yield Finding("node_state", "ok", "No GPU node is paused, cordoned, failed or NotReady.")


def _not_ready(node: Json, dummy: Plan) -> bool:
    return not is_ready(node)


def _cordoned(node: Json, dummy: Plan) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _upgrade_failed(node: Json, dummy: Plan) -> bool:
    return labels_of(node).get(UPGRADE_STATE) == "upgrade-failed"


def _stale_pause(node: Json, dummy: Plan) -> bool:
    idle = labels_of(node).get(UPGRADE_STATE, "") in ("", "upgrade-done", "upgrade-failed")
    changing_mig = labels_of(node).get("nvidia.com/mig.config.state") in ("pending", "rebooting")
    paused = any(key.startswith(DEPLOY_PREFIX) and "paused-for" in value for key, value in labels_of(node).items())
    return paused and idle and not changing_mig


def _left_out(node: Json, dummy: Plan) -> bool:
    return is_switched_off(node)


def _own_driver(node: Json, plan: Plan) -> bool:
    return plan.manages_driver and labels_of(node).get(f"{DEPLOY_PREFIX}driver") == "pre-installed"


_NODE_STATES: tuple[tuple[Level, str, str, t.Callable[[Json, Plan], bool]], ...] = (
    (
        "warning",
        "not Ready.",
        "Repair or remove them: they also use up driver.upgradePolicy.maxUnavailable.",
        _not_ready,
    ),
    (
        "warning",
        "cordoned.",
        "Uncordon them when that is not on purpose: they use up maxUnavailable and are upgraded first.",
        _cordoned,
    ),
    (
        "warning",
        "in state upgrade-failed, which holds an upgrade slot.",
        f"Remove the cause, then label them {UPGRADE_STATE}=upgrade-required.",
        _upgrade_failed,
    ),
    (
        "warning",
        "paused by an interrupted driver or MIG change.",
        f"Set their paused {DEPLOY_PREFIX}* labels to true.",
        _stale_pause,
    ),
    ("warning", "left out by hand.", f"Remove the label {OPERANDS_SWITCH}=false to have operands there.", _left_out),
    (
        "warning",
        "with a driver of their own, so the operator's does not run there.",
        "Set driver.enabled to false when all nodes are like this.",
        _own_driver,
    ),
)

_CLOUDS = (
    ("eks", "aws://", "eks.amazonaws.com/"),
    ("gke", "gce://", "cloud.google.com/gke-"),
    ("aks", "azure://", "kubernetes.azure.com/"),
)


def cloud_of(nodes: list[Json]) -> str | None:
    """Return the managed cloud that the nodes belong to, by provider and node labels."""
    for name, provider, prefix in _CLOUDS:
        for node in nodes:
            if str(node["spec"].get("providerID", "")).startswith(provider) and any(
                key.startswith(prefix) for key in labels_of(node)
            ):
                return name
    return None


def check_cloud(snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    """Point out what a managed cloud's node images bring along."""
    check, cloud = "cloud", cloud_of(snapshot.nodes)
    if cloud == "aks" and plan.manages_driver:
        remedy = "Use the aks preset (driver.enabled and toolkit.enabled false), unless the pools were made without the GPU driver."
        yield Finding(
            check,
            "warning",
            "AKS node images bring a driver and the container toolkit unless a pool was made without them.",
            remedy,
        )
    elif cloud == "gke" and plan.manages_driver:
        remedy = "Use the gke preset with Google's driver installer, and label the pools gke-no-default-nvidia-gpu-device-plugin=true."
        yield Finding(
            check,
            "warning",
            "GKE's Container-Optimized OS takes its driver from Google's installer, not from a driver container.",
            remedy,
        )
    elif (
        cloud == "eks"
        and plan.manages_driver
        and any(
            "amazon" in os_of(node)[0].lower() or "bottlerocket" in os_of(node)[0].lower()
            for node in snapshot.candidates
        )
    ):
        remedy = "Use the eks preset (driver.enabled false), or node groups with Ubuntu."
        yield Finding(
            check,
            "warning",
            "Amazon Linux and Bottlerocket have no driver container; their GPU images bring the driver.",
            remedy,
        )
    else:
        yield Finding(
            check,
            "ok",
            f"The nodes belong to {cloud.upper()}."
            if cloud
            else "The nodes belong to no managed cloud that needs special values.",
        )


@dataclasses.dataclass(frozen=True)
class Check:
    """A check and the collections that it judges."""

    function: t.Callable[[Snapshot, Plan], t.Iterator[Finding]]
    needs: frozenset[str] = frozenset()


_NODES = frozenset({"nodes"})
CHECKS = {
    "kubernetes_version": Check(check_kubernetes_version),
    "permissions": Check(check_permissions),
    "role_grants": Check(check_role_grants, frozenset({"selfsubjectrulesreviews"})),
    "gpu_nodes": Check(check_gpu_nodes, _NODES),
    "nfd": Check(check_nfd, frozenset({"daemonsets"})),
    "other_stacks": Check(
        check_other_stacks, frozenset({"daemonsets", "deployments", "clusterpolicies", "gpuclusters"})
    ),
    "container_runtime": Check(check_container_runtime, _NODES),
    "operating_system": Check(check_operating_system, _NODES),
    "driver": Check(check_driver, _NODES),
    "taints": Check(check_taints, _NODES),
    "pod_security": Check(check_pod_security, frozenset({"namespaces"})),
    "node_state": Check(check_node_state, _NODES),
    "cloud": Check(check_cloud, _NODES),
}


def run_checks(snapshot: Snapshot, plan: Plan, skip: t.Collection[str] = ()) -> list[Finding]:
    """Run all checks but those to skip; failures come first."""
    findings = [
        finding for name, check in CHECKS.items() if name not in skip for finding in _run(name, check, snapshot, plan)
    ]
    return worst_first(findings)


def _run(name: str, check: Check, snapshot: Snapshot, plan: Plan) -> t.Iterator[Finding]:
    unreadable = sorted(check.needs & snapshot.unreadable)
    if unreadable:
        yield Finding(
            name,
            "warning",
            f"Not checked, because this user may not read {', '.join(unreadable)}.",
            "Grant it, or skip this check.",
        )
    else:
        yield from check.function(snapshot, plan)


HELM_RELEASE = "meta.helm.sh/release-name"
"""The annotation by which Helm knows what it installed."""


def facts(snapshot: Snapshot) -> Json:
    """Return what the cluster is."""
    nodes = snapshot.candidates
    return {
        "kubernetes_version": snapshot.version,
        "nodes": len(snapshot.nodes),
        "gpu_nodes": [name_of(node) for node in snapshot.gpu_nodes] if snapshot.gpu_nodes or snapshot.nfd_ran else None,
        "container_runtimes": dict(collections.Counter(runtime_of(node) for node in nodes)),
        "operating_systems": dict(collections.Counter(_os_name(node) for node in nodes)),
        "kernels": dict(collections.Counter(kernel_of(node) for node in nodes)),
        "nfd": sorted({worker.namespace for worker in nfd.installations(snapshot.daemonsets)}),
        "cloud": cloud_of(snapshot.nodes),
        "namespace": {"name": name_of(snapshot.namespace), "labels": labels_of(snapshot.namespace)}
        if snapshot.namespace
        else None,
        "helm_clusterpolicies": [
            name_of(item)
            for item in snapshot.clusterpolicies
            if HELM_RELEASE in (item["metadata"].get("annotations") or {})
        ],
    }
