# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The container runtime does not give GPUs to containers: handlers, configuration files, cgroups, SELinux."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NO_HANDLER = pattern(r'no runtime for \\*"nvidia\\*" is configured', "is configured", "event", "unit", "pod")
_NO_CRIO_HANDLER = pattern(r'failed to find runtime handler "?nvidia"? from\b', "failed to find runtime handler")
"""CRI-O's words. With hooks or CDI, CRI-O needs no handler of that name."""
_NO_PLUGIN = pattern(
    r'failed to find plugin \\*"(?P<plugin>[\w.-]+)\\*" in path \[(?P<path>[^\]]+)\]', "failed to find plugin"
)
_PLACES = {"gke": "/home/kubernetes/bin"}
"""Where the network plugin of a platform is. On GKE, the nodes' config.toml says so: "Google's CNI configuration"."""
_BIN_DIR = pattern(r"^\s*bin_dirs? = ", "bin_dir")
_SOCKET = pattern(
    r"unable to dial: dial unix (?P<socket>/runtime/sock-dir/\S+?): connect: no such file or directory",
    "unable to dial: dial unix /runtime/sock-dir/",
)
_TEMPLATE = pattern(
    r"unable to load config: \(\d+, \d+\): unexpected token type in inline table: keys cannot contain \{",
    "unexpected token type in inline table",
)
_CGROUPS = pattern(
    r"kubelet cgroup driver: \\*\"(?P<kubelet>[\w']+)\\*\" is different from docker cgroup driver: "
    r"\\*\"(?P<runtime>\w+)",
    "is different from docker cgroup driver",
)

_NO_DEFAULT = pattern(
    r"`containerd\.runtimes` for `containerd` `default_runtime_name = \\*\"(?P<handler>[\w.-]+)",
    "`containerd` `default_runtime_name = ",
)


def runtimes(view: View, node: str) -> list[Json]:
    """Return the runtimes of a node's host that run."""
    facts = view.facts(node).get("runtimes") or []
    active = {(each["name"], each["distribution"]) for each in facts if each.get("active")}
    found = seen.state(view, node).get("runtimes") or []
    return [each for each in found if (each["name"], each["distribution"]) in active]


def _has_handler(view: View, node: str) -> bool:
    return any(each.get("active") and each.get("nvidia_runtime") for each in view.facts(node).get("runtimes") or [])


def _no_handler(view: View) -> t.Iterator[Sighting]:
    for hit in (*view.hits(_NO_HANDLER), *view.hits(_NO_CRIO_HANDLER)):
        if not _has_handler(view, hit.line.node) and not seen.is_ready(view, hit.line.node):
            yield matches.sighting(hit)


def _not_restarted(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_NO_HANDLER):
        if _has_handler(view, hit.line.node) and not seen.is_ready(view, hit.line.node):
            yield matches.sighting(hit, "likely")


def _not_imported(view: View) -> t.Iterator[Sighting]:
    for node in view.names:
        for each in runtimes(view, node):
            for path in each.get("not_imported") or []:
                if not each["handlers"].get("nvidia"):
                    values = {"file": path, "config": str(each["config"])}
                    text = f"{path} defines the handler nvidia, and {each['config']} does not import it"
                    yield Sighting(node, "", fact(text, seen.HOST_STATE, node), "certain", values)


def _template(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_TEMPLATE):
        yield matches.sighting(hit, file="config.toml.tmpl")
    for node in view.names:
        for each in runtimes(view, node):
            for path in each.get("fixed_templates") or []:
                text = f"{path} has no template expression"
                yield Sighting(node, "", fact(text, seen.HOST_STATE, node), "likely", {"file": path})


