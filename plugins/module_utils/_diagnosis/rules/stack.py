# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The operator itself, its definitions and permissions, Node Feature Discovery, and a readiness that is none."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Certainty, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text import Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_OPERATOR = "https://github.com/NVIDIA/gpu-operator/"
_DOCS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/"
_ALL = NOT_READY | {"OperatorNotAvailable", "OperatorNotUpdated", "OperatorSilent", "ReconcileFailed", "JustChanged"}

# The operator's definitions and permissions

_NO_KIND = (
    pattern(
        r"if kind is a CRD, it should be installed before calling Start.{0,80}?(?P<kind>ClusterPolicy|NVIDIADriver"
        r"|GPUCluster)\b",
        "it should be installed before calling start",
    ),
    pattern(
        r"timed out waiting for cache to be synced for Kind \*v\w+\.(?P<kind>ClusterPolicy|NVIDIADriver|GPUCluster)\b",
        "timed out waiting for cache to be synced",
    ),
)
_OLD_FIELD = (
    # The end of the message below, which a terminal may have wrapped.
    pattern(r"\"(?P<field>\w+)\\?\" in com\.nvidia\.v1\w*\.\w+\.spec\b", "in com.nvidia.v1"),
    pattern(
        r"ValidationError\((?:ClusterPolicy|NVIDIADriver)(?:\.[\w.]+)?\): unknown field \\?\"(?P<field>[\w.]+)\\?\"",
        "unknown field",
    ),
    pattern(
        r"(?:ClusterPolicy|NVIDIADriver).{0,80}strict decoding error: unknown field \\?\"(?P<field>[\w.]+)\\?\"",
        "strict decoding error",
    ),
)
_OLD_DEMAND = pattern(r"\bspec\.operator\.(?P<field>deployGFD|defaultRuntime): Required value", ": required value")
_FORBIDDEN = pattern(
    r"is forbidden: User \\?\"system:serviceaccount:(?P<account>[\w.:-]+)\\?\" cannot (?P<verb>\w+) resource "
    r"\\?\"(?P<resource>[\w./-]+)\\?\"",
    "system:serviceaccount:",
)
_LEASE = pattern(r"leader election lost", "leader election lost", "pod")
_NO_API = pattern(
    r"(?:Get|Post|Patch|Put) \\?\"https://(?P<address>\d+\.\d+\.\d+\.\d+):443/api.{0,300}?dial tcp (?P=address):443: "
    r"(?:connect: )?(?P<why>i/o timeout|connection refused|no route to host)",
    "dial tcp",
    "pod",
)
_NO_MONITOR = pattern(
    r"no matches for kind \\?\"ServiceMonitor\\?\" in version", "no matches for kind", "pod", "event", "unit"
)


def _fleet_wide(*patterns: Pattern, certainty: Certainty = "certain") -> matches.Check:
    """Return a check for words of the operator or of Helm. They are about the whole cluster, not about a node."""

    def check(view: View) -> t.Iterator[Sighting]:
        for hit in (hit for each in patterns for hit in view.hits(each)):
            found = matches.sighting(hit, certainty)
            yield Sighting("", found.object, found.quotes, certainty, found.values)

    return check


_NEEDS_GPUCLUSTER = (26, 7, 0)
"""The first release of the operator that does not start without the definition of GPUClusters."""


def _no_definition(view: View) -> t.Iterator[Sighting]:
    yield from _fleet_wide(*_NO_KIND)(view)
    definitions, operators = view.listed("customresourcedefinitions"), view.listed("deployments")
    if definitions is None or operators is None:
        return
    there = {objects.name_of(item) for item in definitions}
    releases = [_release(item) for item in operators if operands.is_operator(item)]
    if any(release and release >= _NEEDS_GPUCLUSTER for release in releases):
        for plural, kind in ((names.NVIDIADRIVERS, "NVIDIADriver"), (names.GPUCLUSTERS, "GPUCluster")):
            if f"{plural}.nvidia.com" not in there and names.CLUSTERPOLICY_CRD in there:
                yield Sighting(
                    "", "", matches.fact(f"no {plural}.nvidia.com", "definitions"), "certain", {"kind": kind}
                )


def _release(deployment: t.Mapping[str, t.Any]) -> tuple[int, int, int] | None:
    images = [str(item.get("image") or "") for item in deployment["spec"]["template"]["spec"].get("containers") or []]
    return next((found for image in images if (found := operands.release(image.rpartition(":")[2]))), None)


