# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The operator itself, its definitions and permissions, Node Feature Discovery, and a readiness that is none."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Certainty, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import operator_lines

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


def fleet_wide(*patterns: Pattern, certainty: Certainty = "certain") -> matches.Check:
    """Return a check for words of the operator or of Helm. They are about the whole cluster, not about a node."""

    def check(view: View) -> t.Iterator[Sighting]:
        for hit in (hit for each in patterns for hit in view.hits(each)):
            found = matches.sighting(hit, certainty)
            yield Sighting("", found.object, found.quotes, certainty, found.values)

    return check


_NEEDS_GPUCLUSTER = operator_lines.first_with("gpucluster")
"""The first line of the operator that starts only with the definition of GPUClusters."""


def _no_definition(view: View) -> t.Iterator[Sighting]:
    yield from fleet_wide(*_NO_KIND)(view)
    definitions, operators = view.listed("customresourcedefinitions"), view.listed("deployments")
    if definitions is None or operators is None:
        return
    there = {objects.name_of(item) for item in definitions}
    releases = [_release(item) for item in operators if operands.is_operator(item)]
    if any(release and release[:2] >= _NEEDS_GPUCLUSTER for release in releases):
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
        check=fleet_wide(*_OLD_FIELD, certainty="likely"),
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
        check=fleet_wide(_OLD_DEMAND, certainty="likely"),
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
        check=fleet_wide(_LEASE),
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
        check=fleet_wide(_NO_MONITOR),
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


# A readiness that is none

_HIDDEN = ("NodesTainted", "OperandsSwitchedOff", "NoNVIDIADriver", "ConflictingNodeSelector", "NodesWithoutDriver")
"""Reasons that the operator's own state leaves out, the most common first."""


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

# NVIDIADrivers in conflict


def _conflict(view: View) -> t.Iterator[Sighting]:
    for reason in view.reasons:
        if reason["code"] == "ConflictingNodeSelector":
            quotes = matches.fact(reason["message"], "NVIDIADriver")
            yield Sighting("", "", quotes, "certain", {"what": reason["message"]})


_CONFLICTS = (
    Rule(
        code="NVIDIADriversConflict",
        title="Several NVIDIADrivers claim the same nodes",
        severity="failure",
        cause="The operator rolls out none of the drivers while several claim the same nodes. {what}.",
        remedy="Let each node match the nodeSelector of one NVIDIADriver only, and set default: true in at most one: "
        "`kubectl get nvidiadrivers -o yaml`, `kubectl get nodes --show-labels`.",
        sources=(f"{_OPERATOR}blob/main/internal/validator/validator.go", f"{_DOCS}gpu-driver-configuration.html"),
        check=_conflict,
        explains=NOT_READY | {"FalseReady", *_HIDDEN[2:], "DriverNotReady", "OldImage", "NodesNotLabelled"},
    ),
)

RULES = (*_DEFINITIONS, *_INSTALLATIONS, *_CONFLICTS, *_READINESS)