def _cni(view: View) -> t.Iterator[Sighting]:
    for hit in seen.together(view, _NO_PLUGIN, _BIN_DIR):
        yield matches.sighting(hit, "likely")
    told = {seen.text_of(hit) for hit in seen.together(view, _NO_PLUGIN, _BIN_DIR)}
    for hit in view.hits(_NO_PLUGIN):
        place = _PLACES.get(hit.values["plugin"])
        if place and place not in hit.values["path"] and seen.text_of(hit) not in told:
            yield matches.sighting(hit, "likely")
        set_by_us = any(
            hit.values["path"] in (each.get("cni_bin_dirs") or []) and each.get("nvidia_from")
            for each in runtimes(view, hit.line.node)
        )
        if set_by_us:
            yield matches.sighting(hit, "likely")


def _cgroups(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_CGROUPS):
        yield matches.sighting(hit)
    for node in view.names:
        kubelet = (seen.state(view, node).get("cgroups") or {}).get("kubelet")
        for each in runtimes(view, node):
            runtime = {True: "systemd", False: "cgroupfs"}.get(each.get("systemd_cgroup"))  # type: ignore[arg-type]
            if kubelet and runtime and kubelet != runtime:
                text = f"kubelet: {kubelet}, {each['name']}: {runtime}"
                values = {"kubelet": kubelet, "runtime": runtime}
                yield Sighting(node, "", fact(text, seen.HOST_STATE, node), "likely", values)


_TROUBLE = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html"
_FOLLOWS = NOT_READY | {"WaitsForToolkit", "ValidatorKnowsNoDriver"}

