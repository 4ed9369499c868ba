# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""ComputeDomains and IMEX: GPUs of several nodes that share memory over NVLink."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_CLIQUES = pattern(
    r"unexpected number of unique (?P<what>ClusterUUIDs|CliqueIDs) found on devices", "unexpected number of unique"
)
_FABRIC = (
    pattern(r"NVLink fabric (?P<why>not attached \(device [^)]{1,80}\): state=\d+)", "nvlink fabric not attached"),
    pattern(
        r"NVLink fabric (?P<why>registration error \(device [^)]{1,80}\): status=[^,]{1,60})",
        "nvlink fabric registration error",
    ),
)
_DOMAIN = (
    pattern(
        r"error asserting ComputeDomain Ready: (?P<why>[^()\"]{1,160}[^()\" ])", "error asserting computedomain ready"
    ),
    pattern(r"(?P<why>current node not ready in ComputeDomain)", "current node not ready in computedomain"),
    pattern(r"(?P<why>IMEX daemon not ready: .{1,120})", "imex daemon not ready"),
)
_OTHER_DOMAIN = pattern(
    r"label already exists for a different ComputeDomain", "label already exists for a different computedomain"
)
_OTHER_NAMESPACE = pattern(
    r"the ResourceClaim's namespace is different than the ComputeDomain's namespace",
    "different than the computedomain's namespace",
)
_FULL = pattern(
    r"no available indices within maxNodesPerIMEXDomain \((?P<most>\d+)\)", "no available indices within maxnodes"
)
_NUM_NODES = pattern(
    r"ComputeDomain\b.{0,200}spec\.numNodes: Required value|ComputeDomain\b.{0,200}missing required field "
    r"\\?\"numNodes",
    "numnodes",
)
_SESSION = pattern(r"Failed to allocate Imex session\b.{0,200}NV_ERR_IN_USE", "failed to allocate imex session")
_NO_ADDRESS = pattern(
    r"No matching network interface found for any IP addresses in the node configuration file",
    "no matching network interface found",
)
_NO_IPV6 = pattern(
    r"ipv6:\S{1,20}:50005: Address family not supported by protocol", ":50005: address family not supported"
)
_HOST_IMEX = (
    pattern(r"host nvidia-imex daemon not ready: (?P<why>.{1,160})", "host nvidia-imex daemon not ready"),
    pattern(
        r"host nvidia-imex daemon readiness check failed: (?!host nvidia-imex)(?P<why>.{1,160})",
        "host nvidia-imex daemon readiness check failed",
    ),
)
_FALSE_ALARM = pattern(r"empty cluster UUID, refusing to start", "empty cluster uuid, refusing to start")
_MAY_NOT_WRITE = pattern(
    r"(?:failed to create nodes config file:|open /(?:etc/nvidia-imex|imexd)/nodes_config\.cfg:|open "
    r"/imexd/nodes\.cfg:).{0,120}permission denied",
    "permission denied",
)
_PEER_LOST = pattern(r"Node disconnect event detected for node (?P<peer>\d+)", "node disconnect event detected")
_REFERENCE = pattern(
    r"Failed to get (?:new memory reference with rc: \d+|export ref for UUID)", "failed to get ", of=("imex", "dra")
)
_CHANNEL = pattern(r"CUDA_ERROR_NOT_PERMITTED\b.{0,120}\bcuMemCreate\b", "cuda_error_not_permitted")

_LONG_S = 600.0
"""How long the removal of a domain may take: its pods end first, and then its daemons."""

_DRA = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/"
_SOURCE = f"{_DRA}tree/95932046/"
_INSTALL = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-intro-install.html"
_GUIDE = "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/"

_LOOK_AT_FABRIC = (
    "Run nvidia-smi -q | grep -A 6 Fabric on the node: all GPUs must show State Completed and one ClusterUUID"
)
_WAITS = frozenset({"ComputeDomainNotReady"})


def _not_ready(view: View) -> t.Iterator[Sighting]:
    for hit in (hit for each in _DOMAIN for hit in view.hits(each)):
        yield matches.sighting(hit, "likely")
    for domain in view.listed("computedomains") or []:
        status, about = domain.get("status") or {}, f"computedomain {objects.full_name(domain)}"
        for each in status.get("nodes") or []:
            node = str(each.get("name") or "")
            if each.get("status") == "NotReady":
                why = "the daemon of a node is not ready"
                yield Sighting(node, about, matches.fact(f"{node}: NotReady", about, node), "certain", {"why": why})


