# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Node Feature Discovery: labels that are missing or wrong, and workers that do not run."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.operator import fleet_wide
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_OPERATOR = "https://github.com/NVIDIA/gpu-operator/"
_DOCS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/"

_NO_LABELS = (
    pattern(r"Couldn't get kernelVersion, did you run the node feature discovery", "did you run the node feature"),
    pattern(r"ERROR: Could not find kernel full version", "could not find kernel full version"),
    pattern(r"NFD labels missing in the cluster, GPU nodes cannot be discovered", "nfd labels missing in the cluster"),
    pattern(r"No NFD label found, polling for new nodes", "no nfd label found"),
)

_NO_GPU = (
    pattern(r"No GPU node in the cluster, do not create DaemonSets", "no gpu node in the cluster"),
    pattern(r"No GPU node can be found in the cluster", "no gpu node can be found"),
)

_NO_MASTER = pattern(
    r"failed to connect to \{?(?P<master>[\w.-]*(?:nfd|node-feature-discovery)-master)[\w.:-]*", "-master"
)

_TOO_OLD = pattern(
    r"NFD version deployed in the cluster is too old to support it", "nfd version deployed in the cluster is too old"
)

_DISCOVERY = frozenset(
    {"NoNFDLabels", "NoGPUNodes", "TooFewNodes", "NodesNotLabelled", "PreflightGpuNodes", "OperandWithoutNodes"}
)

_ANY_LABELS = (
    f"Run `kubectl get nodes -L {names.KERNEL}`. If the column is empty on all nodes, Node Feature Discovery does not "
    "work. If it is filled, it works, and has found no NVIDIA GPU."
)

_PORT_TAKEN = pattern(
    r"listen tcp [\w.\[\]:]*:(?P<port>\d+): bind: address already in use", "bind: address already in use", "pod"
)

_NFD_WORKER = re.compile(r"nfd-worker|node-feature-discovery-worker")

_WANTS_NONE = pattern(
    r"^\s*(?:[\w.-]+\s+)?(?P<daemonset>gpu-feature-discovery|nvidia-(?:container-toolkit-daemonset|dcgm-exporter"
    r"|device-plugin-daemonset|operator-validator))(?:\s+0){5}\s+"
    rf"(?:\S+,)?(?P<label>{re.escape(names.DEPLOY_PREFIX)}[\w.-]+)=true\b",
    names.DEPLOY_PREFIX,
    "text",
)
"""A row of ``kubectl get daemonsets``: DESIRED, CURRENT, READY, UP-TO-DATE and AVAILABLE are 0.

Only operands that belong on each GPU node: others rightly want no pods where they are not needed.
"""


def _nfd_twice(view: View) -> t.Iterator[Sighting]:
    """Yield the workers of Node Feature Discovery whose port is taken."""
    for hit in view.hits(_PORT_TAKEN):
        if _NFD_WORKER.search(f"{hit.line.source} {hit.line.object} {hit.line.text}"):
            yield matches.sighting(hit, "likely")


def _without_nodes(view: View) -> t.Iterator[Sighting]:
    """Yield the DaemonSets of a pasted table that want no pods. Where the nodes are known, these say more."""
    for hit in view.hits(_WANTS_NONE) if not view.rows else ():
        yield matches.sighting(hit, "possible")


