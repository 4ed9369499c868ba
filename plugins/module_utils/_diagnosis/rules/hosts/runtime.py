# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The container runtime does not give GPUs to containers: handlers, configuration files, cgroups, SELinux."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NO_HANDLER = pattern(r'no runtime for \\*"nvidia\\*" is configured', "is configured", "event", "unit", "pod")
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
_LOST = pattern(r"Failed to initialize NVML: Unknown Error", "failed to initialize nvml: unknown error")
_NO_CGROUPS = pattern(r"^\s*no-cgroups = true", "no-cgroups = true")
_AVC = pattern(r"avc:\s+denied\s+\{ (?P<action>[\w ]+) \}.*(?:nvidia|xserver_misc_device_t).*permissive=0", "denied")
_TROUBLESHOOT = pattern(r"^\s*Target Objects\s+(?P<action>/dev/nvidia\S*)", "target objects")
_REFUSED = pattern(r"could not insert '?nvidia'?: Permission denied", "': permission denied")
_NO_LIBRARY = pattern(
    r"nvidia-container-cli(?:\.real)?: initialization error: load library failed: (?P<library>[\w.-]+): cannot open",
    "initialization error: load library failed",
)

_NO_DEFAULT = pattern(
    r"`containerd\.runtimes` for `containerd` `default_runtime_name = \\*\"(?P<handler>[\w.-]+)",
    "`containerd` `default_runtime_name = ",
)
_CDI = pattern(r"unresolvable CDI devices (?P<device>(?:[\w-]+\.)*nvidia\.com/gpu=[\w:-]+)", "unresolvable cdi devices")
_CDI_FILE = pattern(
    r"failed to stat CDI host device \\*\"(?P<file>/dev/[^\"\\]+)\\*\": no such file", "failed to stat cdi host device"
)
_GRAPHICS = "/dev/dri/"
_PROGRAM = r"(?:/[\w./-]+/)?(?P<program>nvidia-c(?:ontainer-runtime-hook|ontainer-toolkit|ontainer-cli(?:\.real)?|tk))"
_NO_PROGRAM = (
    pattern(rf"(?:stat|fork/exec|open) {_PROGRAM}: no such file or directory", ": no such file or directory"),
    pattern(rf'exec: \\*"{_PROGRAM}\\*": executable file not found', "executable file not found"),
)
_LDCONFIG = pattern(r"ldcache error: process \S*ldconfig\S* terminated with signal 9", "terminated with signal 9")


def runtimes(view: View, node: str) -> list[Json]:
    """Return the runtimes of a node's host that run."""
    facts = view.facts(node).get("runtimes") or []
    active = {(each["name"], each["distribution"]) for each in facts if each.get("active")}
    found = seen.state(view, node).get("runtimes") or []
    return [each for each in found if (each["name"], each["distribution"]) in active]


def _has_handler(view: View, node: str) -> bool:
    return any(each.get("active") and each.get("nvidia_runtime") for each in view.facts(node).get("runtimes") or [])


def _no_handler(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_NO_HANDLER):
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


def _lost(view: View) -> t.Iterator[Sighting]:
    """Yield the containers without GPUs. Links that are missing on the host are the known cause."""
    rootless = set(map(seen.text_of, view.hits(_NO_CGROUPS)))
    for hit in view.hits(_LOST):
        missing = seen.state(view, hit.line.node).get("links_missing") or []
        found = matches.sighting(hit, "certain" if missing else "likely")
        if missing:
            text = f"no link below /dev/char to {', '.join(missing)}"
            found = dataclasses.replace(found, quotes=(*found.quotes, *fact(text, seen.HOST_STATE, hit.line.node)))
        if seen.text_of(hit) not in rootless:
            yield found


def _no_cgroups(view: View) -> t.Iterator[Sighting]:
    return (matches.sighting(hit, "likely") for hit in seen.together(view, _NO_CGROUPS, _LOST))


