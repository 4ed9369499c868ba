# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""CDI specifications that do not fit: hooks that the host lacks or that are of another release, and empty devices."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_UNKNOWN_HOOK = (
    pattern(r"No help topic for '(?P<hook>[a-z][\w-]+)'", "no help topic for '"),
    pattern(r"unknown (?:sub)?command \\?\"(?P<hook>[a-z][\w-]+)\\?\" for \\?\"nvidia-c(?:tk|di-hook)", "for "),
)
"""urfave/cli, with which nvidia-ctk and nvidia-cdi-hook are made, answers a subcommand that it does not have so."""
_EMPTY = pattern(
    r"failed add device \\?\"(?P<device>[^\"\\]+)\\?\": invalid device, empty device edits", "empty device edits"
)
_LINK = (
    pattern(r"failed to (?:create|check) (?:symlinks?|link|if link exists)\b.{0,200}unexpected link target", "target"),
    pattern(r"'failed to create link'", "'failed to create link'"),
    pattern(r"\bNVIDIA (?:CDI Hook|Container Toolkit CLI|Container Runtime Hook) version 1\.17\.0\b", "version 1.17.0"),
)
_HOOK_FAILS = pattern(
    r"error running createContainer hook #?(?P<number>\d+): exit status (?P<exit>[1-9]\d*), stdout: ?,? ?"
    r"(?!.*No help topic)",
    "error running createcontainer hook",
)
_CLAIM = pattern(r"unable to create CDI spec file for claim: (?P<why>(?!.*empty device edits).{3,160})", "for claim: ")
_DISCOVERY = pattern(r"invalid discovery mode: (?P<mode>[\w-]+)", "invalid discovery mode: ")

_TOOLKIT = "https://github.com/NVIDIA/nvidia-container-toolkit/"
_COMMANDS = f"{_TOOLKIT}tree/d34b3046/cmd/nvidia-cdi-hook"
_FOLLOWS = NOT_READY | {"ToolkitHookFails", "CDIRefreshFails"}

RULES = (
    Rule(
        code="CDIHookUnknown",
        title="The CDI specification names a hook that the toolkit does not have",
        severity="failure",
        cause="The CDI specification calls the hook {hook}, and the nvidia-ctk or nvidia-cdi-hook that it calls does "
        "not know it: that program is older than what has written the specification (the operator, the device plugin, "
        "the DRA driver, or another toolkit).",
        remedy="Run nvidia-ctk --version on the node, and bring the toolkit of the host to the release of the writer "
        "(host_driver_toolkit: true and playbooks/site.yml; with the operator's toolkit, "
        "playbooks/upgrade_operator.yml). Then write the specifications again: nvidia-ctk cdi generate "
        "--output=/etc/cdi/nvidia.yaml.",
        sources=(_COMMANDS, "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/568"),
        patterns=_UNKNOWN_HOOK,
        certainty="likely",
        explains=_FOLLOWS | {"CDIHookFails"},
    ),
    Rule(
        code="CDIDevicesEmpty",
        title="A CDI specification would have a device without files",
        severity="failure",
        cause="Whatever writes the CDI specification finds no file for the device {device}: the driver's libraries and "
        "device files are not there, or not where it looks. It may have started before the driver, or have kept what "
        "it read of a driver or a toolkit that was replaced since.",
        remedy="Run nvidia-smi on the node. If it works, start the writer again: delete the pod of the DRA driver's "
        "kubelet plugin or of the device plugin, or run systemctl restart nvidia-cdi-refresh. If it fails, repair the "
        "driver first (playbooks/diagnose.yml).",
        sources=(
            "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1144",
            "https://github.com/Azure/AgentBaker/pull/9150",
        ),
        patterns=(_EMPTY,),
        certainty="likely",
        explains=_FOLLOWS | {"ClaimSpecNotWritten"},
    ),
    Rule(
        code="CDILinkRefused",
        title="The toolkit's hook fails at a link that exists",
        severity="failure",
        cause="The hook create-symlinks of the container toolkit fails where the image already has the link. That is a "
        "fault of release 1.17.0.",
        remedy="Update the container toolkit to 1.17.1 or newer: playbooks/upgrade_operator.yml, or "
        "playbooks/site.yml with host_driver_toolkit: true.",
        sources=(
            f"{_TOOLKIT}issues/772",
            "https://github.com/podman-container-tools/podman/issues/24502",
            f"{_TOOLKIT}blob/v1.17.0/cmd/nvidia-cdi-hook/create-symlinks/create-symlinks.go",
        ),
        patterns=_LINK,
        certainty="likely",
        explains=_FOLLOWS | {"CDIHookFails"},
    ),
    Rule(
        code="CDIHookFails",
        title="A hook of the CDI specification fails",
        severity="failure",
        cause="The createContainer hook number {number} ended with exit status {exit}. The hooks of NVIDIA's CDI "
        "specification make links (create-symlinks), renew the linker's cache (update-ldcache), and hide devices.",
        remedy="Run nvidia-ctk --version on the node: releases 1.17.0 and those after it have had faults in "
        "create-symlinks, so update the toolkit first. Then read the hooks in /etc/cdi and /var/run/cdi: the number "
        "counts from the first one of the container.",
        sources=(_COMMANDS, f"{_TOOLKIT}issues/795"),
        patterns=(_HOOK_FAILS,),
        certainty="possible",
        explains=_FOLLOWS,
    ),
    Rule(
        code="ClaimSpecNotWritten",
        title="A DRA driver cannot write the CDI specification of a claim",
        severity="failure",
        cause="The DRA driver has prepared the devices of a claim and cannot write its CDI specification: {why}.",
        remedy="Read the log of the driver's kubelet plugin on the node of the pod, and ls -l /var/run/cdi there. The "
        "folder (cdiRoot in the driver's values) must be mounted from the host and be writable.",
        sources=(
            "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin",
            "https://github.com/kubernetes/kubernetes/issues/124090",
        ),
        patterns=(_CLAIM,),
        certainty="likely",
    ),
    Rule(
        code="CDIModeForGenerate",
        title="nvidia-ctk is told a mode by which it cannot look for devices",
        severity="failure",
        cause="nvidia-ctk cdi generate is to look for devices by the mode {mode}, which it does not have. {mode} is a "
        "mode of the container runtime: toolkit 1.18.0 takes it from nvidia-container-runtime.mode in "
        "/etc/nvidia-container-runtime/config.toml, and any release from NVIDIA_CTK_CDI_GENERATE_MODE.",
        remedy="Run nvidia-ctk --version on the host, and update toolkit 1.18.0 to 1.18.1 or newer. With another "
        "release, set NVIDIA_CTK_CDI_GENERATE_MODE=auto in /etc/nvidia-container-toolkit/nvidia-cdi-refresh.env. Then "
        "run systemctl restart nvidia-cdi-refresh.",
        sources=(f"{_TOOLKIT}issues/1376", f"{_TOOLKIT}blob/v1.18.0/cmd/nvidia-ctk/cdi/generate/generate.go"),
        patterns=(_DISCOVERY,),
        certainty="likely",
        explains=_FOLLOWS,
    ),
)