def _stuck(view: View) -> t.Iterator[Sighting]:
    for domain in view.listed("computedomains") or []:
        deleted = str(domain["metadata"].get("deletionTimestamp") or "")
        if deleted and objects.timestamp(view.evidence.taken) - objects.timestamp(deleted) > _LONG_S:
            about = f"computedomain {objects.full_name(domain)}"
            yield Sighting("", about, matches.fact(f"deleted at {deleted}", about))


RULES = (
    Rule(
        code="FabricCliquesDiffer",
        title="GPUs of one node belong to different NVLink fabrics",
        severity="failure",
        cause="The GPUs of the node report different {what}, so it cannot be in a ComputeDomain. The NVLink fabric is "
        "not complete, or some GPUs have not joined it.",
        remedy=f"{_LOOK_AT_FABRIC}. If not, look at the fabric manager of the switch trays, and at NVLink errors.",
        sources=(f"{_SOURCE}cmd/compute-domain-kubelet-plugin", _INSTALL),
        patterns=(_CLIQUES,),
        certainty="likely",
    ),
    Rule(
        code="FabricNotJoined",
        title="A GPU has not joined the NVLink fabric, and the plugin for ComputeDomains does not start",
        severity="failure",
        cause="The plugin refuses to start: NVLink fabric {why}. The GPU has an NVLink fabric, and is not registered "
        "with it. Without the plugin, pods with a ComputeDomain wait on this node.",
        remedy=f"{_LOOK_AT_FABRIC}. Look at the fabric manager (of the switch trays, or of the node), and at NVLink "
        f"errors "
        "in the kernel log. To run without the fabric, set featureGates.CrashOnNVLinkFabricErrors=false.",
        sources=(
            f"{_SOURCE}cmd/compute-domain-kubelet-plugin/nvlib.go",
            f"{_SOURCE}site/content/docs/reference/feature-gates.md",
        ),
        patterns=_FABRIC,
        explains=frozenset({"DRAPluginNotRegistered", "ComputeDomainNotReady"}),
    ),
    Rule(
        code="ComputeDomainNotReady",
        title="A ComputeDomain is not ready",
        severity="warning",
        cause="A pod waits for its ComputeDomain: {why}. The IMEX daemons of its nodes have not all found each other.",
        remedy="Run kubectl get computedomains -A -o yaml for the nodes that are not ready, and read the logs of their "
        "pods of the compute-domain daemon: they run nvidia-imex. All nodes need the same driver, and TCP ports that "
        "reach each other.",
        sources=(f"{_SOURCE}cmd/compute-domain-kubelet-plugin", _GUIDE),
        check=_not_ready,
        patterns=_DOMAIN,
    ),
    Rule(
        code="ComputeDomainStuck",
        title="A ComputeDomain is deleted, and stays",
        severity="failure",
        cause="The ComputeDomain waits for its finalizer resource.nvidia.com/computeDomain. The controller of the DRA "
        "driver removes it after the template, the daemons and the labels of nodes, and it does not run, or pods still "
        "use the domain.",
        remedy="Look whether the DRA driver's controller runs (kubectl get pods -A), and delete the pods that use the "
        "domain. A finalizer that is removed by hand leaves nodes with the label resource.nvidia.com/computeDomain, "
        "and no other domain gets them.",
        sources=(f"{_SOURCE}cmd/compute-domain-controller/computedomain.go", f"{_DRA}issues/380"),
        check=_stuck,
    ),
    Rule(
        code="NodeInOtherDomain",
        title="The node belongs to another ComputeDomain",
        severity="failure",
        cause="A node is in one ComputeDomain at a time, and this one is still in another. So the pod that brings the "
        "next one waits.",
        remedy="The node's label resource.nvidia.com/computeDomain has the UID of its domain: find it with kubectl get "
        "computedomains -A -o yaml. Wait for its pods to end, or place the pod on other nodes. If no domain has that "
        "UID, look whether the controller of the DRA driver runs: it removes the label.",
        sources=(f"{_SOURCE}cmd/compute-domain-kubelet-plugin/computedomain.go", f"{_DRA}pull/518"),
        patterns=(_OTHER_DOMAIN,),
        explains=_WAITS,
    ),
    Rule(
        code="DomainOfOtherNamespace",
        title="A claim names a ComputeDomain of another namespace",
        severity="failure",
        cause="A pod may use ComputeDomains of its own namespace only, and its claim names one of another namespace.",
        remedy="Create the ComputeDomain in the pod's namespace, and use the ResourceClaimTemplate that comes with it.",
        sources=(f"{_SOURCE}cmd/compute-domain-kubelet-plugin/computedomain.go",),
        patterns=(_OTHER_NAMESPACE,),
        explains=_WAITS,
    ),
    Rule(
        code="ComputeDomainFull",
        title="A ComputeDomain has more nodes than an IMEX domain takes",
        severity="failure",
        cause="An IMEX domain takes {most} nodes of one clique at most, and all places are taken. Places of nodes that "
        "left wrongly stay taken.",
        remedy="Look at status.nodes of the ComputeDomain, or at kubectl get computedomaincliques -A -o yaml. Place "
        "the job on fewer nodes of one rack. Places of nodes that are gone go with the domain: delete it after its "
        "pods.",
        sources=(f"{_SOURCE}cmd/compute-domain-daemon/cdclique.go", _GUIDE),
        patterns=(_FULL,),
        explains=_WAITS,
    ),
    Rule(
        code="ComputeDomainNeedsNumNodes",
        title="A ComputeDomain without numNodes is refused",
        severity="failure",
        cause="The CustomResourceDefinition of the cluster still asks for spec.numNodes, which newer releases of the "
        "DRA driver let you leave out.",
        remedy="Write the number of nodes of the job, which counts for the object's own status only. Not 0: the driver "
        "from v0.4.0 on leaves that out when it writes the object, and is refused. Or apply the "
        "CustomResourceDefinitions of the release that runs: Helm does not update them.",
        sources=(f"{_SOURCE}site/content/docs/upgrade.md", "https://github.com/NVIDIA/aicr/issues/2439"),
        patterns=(_NUM_NODES,),
    ),
    Rule(
        code="IMEXSessionInUse",
        title="The host runs IMEX itself",
        severity="failure",
        cause="The driver of a node has one IMEX session, and the service nvidia-imex of the host holds it. So the "
        "daemon of a ComputeDomain gets none, and the domain is never ready.",
        remedy="On nodes with ComputeDomains, run systemctl disable --now nvidia-imex && systemctl mask nvidia-imex, "
        "after jobs that use the host's domain have ended. Then delete the pod of the daemon.",
        sources=("https://github.com/NVIDIA/aicr/pull/2520", f"{_DRA}issues/524", _GUIDE),
        patterns=(_SESSION,),
        certainty="likely",
        explains=_WAITS,
    ),
    Rule(
        code="HostIMEXNotReady",
        title="The DRA driver shall use the host's IMEX, which is not ready",
        severity="failure",
        cause="With imex.mode=hostManaged, the plugin asks the host's nvidia-imex whether it is ready before it gives "
        "out a channel, and got: {why}.",
        remedy="Run systemctl status nvidia-imex on the node. /etc/nvidia-imex/config.cfg needs IMEX_CMD_ENABLED=1 and "
        "IMEX_CMD_UNIX_DOMAIN_PATH=/etc/nvidia-imex/imex_ctrl.sock, and the service a restart after a change.",
        sources=(f"{_SOURCE}site/content/docs/prerequisites.md", f"{_DRA}pull/1236"),
        patterns=_HOST_IMEX,
        explains=_WAITS,
    ),
    Rule(
        code="IMEXHasNoAddress",
        title="An IMEX daemon does not find itself among the nodes of its domain",
        severity="failure",
        cause="None of the addresses in the list of nodes is one of the daemon's own, so IMEX does not start. The list "
        "is of another machine or of a pod that is gone, or the names in it point to other addresses.",
        remedy="Compare /etc/nvidia-imex/nodes_config.cfg with the addresses of the machine, or of the daemon's pod "
        "(/imexd in newer releases). A daemon of a ComputeDomain writes a new list when its pod starts again.",
        sources=(f"{_DRA}issues/289", _GUIDE),
        patterns=(_NO_ADDRESS,),
        certainty="likely",
        explains=_WAITS,
    ),
    Rule(
        code="IMEXProbedOverIPv6",
        title="The probe of an IMEX daemon asks over IPv6, which the node does not have",
        severity="failure",
        cause="The daemon may be well: its probe asks [::]:50005, and the node has no IPv6. So the domain is never "
        "ready.",
        remedy="Update the DRA driver: releases from 25.3.0 on ask 127.0.0.1.",
        sources=(f"{_DRA}issues/328", f"{_DRA}pull/333"),
        patterns=(_NO_IPV6,),
        explains=_WAITS,
    ),
    Rule(
        code="FabricFalselyMissed",
        title="A release of the DRA driver misses an NVLink fabric where none is",
        severity="failure",
        cause="The plugin for ComputeDomains ends on machines whose NVLink does not leave the node: their cluster UUID "
        "is zero, which is as it should be.",
        remedy="Update the DRA driver. Until then, set featureGates.CrashOnNVLinkFabricErrors=false, or "
        "resources.computeDomains.enabled=false: such machines have no use for ComputeDomains.",
        sources=(f"{_DRA}issues/864", f"{_DRA}issues/1264"),
        patterns=(_FALSE_ALARM,),
        explains=frozenset({"DRAPluginNotRegistered"}),
    ),
    Rule(
        code="DomainDaemonMayNotWrite",
        title="The daemon of a ComputeDomain may not write its configuration",
        severity="failure",
        cause="The daemon runs as a user who may not write the list of nodes. OpenShift chooses a random user unless "
        "the service account has the security context constraint anyuid.",
        remedy="Update the DRA driver: its chart binds anyuid on OpenShift. Until then, run oc adm policy "
        "add-scc-to-user anyuid -z ACCOUNT -n NAMESPACE with the daemon's service account.",
        sources=(f"{_DRA}pull/569", f"{_DRA}pull/570"),
        patterns=(_MAY_NOT_WRITE,),
        certainty="likely",
        explains=_WAITS,
    ),
    Rule(
        code="IMEXPeerLost",
        title="An IMEX daemon has lost another node of its domain",
        severity="warning",
        cause="The connection to node {peer} has ended. Its daemon or its machine went down, or (up to release 0.5.0) "
        "a daemon of another ComputeDomain got the address of this one. Memory that jobs share with it is gone.",
        remedy="Run nvidia-imex-ctl -N in a daemon of the domain: all nodes must be READY. Then start all pods of the "
        "job again. If no daemon of the domain had ended, update the DRA driver.",
        sources=(f"{_DRA}issues/1447", _GUIDE),
        patterns=(_PEER_LOST,),
        certainty="likely",
    ),
    Rule(
        code="IMEXEnsembleChanged",
        title="IMEX cannot hand memory to another node",
        severity="warning",
        cause="An IMEX daemon has no valid reference to memory of another node. Usually a daemon of the domain was "
        "started again under running jobs, or the job began before all daemons were ready.",
        remedy="Run nvidia-imex-ctl -N in a daemon of the domain: all nodes must be READY. Then start all pods of the "
        "job again. If it happens often, update the DRA driver.",
        sources=(f"{_DRA}issues/948",),
        patterns=(_REFERENCE,),
        certainty="possible",
    ),
    Rule(
        code="IMEXChannelMissing",
        title="A program may not share GPU memory between nodes",
        severity="failure",
        cause="The program allocates memory for other nodes (a fabric handle), and the driver refuses: the container "
        "has no IMEX channel, or the machine has no NVLink between nodes at all.",
        remedy="Run nvidia-smi -q | grep -A 6 Fabric, and ls /dev/nvidia-caps-imex-channels in the container. With "
        "NVLink between nodes, give the pod a ComputeDomain; without it, this program does not work over nodes.",
        sources=("https://github.com/NVIDIA/nvbandwidth/issues/39", _GUIDE),
        patterns=(_CHANNEL,),
        certainty="possible",
    ),
)