def _kept_off(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes with GPUs on which a taint keeps Node Feature Discovery from running."""
    workers = nfd.workers(view.listed("daemonsets") or [])
    tolerations = [each for item in workers for each in item["spec"]["template"]["spec"].get("tolerations") or []]
    for name, node in view.nodes.items() if workers else ():
        taints = nodes.untolerated(node, tolerations)
        gpus = view.facts(name).get("gpus")
        is_marked = any("gpu" in nodes.format_taint(taint).lower() for taint in taints)
        if taints and not nodes.has_nfd_labels(node) and (gpus or is_marked):
            taint = nodes.format_taint(taints[0])
            quotes = matches.fact(f"taint {taint}, no label {names.NFD_PREFIX}*", "the node", name)
            yield Sighting(name, "", quotes, "certain" if gpus else "likely", {"taint": taint})


def _stale_kernel(view: View) -> t.Iterator[Sighting]:
    """Yield the GPU nodes whose label names another kernel than the one that runs."""
    for name in view.rows:
        node = view.nodes.get(name) or {"metadata": {}}
        label, kernel = objects.labels_of(node).get(names.KERNEL), nodes.node_info(node, "kernelVersion")
        if label and kernel and label != kernel:
            quotes = matches.fact(f"{names.KERNEL}={label}, kernelVersion: {kernel}", "the node", name)
            yield Sighting(name, "", quotes, "certain", {"label": label, "kernel": kernel})


def _missed(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes whose host has GPUs that Node Feature Discovery has not found."""
    for name, node in view.nodes.items():
        gpus = view.facts(name).get("gpus") or []
        if gpus and nodes.has_nfd_labels(node) and not nodes.has_nfd_gpu_label(node):
            quotes = matches.fact(f"{len(gpus)} GPUs on the host, no label {names.NFD_GPU_LABELS[0]}", "the node", name)
            yield Sighting(name, "", quotes)


RULES = (
    Rule(
        code="NFDLabelsMissing",
        title="Node Feature Discovery has not labelled the nodes",
        severity="failure",
        cause="The nodes have no labels of Node Feature Discovery, so the operator cannot see their GPUs and kernels.",
        remedy="If Node Feature Discovery is not installed, set nfd.enabled: true in operator_values and run "
        "playbooks/site.yml. If it is, check with `kubectl get pods -A -o wide` that its worker runs on the GPU nodes, "
        "and read the log of its master.",
        sources=(f"{_OPERATOR}issues/149", f"{_OPERATOR}issues/423"),
        check=fleet_wide(*_NO_LABELS),
        patterns=_NO_LABELS,
        explains=_DISCOVERY | {"ReconcileFailed"},
        unlike={"NoGPUNodeFound": _ANY_LABELS},
    ),
    Rule(
        code="NoGPUNodeFound",
        title="The operator finds no GPU node",
        severity="warning",
        cause="No node has the label of an NVIDIA GPU. Either no node has a GPU, or Node Feature Discovery does not "
        "find it.",
        remedy="Run `lspci -d 10de:` on a host that should have a GPU. If it shows one, check with `kubectl get nodes "
        f"-L {names.NFD_GPU_LABELS[0]}` and the log of Node Feature Discovery's worker why the label is missing.",
        sources=(f"{_OPERATOR}issues/438", f"{_OPERATOR}issues/78"),
        check=fleet_wide(*_NO_GPU, certainty="possible"),
        patterns=_NO_GPU,
        explains=_DISCOVERY,
        unlike={"NFDLabelsMissing": _ANY_LABELS},
    ),
    Rule(
        code="NFDMasterUnreachable",
        title="The workers of Node Feature Discovery do not reach its master",
        severity="failure",
        cause="A worker of Node Feature Discovery cannot connect to {master}, so its node gets no labels.",
        remedy="Check that the master's pod runs (`kubectl get pods -A`), and that pods reach services by name. Newer "
        "releases of the chart do not need this connection (playbooks/upgrade_operator.yml).",
        sources=(f"{_OPERATOR}issues/429",),
        check=fleet_wide(_NO_MASTER),
        patterns=(_NO_MASTER,),
        explains=_DISCOVERY | {"NFDLabelsMissing", "NoGPUNodeFound"},
    ),
    Rule(
        code="NFDKeptOff",
        title="A taint keeps Node Feature Discovery off a GPU node",
        severity="failure",
        cause="The worker of Node Feature Discovery does not tolerate the taint {taint}, so the node gets no labels, "
        "and the operator does not know its GPUs.",
        remedy="Add a toleration for it to node-feature-discovery.worker.tolerations and to daemonsets.tolerations in "
        "operator_values and run playbooks/site.yml, or remove the taint.",
        sources=("https://kubernetes-sigs.github.io/node-feature-discovery/stable/deployment/helm.html",),
        check=_kept_off,
        explains=_DISCOVERY | {"NodesTainted", "NFDLabelsMissing", "NoGPUNodeFound"},
    ),
    Rule(
        code="KernelLabelStale",
        title="A node's label names another kernel than the one that runs",
        severity="warning",
        cause="The label says {label}, and the node runs {kernel}. Node Feature Discovery has not run there since the "
        "last boot, or somebody has set the label. The operator chooses a precompiled driver by this label.",
        remedy="Delete the pod of Node Feature Discovery's worker on the node. Its DaemonSet creates a new one, which "
        "corrects the label.",
        sources=(f"{_DOCS}precompiled-drivers.html", f"{_OPERATOR}issues/134"),
        check=_stale_kernel,
        explains=frozenset({"DriverImageMissing", "PrecompiledDriverMissing", "ModuleForOtherKernel"}),
    ),
    Rule(
        code="NFDMissesGPU",
        title="Node Feature Discovery does not see the GPUs of a node",
        severity="failure",
        cause="The host has NVIDIA GPUs, and Node Feature Discovery has not written their label on the node.",
        remedy="In the configuration of Node Feature Discovery's worker, set sources.pci.deviceClassWhitelist to 02, "
        "03 and 12, and sources.pci.deviceLabelFields to vendor. Then delete the worker's pods.",
        sources=(f"{_OPERATOR}issues/78", f"{_OPERATOR}issues/114"),
        check=_missed,
        explains=_DISCOVERY | {"NoGPUNodeFound"},
    ),
    Rule(
        code="NFDInstalledTwice",
        title="Two workers of Node Feature Discovery run on a node",
        severity="failure",
        cause="A worker of Node Feature Discovery cannot start, because port {port} of the node is in use. Usually "
        "another worker has it, because Node Feature Discovery was installed twice.",
        remedy="Find both with `kubectl get daemonsets -A`. If one does not belong to the GPU Operator, keep that one, "
        "set nfd.enabled: false in operator_values and run playbooks/site.yml.",
        sources=("https://github.com/ibm-mas/ansible-devops/pull/2449",),
        check=_nfd_twice,
        patterns=(_PORT_TAKEN,),
        explains=frozenset({"DiscoveryNotReady", "PreflightNfd"}),
    ),
    Rule(
        code="NFDTooOldForDriverToolkit",
        title="No GPU node has the label that the driver toolkit needs",
        severity="warning",
        cause="On OpenShift, the operator builds the driver with the driver toolkit and takes its release from a label "
        "of Node Feature Discovery (system-os_release.OSTREE_VERSION). No GPU node has it: Node Feature Discovery is "
        "too old or does not run, or the cluster has no GPU node, which also fires this alert.",
        remedy="Run oc get nodes -L nvidia.com/gpu.present,feature.node.kubernetes.io/system-os_release.OSTREE_VERSION."
        " Without a GPU node, ignore the alert. With one, upgrade the Node Feature Discovery operator to the release "
        "of the cluster, and see that its worker runs on the GPU nodes.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/324",
            "https://github.com/NVIDIA/gpu-operator/issues/1000",
        ),
        patterns=(_TOO_OLD,),
        certainty="likely",
    ),
    Rule(
        code="OperandWithoutNodes",
        title="No node is fit for an operand",
        severity="warning",
        cause="The DaemonSet {daemonset} wants no pods (DESIRED 0). Either no node has the label {label}=true, or all "
        "such nodes have a taint that the DaemonSet does not tolerate.",
        remedy="Run `kubectl get nodes -L {label}`. If no node shows true, see whether Node Feature Discovery labels "
        f"the GPU nodes ({names.NFD_GPU_LABELS[0]}). If some do, compare their taints (`kubectl describe node`) with "
        "daemonsets.tolerations in operator_values.",
        sources=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",),
        check=_without_nodes,
        patterns=(_WANTS_NONE,),
    ),
)