def _no_file(view: View) -> t.Iterator[Sighting]:
    """Yield the device files that a CDI specification names and that are not there."""
    for hit in view.hits(_CDI_FILE):
        if hit.values["file"].startswith(("/dev/nvidia", _GRAPHICS)):
            yield matches.sighting(hit, "certain" if hit.values["file"].startswith("/dev/nvidia") else "likely")


def _selinux(view: View) -> t.Iterator[Sighting]:
    for hit in (*view.hits(_AVC), *view.hits(_TROUBLESHOOT)):
        yield matches.sighting(hit)
    for hit in view.hits(_REFUSED):
        if seen.state(view, hit.line.node).get("selinux") not in ("permissive", "disabled"):
            yield matches.sighting(hit, "likely", action="module_load")


_TROUBLE = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html"
_DENIED_OR_MISSING = (
    "Run ausearch -m avc -ts recent on the host. If it shows denials for the container, SELinux is the cause; if it "
    "shows none, the container did not get the device files of the GPU."
)
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
        "playbooks/site.yml.",
        sources=(
            _TROUBLE,
            "https://github.com/NVIDIA/gpu-operator/issues/730",
            "https://github.com/NVIDIA/k8s-device-plugin/issues/479",
            "https://github.com/NVIDIA/gpu-operator/pull/2168",
        ),
        check=_no_handler,
        patterns=(_NO_HANDLER,),
        explains=_FOLLOWS,
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
        code="DevicesLostAfterReload",
        title="Containers lost their GPUs",
        severity="failure",
        cause="A container that had GPUs can no longer open them. systemd has set up its cgroup again, for example "
        "after systemctl daemon-reload, without the GPUs that the runtime had allowed.",
        remedy="Delete the pods that have lost their GPUs, so that they start again. To prevent it, use CDI "
        "(cdi.enabled: true in operator_values, and playbooks/site.yml), or create the links under /dev/char on the "
        "host (nvidia-ctk system create-dev-char-symlinks --create-all).",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/251",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1227",
        ),
        check=_lost,
        patterns=(_LOST, _NO_CGROUPS),
        explains=NOT_READY | {"UnhealthyGPUs"},
        unlike=dict.fromkeys(("XidOffTheBus", "XidReset", "GPUDoesNotAnswer"), seen.CONTAINER_OR_GPU),
    ),
    Rule(
        code="NoCgroupsSet",
        title="The toolkit does not let containers open GPUs",
        severity="failure",
        cause="The container toolkit is configured with no-cgroups = true, which is for rootless containers only. "
        "Other containers see the GPUs but may not open them.",
        remedy="Set no-cgroups = false in /etc/nvidia-container-runtime/config.toml, and delete the pods that fail, so "
        "that they start again.",
        sources=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/580",),
        check=_no_cgroups,
        patterns=(_LOST, _NO_CGROUPS),
        explains=NOT_READY | {"DevicesLostAfterReload"},
    ),
    Rule(
        code="SELinuxDenies",
        title="SELinux denies the GPU",
        severity="failure",
        cause="SELinux does not let a container or a program use NVIDIA's driver ({action}).",
        remedy="Install container-selinux, let containers use devices (setsebool -P container_use_devices on), and "
        "restore the labels of the driver's files (restorecon -Rv /usr/bin/nvidia* /dev/nvidia*). If a driver "
        "container may not load its module (module_load), install the driver on the host: set gpuops_driver: host and "
        "run playbooks/site.yml.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/553",
            "https://github.com/fedora-selinux/selinux-policy/issues/1695",
            "https://github.com/NVIDIA/nvidia-docker/issues/814",
        ),
        check=_selinux,
        patterns=(_AVC, _TROUBLESHOOT, _REFUSED),
        explains=seen.NO_DRIVER,
        unlike={"ModuleSignatureRefused": seen.SELINUX_OR_SIGNATURE, "NVMLPermissionDenied": _DENIED_OR_MISSING},
    ),
    Rule(
        code="DriverLibrariesMissing",
        title="The toolkit does not find the driver's libraries",
        severity="failure",
        cause="NVIDIA's runtime does not find {library}. It looks for the driver in the wrong place, or there is no "
        "driver.",
        remedy="With a driver container, look at the driver's pod first. With a driver on the host, set "
        "driver.enabled: false in operator_values, let hostPaths.driverInstallDir not name the root of a driver "
        "container, and run playbooks/site.yml.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/511",
            "https://github.com/NVIDIA/gpu-operator/issues/625",
        ),
        patterns=(_NO_LIBRARY,),
        certainty="likely",
        explains=_FOLLOWS,
        unlike={"DriverNotLoaded": seen.LOADED_OR_NOT},
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
    Rule(
        code="CDIDeviceUnknown",
        title="CDI does not know the GPU",
        severity="failure",
        cause="A container asks for {device} through CDI, but no CDI specification on the node lists it. The "
        "specification is missing, is older than the driver, or only lists the device all.",
        remedy="Delete the pod of the container toolkit, so that it writes /var/run/cdi again, or run nvidia-ctk cdi "
        "generate --output=/etc/cdi/nvidia.yaml on the host. Remove runtimeClassName: nvidia-cdi from pods that ask "
        "for GPUs, because they need none.",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1239",
            "https://github.com/gpustack/gpustack/issues/4130",
            "https://github.com/NVIDIA/gpu-operator/issues/531",
        ),
        patterns=(_CDI,),
        explains=_FOLLOWS,
    ),
    Rule(
        code="CDISpecificationStale",
        title="A CDI specification names a device file that is not there",
        severity="failure",
        cause="The CDI specification of the node gives containers {file}, and the host has no such file. The "
        "specification is older than the last boot or the last change of the GPUs, or a module of the driver is not "
        "loaded.",
        remedy="Run `nvidia-smi` on the host, which creates the device files that are missing. Then delete the node's "
        "pod of the container toolkit, so that it writes /var/run/cdi again, or run nvidia-ctk cdi generate "
        "--output=/etc/cdi/nvidia.yaml on the host.",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/885",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1246",
            "https://github.com/cncf-tags/container-device-interface/blob/main/pkg/cdi/container-edits_unix.go",
        ),
        check=_no_file,
        patterns=(_CDI_FILE,),
        explains=_FOLLOWS,
    ),
    Rule(
        code="ToolkitProgramMissing",
        title="A program of the container toolkit is missing",
        severity="failure",
        cause="The container runtime is set up to use NVIDIA's container toolkit, and its program {program} is not "
        "there. The toolkit was removed or only half installed, or the toolkit's pod has not written its files again "
        "after a reboot.",
        remedy="If the operator brings the toolkit, delete the node's pod nvidia-container-toolkit-daemonset, so that "
        "a new one writes the programs. If the toolkit belongs to the host, run playbooks/site.yml with "
        "host_driver_toolkit: true, which installs the package again.",
        sources=(
            "https://github.com/NVIDIA/nvidia-docker/issues/1017",
            "https://github.com/NVIDIA/nvidia-container-toolkit/blob/main/internal/modifier/stable.go",
        ),
        patterns=_NO_PROGRAM,
        explains=_FOLLOWS,
    ),
    Rule(
        code="ToolkitHookKilled",
        title="The toolkit's hook was killed",
        severity="failure",
        cause="NVIDIA's hook ran ldconfig inside the container, and the kernel killed it. Usually the memory limit of "
        "the container is too small for ldconfig.",
        remedy="Raise the memory limit of the pod, or give GPUs through CDI (cdi.enabled and cdi.default in the "
        "operator's values), which does not run this hook.",
        sources=("https://github.com/NVIDIA/k8s-device-plugin/issues/1400",),
        patterns=(_LDCONFIG,),
        certainty="likely",
        explains=_FOLLOWS,
        unlike={"HostOutOfMemory": seen.HOST_OR_LIMIT},
    ),
)
