# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the validator of the stack says when it fails: no driver, no toolkit, too few GPUs."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches, order
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.failing_operands import (
    COUNT_RESTARTS,
    TRY_RUNTIME,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_OPERATOR = "https://github.com/NVIDIA/gpu-operator/"

_FOUND_HOST_DRIVER = pattern(
    r"NVIDIA GPU driver is already pre-installed on the node|driver is pre-installed on host", "pre-installed"
)

_NO_KERNEL = pattern(
    r"Failed to launch vectorAdd kernel \(error code no kernel image is available for execution on the device\)",
    "no kernel image is available",
)

_INSUFFICIENT = pattern(
    r"Failed to allocate device vector A \(error code CUDA driver version is insufficient for CUDA runtime version\)",
    "cuda driver version is insufficient",
)

_BUSY = pattern(
    r"Failed to allocate device vector A \(error code (?:all )?CUDA-capable devices?(?:\(s\))? (?:is/)?are busy or "
    r"unavailable\)",
    "busy or unavailable",
)

_SYMLINKS = pattern(r"Failed to create symlinks under /dev/char", "failed to create symlinks under /dev/char")

_NOT_SHARED = pattern(
    r"path \\?\"(?P<path>/[\w/.-]+)\\?\" is mounted on \\?\"(?P<mount>/[\w/.-]*)\\?\" but it is not a shared mount",
    "but it is not a shared mount",
)

_WRONG_ROOT = pattern(r"lstat (?P<path>/run/nvidia/driver/\S+): no such file or directory", "lstat /run/nvidia/driver/")

_WHOSE_DRIVER = (
    "Run `nvidia-smi` on the host. If it works, the host has its own driver, and the operator looks for it in the "
    "wrong place. If it does not, the node has no driver."
)

_RETRIES = (
    pattern(r"failed to validate the driver, retrying after \d+ seconds", "failed to validate the driver, retrying"),
    pattern(
        r"chroot: failed to run command '?nvidia-smi'?: No such file or directory",
        "chroot: failed to run command",
        of=("validator",),
    ),
)

_NO_SMI = pattern(r"nvidia-smi\\?\": executable file not found in \$PATH", "nvidia-smi")

_AWAITS_TOOLKIT = pattern(
    r"waiting for nvidia container (?:stack|toolkit) to be setup", "waiting for nvidia container", "pod"
)

_AWAITS_DRIVER = pattern(r"waiting for the driver validations to be ready", "waiting for the driver validations", "pod")


def _in_text(*patterns: Pattern) -> matches.Check:
    """Return a check for lines without further evidence. Where the nodes are known, these say more."""

    def check(view: View) -> t.Iterator[Sighting]:
        found = [hit for each in patterns for hit in view.hits(each)] if not view.rows else []
        first = {hit.line.node: hit for hit in reversed(found)}
        for node in dict.fromkeys(hit.line.node for hit in found):
            yield matches.sighting(first[node])

    return check


def _without_toolkit(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_NO_SMI):
        if "toolkit-validation" in f"{hit.line.source} {hit.line.text}":
            yield matches.sighting(hit, "likely")


def _no_driver(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes whose operands wait for a driver that no pod shall bring."""
    for found in _in_text(*_RETRIES)(view):
        yield dataclasses.replace(found, certainty="possible", values={"source": "or it has not started yet"})
    for name, row in view.rows.items():
        waiting, source = row.get("waiting_for") or {}, _own_driver(view, name)
        is_waiting = any(
            str(waiting.get(each, "")).startswith("Init:0/") for each in (order.TOOLKIT_NAME, operands.VALIDATOR.name)
        )
        driver = view.facts(name).get("driver")
        if (
            not source
            or not is_waiting
            or order.DRIVER_NAME in waiting
            or (driver is not None and not driver.get("loaded"))
        ):
            continue
        quotes = matches.fact(f"{source}; {waiting}", "the node and the ClusterPolicy", name)
        yield Sighting(name, "", quotes, "likely" if driver else "possible", {"source": source})


def _own_driver(view: View, name: str) -> str:
    """Return what says that the node's host has a driver of its own, or an empty string."""
    label = operands.DRIVER.deploy_label
    value = objects.labels_of(view.nodes.get(name) or {"metadata": {}}).get(label)
    if value == names.PRE_INSTALLED:
        return f"{label}={value}"
    driver = view.evidence.spec.get("driver") or {}
    return "driver.enabled: false" if driver.get("enabled") is False and not driver.get("useNvidiaDriverCRD") else ""


def _stale_label(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes that count as having a driver on the host, and lack it."""
    label = operands.DRIVER.deploy_label
    for name in view.rows:
        value = objects.labels_of(view.nodes.get(name) or {"metadata": {}}).get(label)
        driver = view.facts(name).get("driver")
        if value == names.PRE_INSTALLED and driver is not None and not driver.get("loaded"):
            quotes = matches.fact(f"{label}={value}, driver.loaded: {driver.get('loaded')}", "node and host", name)
            yield Sighting(name, "", quotes)


RULES = (
    Rule(
        code="ValidatorKnowsNoDriver",
        title="The validator does not find the host's driver",
        severity="failure",
        cause="The operator brings no driver to this node ({source}), and the validator finds none on the host. Either "
        "no driver is loaded, or its files lie where the operator does not look (Talos, NixOS, Gentoo, WSL).",
        remedy="Run `nvidia-smi` on the host. If it fails, install the driver with playbooks/site.yml. If it works, "
        "set hostPaths.driverInstallDir in operator_values to the directory of the driver's files.",
        sources=(f"{_OPERATOR}issues/1687", f"{_OPERATOR}issues/1276", f"{_OPERATOR}issues/487"),
        check=_no_driver,
        patterns=_RETRIES,
        explains=NOT_READY | {"NoNvidiaRuntimeHandler"},
        unlike={"DriverRootWrong": _WHOSE_DRIVER},
    ),
    Rule(
        code="WaitsForDriver",
        title="An operand waits for the driver",
        severity="warning",
        cause="The pod waits until the driver is loaded on its node.",
        remedy="Read the log of the node's pod nvidia-driver-daemonset, or run `nvidia-smi` on a host with a driver of "
        "its own.",
        sources=(f"{_OPERATOR}blob/main/assets/state-container-toolkit/0400_configmap.yaml",),
        check=_in_text(_AWAITS_DRIVER),
        patterns=(_AWAITS_DRIVER,),
        explains=frozenset({"WaitsForToolkit"}),
    ),
    Rule(
        code="WaitsForToolkit",
        title="An operand waits for the toolkit",
        severity="warning",
        cause="The pod waits until the toolkit has set up the container runtime of its node.",
        remedy="Read the logs of the node's pods nvidia-container-toolkit-daemonset and nvidia-operator-validator "
        "(`kubectl logs <pod> --all-containers`).",
        sources=(f"{_OPERATOR}blob/main/assets/gpu-feature-discovery/0500_daemonset.yaml", f"{_OPERATOR}issues/378"),
        check=_in_text(_AWAITS_TOOLKIT),
        patterns=(_AWAITS_TOOLKIT,),
    ),
    Rule(
        code="ToolkitNotInEffect",
        title="The validator's container did not get the driver's programs",
        severity="failure",
        cause="The container that tests the toolkit has no nvidia-smi. The container runtime started it without "
        "NVIDIA's runtime, or NVIDIA's runtime did not find the driver.",
        remedy="Delete the node's pod nvidia-container-toolkit-daemonset: a new one configures the runtime again. If "
        "that does not help, look for nvidia in the output of `containerd config dump` (or `crio config`) on the host.",
        sources=(f"{_OPERATOR}issues/1374",),
        check=_without_toolkit,
        patterns=(_NO_SMI,),
        explains=NOT_READY | {"WaitsForToolkit"},
        unlike={"ValidatorNewerThanDriver": TRY_RUNTIME, "ToolkitRestartsRuntime": COUNT_RESTARTS},
    ),
    Rule(
        code="PreInstalledLabelStale",
        title="A node is labelled as having its own driver, but lacks one",
        severity="failure",
        cause=f"The label {operands.DRIVER.deploy_label}={names.PRE_INSTALLED} keeps the operator's driver away, and "
        "the host has no driver loaded.",
        remedy=f"Run `kubectl label node <node> {operands.DRIVER.deploy_label}=true --overwrite`, so that the operator "
        "brings its driver, or install one on the host (role host_driver).",
        sources=(f"{_OPERATOR}issues/398",),
        check=_stale_label,
        explains=NOT_READY,
    ),
    Rule(
        code="DriverOnHostAndInContainer",
        title="The host has a driver, and the operator brings another one",
        severity="warning",
        cause="The operator's driver pod has found a driver on the host, so it leaves that driver in place.",
        remedy="If all hosts have a driver, set driver.enabled: false in operator_values. If the operator should bring "
        "the driver, remove that of the host: playbooks/site.yml with gpuops_driver: container and "
        "host_driver_remove: true.",
        sources=(
            f"{_OPERATOR}issues/381",
            "https://github.com/NVIDIA/k8s-driver-manager/blob/main/cmd/driver-manager/main.go",
        ),
        check=matches.of_operands(_FOUND_HOST_DRIVER),
        patterns=(_FOUND_HOST_DRIVER,),
        explains=frozenset({"OperandWaiting", "HostPreflightHostDriver"}),
    ),
    Rule(
        code="ValidatorArchitecture",
        title="The validator's test was not built for this GPU",
        severity="failure",
        cause="The validator's CUDA test does not contain code for this GPU. The GPU is newer or older than those that "
        "this release of the operator supports.",
        remedy="Use a release of the operator that supports the GPU (playbooks/upgrade_operator.yml), or skip the "
        "test with WITH_WORKLOAD=false in validator.cuda.env of operator_values, and run playbooks/site.yml.",
        sources=("https://github.com/NVIDIA/cuda-samples/issues/170", f"{_OPERATOR}issues/2842"),
        check=matches.of_operands(_NO_KERNEL),
        patterns=(_NO_KERNEL,),
        explains=NOT_READY,
    ),
    Rule(
        code="ValidatorNewerThanDriver",
        title="The CUDA test does not work with the driver that it gets",
        severity="failure",
        cause="The driver is older than the CUDA version of the test, or the container got no driver, because it did "
        "not run with the NVIDIA runtime.",
        remedy="Run a pod with runtimeClassName nvidia and the command nvidia-smi on the node. If it works, the driver "
        "is too old: run playbooks/upgrade_driver.yml. If not, delete the node's pod "
        "nvidia-container-toolkit-daemonset, which configures the runtime again.",
        sources=(f"{_OPERATOR}issues/277", f"{_OPERATOR}issues/389", f"{_OPERATOR}pull/1017"),
        check=matches.of_operands(_INSUFFICIENT, certainty="possible"),
        patterns=(_INSUFFICIENT,),
        explains=NOT_READY,
        unlike={"ToolkitNotInEffect": TRY_RUNTIME, "DevicePluginSeesNoDriver": TRY_RUNTIME},
    ),
    Rule(
        code="CUDARefusesTest",
        title="CUDA cannot use the GPU for the validator's test",
        severity="failure",
        cause="CUDA reports the GPU as busy or unavailable. A process may have the GPU for itself (compute mode), a "
        "vGPU may have no licence, MIG may be on without MIG devices, or the test may not support so old a GPU.",
        remedy="Run `nvidia-smi` on the host for processes and MIG, `nvidia-smi -q -d COMPUTE` for the compute mode, "
        "and `nvidia-smi -q` for License Status of a vGPU.",
        sources=(f"{_OPERATOR}issues/2842", f"{_OPERATOR}issues/129", "https://github.com/Azure/AKS/issues/4870"),
        check=matches.of_operands(_BUSY, certainty="possible"),
        patterns=(_BUSY,),
        explains=NOT_READY,
    ),
    Rule(
        code="DeviceLinksFail",
        title="The validator cannot create links for the GPU's device files",
        severity="failure",
        cause="The validator cannot create links to the GPU's device files below /dev/char. Either the driver's device "
        "files are missing or the driver is not loaded, or this release of the operator does not know the devices of "
        "the driver. A container runtime with systemd cgroups needs the links.",
        remedy="Run nvidia-smi and ls -l /dev/nvidia* on the host. If a file is missing, the driver is the cause: read "
        "journalctl -k -g NVRM. If all are there, update the operator (playbooks/upgrade_operator.yml). Only where the "
        "runtime uses CDI or cgroupfs, and needs no links, DISABLE_DEV_CHAR_SYMLINK_CREATION=true in "
        "validator.driver.env of operator_values turns them off.",
        sources=(f"{_OPERATOR}issues/430", f"{_OPERATOR}issues/539"),
        check=matches.of_operands(_SYMLINKS, certainty="likely"),
        patterns=(_SYMLINKS,),
        explains=NOT_READY,
    ),
    Rule(
        code="MountNotShared",
        title="A mount of the host is not shared",
        severity="failure",
        cause="Mounts below {path} must appear in all operands. They do not, because the mount {mount} of the host is "
        "not shared.",
        remedy="Run `mount --make-rshared {mount}` on the host. Do the same at each boot, for example with a systemd "
        "unit before the kubelet.",
        sources=(f"{_OPERATOR}issues/315",),
        check=matches.of_operands(_NOT_SHARED),
        patterns=(_NOT_SHARED,),
        explains=NOT_READY,
    ),
    Rule(
        code="DriverRootWrong",
        title="An operand looks for the driver's files in the wrong place",
        severity="failure",
        cause="{path} does not exist. The operand looks for the operator's driver below /run/nvidia/driver, and "
        "either the host has a driver of its own, or the driver's container has ended.",
        remedy="If `nvidia-smi` works on the host, set driver.enabled: false in operator_values, run "
        "playbooks/site.yml, and delete the node's pod nvidia-container-toolkit-daemonset. Otherwise read the log of "
        "the driver's pod.",
        sources=(f"{_OPERATOR}issues/425",),
        check=matches.of_operands(_WRONG_ROOT, certainty="likely"),
        patterns=(_WRONG_ROOT,),
        explains=NOT_READY,
        unlike={"ValidatorKnowsNoDriver": _WHOSE_DRIVER},
    ),
)