_DEFINITIONS = (
    Rule(
        code="OperatorCRDMissing",
        title="The operator needs a definition (CRD) that is not installed",
        severity="failure",
        cause="The definition of {kind} is not in the cluster, so the operator ends and restarts again and again. "
        "`helm upgrade` does not install new definitions.",
        remedy="Run playbooks/upgrade_operator.yml, which applies the definitions of the chart first.",
        sources=(f"{_OPERATOR}issues/602",),
        check=_no_definition,
        patterns=_NO_KIND,
        explains=_ALL,
    ),
    Rule(
        code="CRDOlderThanChart",
        title="The definition (CRD) of ClusterPolicy is older than the chart",
        severity="failure",
        cause="The definition in the cluster does not know the field {field}, which the chart sets. `helm upgrade` "
        "does not upgrade definitions. A field that no release knows, such as a misspelt one, gives the same message.",
        remedy="Check the spelling of {field}. If it is right, run playbooks/upgrade_operator.yml, which applies the "
        "definitions of the chart first.",
        sources=(f"{_OPERATOR}issues/431", f"{_OPERATOR}issues/196", f"{_OPERATOR}issues/342"),
        check=_fleet_wide(*_OLD_FIELD, certainty="likely"),
        patterns=_OLD_FIELD,
        explains=_ALL | {"NoClusterPolicy", "CRDMissing"},
    ),
    Rule(
        code="CRDDemandsOldField",
        title="The definition (CRD) of ClusterPolicy demands a field that the chart no longer sets",
        severity="failure",
        cause="The definition in the cluster demands operator.{field}, and this release of the chart does not set it. "
        "`helm upgrade` does not upgrade definitions.",
        remedy="Run playbooks/upgrade_operator.yml, which applies the definitions of the chart first.",
        sources=(f"{_OPERATOR}issues/139", f"{_OPERATOR}issues/2163"),
        check=_fleet_wide(_OLD_DEMAND, certainty="likely"),
        patterns=(_OLD_DEMAND,),
        explains=_ALL | {"NoClusterPolicy"},
    ),
    Rule(
        code="AccountNotPermitted",
        title="A service account of the stack lacks a permission",
        severity="failure",
        cause="The service account {account} may not {verb} {resource}.",
        remedy="Run playbooks/site.yml: its role operator installs the chart's roles again. Then find out what changed "
        "or removed them: `kubectl get clusterroles,clusterrolebindings -o wide` shows when they were created.",
        sources=("https://kubernetes.io/docs/reference/access-authn-authz/rbac/",),
        check=matches.of_operands(_FORBIDDEN),
        patterns=(_FORBIDDEN,),
        explains=_ALL,
    ),
    Rule(
        code="OperatorLosesLease",
        title="The operator ends because the API server is slow",
        severity="warning",
        cause="The API server did not answer in time, so the operator lost its lease and ended. It then begins again "
        "from the start.",
        remedy="Run `kubectl get --raw '/readyz?verbose'`, and look for slow disks or too little memory of the API "
        "server and etcd. If both are fast, raise operator.resources.limits.cpu in operator_values.",
        sources=("https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/manager/internal.go",),
        check=_fleet_wide(_LEASE),
        patterns=(_LEASE,),
        explains=frozenset({"OperatorNotAvailable", "OperatorSilent", "StateNotReady", "JustChanged"}),
    ),
    Rule(
        code="APIUnreachableFromPods",
        title="A pod does not reach the API server",
        severity="failure",
        cause="A pod cannot reach the API server at its service address {address}: {why}.",
        remedy="Look at the pods of kube-proxy and of the network plugin on the pod's node. If the pod uses a proxy, "
        "add {address} to NO_PROXY: not all programs understand ranges of addresses.",
        sources=(f"{_OPERATOR}issues/331",),
        check=matches.of_operands(_NO_API),
        patterns=(_NO_API,),
        explains=_ALL,
    ),
    Rule(
        code="MonitoringNotInstalled",
        title="The definition (CRD) of ServiceMonitor is missing",
        severity="warning",
        cause="The operator should create a ServiceMonitor, and the cluster does not know this kind of object.",
        remedy="Install the Prometheus operator, or set dcgmExporter.serviceMonitor.enabled: false in operator_values "
        "and run playbooks/site.yml.",
        sources=(f"{_DOCS}getting-started.html",),
        check=_fleet_wide(_NO_MONITOR),
        patterns=(_NO_MONITOR,),
        explains=frozenset({"ReconcileFailed", "StateNotReady"}),
    ),
)

# Two installations

_HELM_OWNS = pattern(
    r"(?P<what>(?:ClusterRole|ClusterRoleBinding|ClusterPolicy|CustomResourceDefinition) "
    r"\\?\"(?:gpu-operator|cluster-policy|[a-z]+\.nvidia\.com)\\?\") in namespace .{0,80}? exists and cannot be "
    r"imported into the current release: invalid ownership metadata",
    "cannot be imported into the current release",
)
_CONFLICT = pattern(
    r"would cause conflicts with another Operator providing these APIs", "would cause conflicts with another operator"
)
_PROVIDES = pattern(r"\bClusterPolicy \(nvidia\.com/v1\)", "clusterpolicy (nvidia.com/v1)")