RULES = (
    Rule(
        code="NoNvidiaRuntimeHandler",
        title='No runtime for "nvidia"',
        severity="failure",
        cause="Pods ask for the runtime class nvidia, but the container runtime of the node has no handler of that "
        "name. The container toolkit has not configured it, or something has removed the configuration.",
        remedy="Look at the pod of the container toolkit on this node: it writes the configuration when the driver is "
        "ready. If the pod is ready, it writes a file that the runtime does not read: set CONTAINERD_CONFIG and "
        "CONTAINERD_SOCKET to those of your Kubernetes distribution, in toolkit.env of operator_values, and run "
        "playbooks/site.yml. If the operator does not bring the toolkit, set host_driver_toolkit: true and run "
        "playbooks/site.yml. On CRI-O with hooks or CDI, remove runtimeClassName: nvidia from the pod instead.",
        sources=(
            _TROUBLE,
            "https://github.com/NVIDIA/gpu-operator/issues/730",
            "https://github.com/NVIDIA/k8s-device-plugin/issues/479",
            "https://github.com/NVIDIA/gpu-operator/pull/2168",
        ),
        check=_no_handler,
        patterns=(_NO_HANDLER, _NO_CRIO_HANDLER),
        # The toolkit writes the handler when its init container has found a driver.
        explains=_FOLLOWS - {"ValidatorKnowsNoDriver"},
    ),
    Rule(
        code="RuntimeNotRestarted",
        title="The runtime runs with an old configuration",
        severity="warning",
        cause="Pods found no handler nvidia in the container runtime, but its files define one now. The runtime has "
        "not read the files yet, or they were written after the pods failed.",
        remedy="If pods still wait, drain the node and restart its container runtime, for example with "
        "systemctl restart containerd.",
        sources=(_TROUBLE, "https://github.com/NVIDIA/gpu-operator/pull/2168"),
        check=_not_restarted,
        patterns=(_NO_HANDLER,),
        certainty="likely",
        explains=_FOLLOWS,
    ),
    Rule(
        code="RuntimeConfigNotImported",
        title="containerd does not import the toolkit's file",
        severity="failure",
        cause="The container toolkit wrote the handler nvidia into {file}, but {config} does not import that file.",
        remedy='Add the file to imports in {config}, such as imports = ["/etc/containerd/conf.d/*.toml"], drain the '
        "node, and restart containerd. If a tool or an upgrade rewrites {config}, make it keep this line.",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1404",
            "https://github.com/NVIDIA/nvidia-container-toolkit/pull/1382",
        ),
        check=_not_imported,
        explains=_FOLLOWS | {"NoNvidiaRuntimeHandler"},
    ),
    Rule(
        code="RuntimeTemplateReplaced",
        title="The containerd template of k3s or RKE2 is broken",
        severity="failure",
        cause="k3s and RKE2 generate containerd's configuration from {file}. The container toolkit has written its own "
        "configuration there, and the result is no valid template.",
        remedy="In toolkit.env of operator_values, set CONTAINERD_CONFIG to config.toml in that folder rather than "
        "config.toml.tmpl, and run playbooks/site.yml. Then drain the node, remove the template, and restart k3s or "
        "RKE2. Newer releases find NVIDIA's runtime by themselves.",
        sources=(
            "https://github.com/rancher/rke2/issues/3385",
            "https://github.com/NVIDIA/gpu-operator/issues/623",
            "https://github.com/rancher/rke2/issues/8752",
            "https://github.com/NVIDIA/gpu-operator/issues/992",
        ),
        check=_template,
        patterns=(_TEMPLATE,),
        explains=_FOLLOWS | seen.NODE_DOWN | {"NoNvidiaRuntimeHandler"},
    ),
    Rule(
        code="ToolkitSocketWrong",
        title="The toolkit does not find the runtime's socket",
        severity="failure",
        cause="The container toolkit cannot restart the container runtime, because the socket {socket} does not exist "
        "on the node.",
        remedy="In toolkit.env of operator_values, set CONTAINERD_SOCKET to the socket of your Kubernetes "
        "distribution, such as /run/k3s/containerd/containerd.sock for k3s and RKE2, and CONTAINERD_CONFIG to its "
        "configuration. Then run playbooks/site.yml.",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/406",),
        patterns=(_SOCKET,),
        explains=_FOLLOWS | {"NoNvidiaRuntimeHandler"},
    ),
    Rule(
        code="CNIPathLost",
        title="containerd looks for network plugins in the wrong place",
        severity="failure",
        cause="containerd looks for the network plugin {plugin} in {path}, but it is not there. The container toolkit "
        "wrote that path into containerd's configuration.",
        remedy="Set the path of your cluster (bin_dirs; before containerd 2.1, bin_dir) in a file that containerd "
        "imports after the toolkit's. Then drain the node, restart containerd, and update the toolkit (toolkit.version "
        "in operator_values, and playbooks/site.yml).",
        sources=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/1222",),
        check=_cni,
        patterns=(_NO_PLUGIN, _BIN_DIR),
        explains=_FOLLOWS | seen.NODE_DOWN,
    ),
    Rule(
        code="CgroupDriversDiffer",
        title="Kubelet and runtime manage cgroups differently",
        severity="failure",
        cause="The kubelet manages cgroups with {kubelet}, but the container runtime uses {runtime}. So containers "
        "lose their GPUs or do not start.",
        remedy="Drain the node, and set both to systemd: cgroupDriver: systemd for the kubelet, and SystemdCgroup = "
        "true for each handler in containerd's configuration, nvidia included. Then restart both.",
        sources=(
            "https://github.com/kubernetes/kubernetes/issues/43805",
            "https://github.com/kubernetes/kubernetes/issues/87918",
            "https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/configure-cgroup-driver/",
        ),
        check=_cgroups,
        patterns=(_CGROUPS,),
        explains=_FOLLOWS | seen.NODE_DOWN | {"DevicesLostAfterReload"},
    ),
    Rule(
        code="RuntimeDefaultUndefined",
        title="containerd's default runtime is not defined",
        severity="failure",
        cause="containerd cannot run pods, because its default runtime {handler} is not defined. Another file of its "
        "configuration has replaced the table that defined it.",
        remedy="Define the table of {handler} again in a file that containerd imports after the toolkit's. Then "
        "restart containerd, and update the container toolkit (toolkit.version in operator_values, and "
        "playbooks/site.yml).",
        sources=("https://github.com/METR/hawk/pull/273",),
        patterns=(_NO_DEFAULT,),
        explains=_FOLLOWS | seen.NODE_DOWN | {"NoNvidiaRuntimeHandler"},
    ),
)
