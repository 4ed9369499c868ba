# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""MIG and sharing: layouts and configurations that are missing, refused, stuck, or not in effect.

Source: NVIDIA/mig-parted v0.15.0 and NVIDIA/k8s-device-plugin v0.20.0.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PARTED = "https://github.com/NVIDIA/mig-parted/blob/main/"
_MIG = frozenset({"MIGFailed", "MIGChange", "MIGNotApplied", "NoAllocatableGPUs", "OperandsLeftPaused"})
_RETRY = "playbooks/mig.yml drains the node, repairs what a stuck change has left, and applies the layout again."

# The MIG manager

_NO_LAYOUT = pattern(r"selected mig-config not present: (?P<layout>[\w.+-]+)", "selected mig-config not present")
_BAD_FILE = pattern(
    r"(?<!unable to parse config file: )error parsing config file: (?P<why>(?:unmarshal|read) error: .{1,200})",
    "error parsing config file",
    "pod",
)
_BUSY = pattern(
    r"In use by another client|devices? (?:is|are) currently being used by one or more other processes",
    "use",
)
_NO_RESET = pattern(r"Resetting GPU (?P<gpu>[0-9a-fA-F:.]+) is not supported", "resetting gpu")
_NOT_ON = pattern(
    r"unable to apply MIG config with MIG mode disabled|MIG mode change did not take effect after rebooting", "mig"
)
_NOT_CAPABLE = pattern(r"cannot set MIG (?:config|mode) on non MIG-capable GPU", "on non mig-capable gpu")
_DOES_NOT_FIT = pattern(
    r"(?:error creating GPU instance|Error getting GPU instance profile info) for '(?P<profile>[^']+)': "
    r"(?P<why>Insufficient Resources|Not Supported|ERROR_INSUFFICIENT_RESOURCES|ERROR_NOT_SUPPORTED)",
    "gpu instance",
)
_REFUSED = pattern(
    r"Unable to validate the selected MIG configuration", "unable to validate the selected mig configuration"
)
_MISNAMED = pattern(
    r"Unsupported MIG Device specified (?P<profile>\S+), expected (?P<right>\S+) instead", "unsupported mig device"
)
_PENDING = pattern(r"At least one mode change pending", "at least one mode change pending")
_STAYS = pattern(
    r"(?P<pod>device-plugin|gpu-feature-discovery|dcgm-exporter|dcgm|third-party gpu client) pods? did not shutdown",
    "did not shutdown",
)


_EMPTY_TABLE = pattern(r"^\|\s+No MIG devices found\s+\|\s*$", "no mig devices found")
"""In the table of nvidia-smi, which has this part only if a GPU is in MIG mode."""


def _busy(view: View) -> t.Iterator[Sighting]:
    """Yield the GPUs that a process holds, where the MIG manager or mig-parted says it, or the process is unknown."""
    for hit in view.hits(_BUSY):
        if hit.line.kind != "pod" or "mig-manager" in hit.line.source:
            yield matches.sighting(hit)


def _pending(view: View) -> t.Iterator[Sighting]:
    """Yield the GPUs whose MIG mode will change with the next reset or boot."""
    for name, gpu, mig in _mig_of(view):
        if mig.get("pending") is not None and mig["mode"] != mig["pending"]:
            text = f"mig.mode: {_word(mig['mode'])}, mig.pending: {_word(mig['pending'])}"
            quotes = matches.fact(text, f"facts of the host, GPU {gpu}", name)
            yield Sighting(name, f"GPU {gpu}", quotes, "certain", {"mode": _word(mig["pending"])})
    for hit in view.hits(_NO_RESET):
        found = matches.sighting(hit)
        yield Sighting(found.node, f"GPU {hit.values['gpu']}", found.quotes, "certain", {"mode": "as wanted"})
    for hit in view.hits(_PENDING):
        row = view.rows.get(hit.line.node)
        if row is None or row["mig"]["state"] == "failed":
            found = matches.sighting(hit)
            yield Sighting(found.node, found.object, found.quotes, "likely", {"mode": "as wanted"})