def _two_stacks(view: View) -> t.Iterator[Sighting]:
    """Yield the words of Helm or of OpenShift's console about another GPU Operator in the cluster."""
    for hit in view.hits(_HELM_OWNS):
        found = matches.sighting(hit, "likely")
        yield Sighting("", found.object, found.quotes, "likely", {"what": found.values["what"].replace("\\", "")})
    for hit in seen.together(view, _CONFLICT, _PROVIDES):
        found = matches.sighting(hit, "likely")
        yield Sighting("", found.object, found.quotes, "likely", {"what": "the definition of ClusterPolicy"})


_INSTALLATIONS = (
    Rule(
        code="OperatorInstalledTwice",
        title="Another GPU Operator is installed, or was not removed completely",
        severity="failure",
        cause="The GPU Operator cannot be installed, because {what} of another installation is in the cluster. That "
        "one still runs, or parts of it were left behind.",
        remedy="Run `kubectl get deployments -A` and `helm list -A`, in OpenShift also `oc get csv -A`, and look for a "
        "GPU Operator. If one runs, upgrade or remove that one. If none does, delete the objects that it left behind.",
        sources=(f"{_OPERATOR}issues/530", f"{_OPERATOR}issues/167"),
        check=_two_stacks,
        patterns=(_HELM_OWNS, _CONFLICT, _PROVIDES),
        explains=frozenset({"PreflightOtherStacks"}),
    ),
)

# Node Feature Discovery

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

Only operands that belong on each GPU node: others rightly want no pods where nothing needs them.
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
    """Yield the nodes whose host has GPUs, and for which Node Feature Discovery has found none."""
    for name, node in view.nodes.items():
        gpus = view.facts(name).get("gpus") or []
        if gpus and nodes.has_nfd_labels(node) and not nodes.has_nfd_gpu_label(node):
            quotes = matches.fact(f"{len(gpus)} GPUs on the host, no label {names.NFD_GPU_LABELS[0]}", "the node", name)
            yield Sighting(name, "", quotes)


_FEATURES = (
    Rule(
        code="NFDLabelsMissing",
        title="Node Feature Discovery has not labelled the nodes",
        severity="failure",
        cause="The nodes have no labels of Node Feature Discovery, so the operator knows neither their GPUs nor their "
        "kernels.",
        remedy="If Node Feature Discovery is not installed, set nfd.enabled: true in operator_values and run "
        "playbooks/site.yml. If it is, check with `kubectl get pods -A -o wide` that its worker runs on the GPU nodes, "
        "and read the log of its master.",
        sources=(f"{_OPERATOR}issues/149", f"{_OPERATOR}issues/423"),
        check=_fleet_wide(*_NO_LABELS),
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
        check=_fleet_wide(*_NO_GPU, certainty="possible"),
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
        check=_fleet_wide(_NO_MASTER),
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

# A readiness that is none

_HIDDEN = ("NodesTainted", "OperandsSwitchedOff", "NoNVIDIADriver", "ConflictingNodeSelector", "NodesWithoutDriver")
"""Reasons of which the operator's own state says nothing, the first being the most common."""


def _false_ready(view: View) -> t.Iterator[Sighting]:
    """Yield the state ready of the operator while no node offers GPUs, for a cause that it does not look at."""
    policies, verdict = view.listed("clusterpolicies") or [], (view.evidence.stack or {}).get("verdict") or {}
    is_ready = any((item.get("status") or {}).get("state") == "ready" for item in policies)
    offers = any(any(row["allocatable"].values()) or row["claimable"] for row in view.rows.values())
    found = sorted((r for r in view.reasons if r["code"] in _HIDDEN), key=lambda r: _HIDDEN.index(r["code"]))
    if is_ready and view.rows and not offers and verdict.get("state") != "ready" and found:
        values = {"why": found[0]["message"], "remedy": found[0].get("remedy") or "See the reason."}
        yield Sighting(
            "", "", matches.fact("status.state: ready, no node offers GPUs", "ClusterPolicy"), "certain", values
        )


_READINESS = (
    Rule(
        code="FalseReady",
        title="The operator reports ready, and no node offers GPUs",
        severity="failure",
        cause="The ClusterPolicy says ready, because its DaemonSets want no pods, and not because GPUs work. {why}.",
        remedy="{remedy}",
        sources=(f"{_OPERATOR}blob/main/controllers/object_controls.go", f"{_DOCS}troubleshooting.html"),
        check=_false_ready,
        explains=NOT_READY | {*_HIDDEN, "TooFewNodes", "NodesNotLabelled"},
    ),
)

RULES = (*_DEFINITIONS, *_INSTALLATIONS, *_FEATURES, *_READINESS)