def _mig_of(view: View) -> t.Iterator[tuple[str, str, Json]]:
    """Yield the node, the address and the facts about MIG of each GPU that has them."""
    for name in sorted(view.evidence.hosts):
        for gpu in view.facts(name).get("gpus") or []:
            if (gpu.get("mig") or {}).get("mode") is not None:
                yield name, str(gpu["pci_address"]), gpu["mig"]


def _word(is_on: bool) -> str:
    return "on" if is_on else "off"


def _without_instances(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes whose GPUs are in MIG mode and have no MIG devices, although no change is under way."""
    found: dict[str, list[str]] = {}
    for name, gpu, mig in _mig_of(view):
        if (
            mig["mode"]
            and mig.get("pending") is not False
            and mig.get("instances") == []
            and not mig.get("gpu_instances")
        ):
            found.setdefault(name, []).append(gpu)
    for name, gpus in found.items():
        row = view.rows.get(name)
        if row is None or row["mig"]["state"] not in names.MIG_CHANGING:
            source = f"facts of the host, GPU {first_few(gpus)}"
            quotes = matches.fact("mig.mode: on, mig.instances: []", source, name)
            yield Sighting(name, "", quotes, "certain", {"count": str(len(gpus))})
    for hit in view.hits(_EMPTY_TABLE):
        if hit.line.node not in found:
            yield matches.sighting(hit, "likely", count="some")


def _wedged(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes whose MIG manager has given up, with a state that says that it works."""
    said = {hit.line.node: matches.sighting(hit) for hit in view.hits(_STAYS)}
    for name, found in said.items():
        row = view.rows.get(name)
        if row is None or row["mig"]["state"] == "pending":
            yield Sighting(name, found.object, found.quotes, "certain", found.values)


RULES = (
    Rule(
        code="MIGLayoutUnknown",
        title="A MIG layout does not exist",
        severity="failure",
        cause=f"The node's label {names.MIG_CONFIG} names the layout {{layout}}, and the MIG manager's list does not "
        "have it.",
        remedy="Choose a layout of the ConfigMap <node>-mig-config (the names differ with the GPU model), or write "
        "your own in mig_custom_layouts, and run playbooks/mig.yml.",
        sources=(f"{_PARTED}cmd/nvidia-mig-parted/assert/assert.go",),
        patterns=(_NO_LAYOUT,),
        explains=_MIG | {"MIGLayoutRefused"},
    ),
    Rule(
        code="MIGLayoutsInvalid",
        title="The list of MIG layouts is invalid",
        severity="failure",
        cause="The MIG manager cannot read its list of layouts: {why}. One bad entry makes all layouts unusable.",
        remedy="Correct the ConfigMap that migManager.config.name of the ClusterPolicy names. If you write layouts in "
        "mig_custom_layouts instead, playbooks/mig.yml checks them first.",
        sources=(f"{_PARTED}cmd/nvidia-mig-parted/assert/assert.go", f"{_PARTED}api/spec/v1/spec.go"),
        patterns=(_BAD_FILE,),
        explains=_MIG | {"MIGLayoutRefused"},
    ),
    Rule(
        code="MIGLayoutRefused",
        title="The MIG manager refuses a layout",
        severity="failure",
        cause="The layout that the node's label names does not exist, or the list of layouts is invalid.",
        remedy=f"Compare `kubectl get nodes -L {names.MIG_CONFIG}` with the names in the ConfigMap <node>-mig-config, "
        "or in that of migManager.config.name. playbooks/mig.yml checks both before it begins.",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/262",),
        patterns=(_REFUSED,),
        explains=_MIG,
    ),
    Rule(
        code="MIGProfileMisnamed",
        title="A MIG profile has another name on this GPU",
        severity="failure",
        cause="The layout asks for {profile}, and this GPU calls it {right}.",
        remedy="Write a layout with {right} in mig_custom_layouts and run playbooks/mig.yml, or use a newer release of "
        "the operator (playbooks/upgrade_operator.yml).",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/351",),
        patterns=(_MISNAMED,),
        explains=_MIG,
    ),
    Rule(
        code="MIGBusy",
        title="A process uses the GPU that MIG should divide",
        severity="failure",
        cause="A process, or the kernel module nvidia_drm, uses the GPUs, so their MIG devices cannot be changed.",
        remedy="Stop what `nvidia-smi` and `fuser -v /dev/nvidia*` show on the host, such as a display server or "
        "nvidia-dcgm, and unload nvidia_drm. " + _RETRY,
        sources=("https://github.com/NVIDIA/mig-parted/issues/181", "https://github.com/NVIDIA/DCGM/issues/95"),
        check=_busy,
        patterns=(_BUSY,),
        explains=_MIG,
    ),
    Rule(
        code="MIGRebootPending",
        title="MIG mode changes only with a reset or a reboot",
        severity="failure",
        cause="The GPU's MIG mode will be {mode} after the next reset. That reset has not happened yet.",
        remedy="Drain the node (`kubectl drain`) and reboot it. The GPUs of a virtual machine often cannot be reset "
        "otherwise. To let the MIG manager reboot nodes, set WITH_REBOOT=true in migManager.env, and run "
        "playbooks/mig.yml with mig_allow_reboot: true and mig_evict: all.",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/1606", f"{_PARTED}cmd/nvidia-mig-parted/apply/mode.go"),
        check=_pending,
        patterns=(_NO_RESET, _PENDING),
        explains=_MIG | {"MIGModeUnchanged", "MIGBusy"},
    ),
    Rule(
        code="MIGModeUnchanged",
        title="MIG mode could not be changed",
        severity="failure",
        cause="The MIG manager could not switch the GPU to MIG mode, so it cannot create MIG devices.",
        remedy="Drain the node and reboot it. The log of the MIG manager's pod says what used the GPU. " + _RETRY,
        sources=(f"{_PARTED}cmd/nvidia-mig-parted/apply/config.go", f"{_PARTED}pkg/mig/reconfigure/reconfigure.go"),
        patterns=(_NOT_ON,),
        explains=_MIG,
    ),
    Rule(
        code="MIGNotCapable",
        title="A layout divides a GPU that does not support MIG",
        severity="failure",
        cause="The node has a GPU that does not support MIG, and the node's layout divides it.",
        remedy=f"Remove the label: `kubectl label node <node> {names.MIG_CONFIG}-`. If only some GPUs of the node "
        "support MIG, name their model in device-filter of the layout.",
        sources=(f"{_PARTED}cmd/nvidia-mig-parted/apply/mode.go",),
        patterns=(_NOT_CAPABLE,),
        explains=_MIG,
    ),
    Rule(
        code="MIGLayoutDoesNotFit",
        title="A MIG layout does not fit on the GPU",
        severity="failure",
        cause="The GPU has no room for a MIG device {profile} beside the others of the layout ({why}).",
        remedy="Correct the layout in mig_custom_layouts, and run playbooks/mig.yml: it checks that the devices fit on "
        "this model before it begins.",
        sources=(f"{_PARTED}pkg/mig/config/config.go",),
        patterns=(_DOES_NOT_FIT,),
        explains=_MIG,
    ),
    Rule(
        code="MIGStuck",
        title="The MIG manager has given up without saying so",
        severity="failure",
        cause="A pod of {pod} did not end within 5 minutes, so the MIG manager gave up. The node's state stays "
        "pending, and its operands stay paused.",
        remedy=_RETRY,
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/2833",
            f"{_PARTED}pkg/mig/reconfigure/reconfigure.go",
        ),
        check=_wedged,
        patterns=(_STAYS,),
        explains=_MIG | {"OperandsPaused", "NotScheduled", "StateNotReady"},
    ),
    Rule(
        code="MIGWithoutInstances",
        title="GPUs are in MIG mode and have no MIG devices",
        severity="failure",
        cause="MIG is on for {count} GPUs of the node, and they have no MIG devices, so pods cannot use them.",
        remedy=f"Apply a layout with playbooks/mig.yml, or {names.MIG_CONFIG}={names.MIG_DISABLED} to turn MIG off.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/603",
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
        ),
        check=_without_instances,
        patterns=(_EMPTY_TABLE,),
        explains=NOT_READY
        | _MIG
        | {"MIGInvalid", "UnhealthyGPUs", "MIGMixedUnderSingle", "MIGDevicesMissing", "CUDARefusesTest"},
    ),
)

# The device plugin and its configuration
