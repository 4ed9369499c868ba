# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The container runtime does not start, or not with NVIDIA's runtime: refused configurations, programs, labels."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_DROP_IN = (
    pattern(
        r"drop-in config version (?P<drop_in>\d+) higher than root config version (?P<root>\d+)",
        "drop-in config version",
    ),
    pattern(
        r"expected containerd config version equal to or less than `?(?P<root>\d+)`?, got `?(?P<drop_in>\d+)",
        "expected containerd config version",
    ),
)
_UNKNOWN_VERSION = pattern(
    r"(?:unsupported|unknown) config version:? ?(?P<version>\S{0,20})", "config version", of=("toolkit", "containerd")
)
_REFUSED = (
    pattern(
        r"containerd: (?P<why>(?:failed to (?:load|unmarshal) TOML|toml: |invalid disabled plugin URI).{1,200})",
        "containerd: ",
    ),
    pattern(r"failed to load TOML from (?P<why>\S{1,120}: .{1,200})", "failed to load toml"),
)
_NO_TYPE = pattern(r"container\.Runtime\.Name must be set", "container.runtime.name must be set")
_NO_PROGRAM = (
    pattern(
        r"unable to (?:restart|setup|configure|reload)\b(?!.{0,300} config dump\]).{0,300}exit status 127",
        "exit status 127",
        of=("toolkit",),
    ),
    pattern(
        r"chroot: failed to run command .?(?P<program>systemctl|containerd|crio|dockerd)\b",
        "chroot: failed to run command",
    ),
)
_NO_DUMP = pattern(
    r"failed to run command chroot \[(?P<root>\S+) (?P<program>[\w.-]+) config dump\]: exit status 127",
    "config dump]: exit status 127",
)
_NO_OCI = pattern(
    r"exec: \\*\"(?P<program>runc|crun|/[\w/.-]*nvidia-container-runtime[\w.-]*|nvidia-container-runtime[\w.-]*)\\*\": "
    r"(?:executable file not found|stat .{0,120}no such file)",
    "exec: ",
)
_RELABEL = (
    pattern(r"(?:relabel|lsetxattr|SELinux relabel\w*)\b.{0,300}operation not supported", "operation not supported"),
    pattern(r"failed to set file label .{0,200}(?:operation not supported|not supported)", "failed to set file label"),
)

_FOLLOWS = NOT_READY | {"WaitsForToolkit", "ValidatorKnowsNoDriver", "NoNvidiaRuntimeHandler"}
_TOOLKIT = "https://github.com/NVIDIA/nvidia-container-toolkit/"
_CONTAINERD = "https://github.com/containerd/containerd/blob/301026e58/cmd/containerd/server/config/config.go"

RULES = (
    Rule(
        code="RuntimeConfigVersionsDiffer",
        title="containerd refuses a file of another configuration version",
        severity="failure",
        cause="A file that containerd imports has configuration version {drop_in}, which is higher than {root}, the "
        "version of config.toml or the highest that this containerd knows. So containerd does not start, and with it "
        "no pod of the node. The toolkit writes such a file from the output of containerd config dump.",
        remedy="Set RUNTIME_CONFIG_SOURCE=file in toolkit.env of operator_values and run playbooks/site.yml, so that "
        "the toolkit takes the version of config.toml. On a node that is down, move the toolkit's file out of "
        "/etc/containerd/conf.d and restart containerd: containers that run go on.",
        sources=("https://github.com/NVIDIA/aicr/issues/1688", "https://github.com/NVIDIA/nvkind/pull/76", _CONTAINERD),
        patterns=_DROP_IN,
        explains=_FOLLOWS | seen.NODE_DOWN | {"RuntimeConfigRefused"},
    ),
    Rule(
        code="RuntimeConfigRefused",
        title="containerd cannot read its configuration",
        severity="failure",
        cause="containerd does not start, because it cannot read its configuration: {why}.",
        remedy="Run containerd config dump on the host: it names the file and changes nothing. Correct that file, or "
        "move the toolkit's file out of the folder that config.toml imports, and restart containerd.",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/143", _CONTAINERD),
        patterns=_REFUSED,
        explains=_FOLLOWS | seen.NODE_DOWN,
    ),
    Rule(
        code="ToolkitKnowsNoConfigVersion",
        title="The toolkit does not know the version of the runtime's configuration",
        severity="failure",
        cause="The container toolkit is to change containerd's configuration and does not know its version {version}. "
        "The toolkit is older than this containerd.",
        remedy="Use a newer toolkit: run playbooks/upgrade_operator.yml, or set toolkit.version in operator_values and "
        "run playbooks/site.yml.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/2060",
            f"{_TOOLKIT}tree/d34b3046/pkg/config/engine/containerd",
        ),
        patterns=(_UNKNOWN_VERSION,),
        explains=_FOLLOWS,
    ),
    Rule(
        code="RuntimeTypeMissing",
        title="NVIDIA's handler in containerd has no runtime_type",
        severity="failure",
        cause="containerd's configuration defines the handler without runtime_type, so containerd cannot create its "
        "containers. The toolkit wrote its file for another configuration version than that of config.toml.",
        remedy="Run containerd config dump on the host and look at the handler nvidia. Update the toolkit "
        "(toolkit.version in operator_values, and playbooks/site.yml); until then, add runtime_type = "
        '"io.containerd.runc.v2" to the handler.',
        sources=(f"{_TOOLKIT}issues/1956",),
        patterns=(_NO_TYPE,),
        certainty="likely",
        explains=_FOLLOWS,
    ),
    Rule(
        code="RuntimeRestartFails",
        title="The toolkit cannot restart the container runtime",
        severity="failure",
        cause="The toolkit has changed the runtime's configuration and cannot restart the runtime: the program that it "
        "calls on the host does not exist there (exit status 127).",
        remedy="Restart the runtime by signal rather than by systemd: set RUNTIME_RESTART_MODE=signal in toolkit.env "
        "of operator_values, and run playbooks/site.yml. If the host keeps its runtime elsewhere (k3s, RKE2, MicroK8s, "
        "Talos), set CONTAINERD_CONFIG and CONTAINERD_SOCKET there as well.",
        sources=(f"{_TOOLKIT}tree/d34b3046/cmd/nvidia-ctk-installer/container",),
        patterns=_NO_PROGRAM,
        certainty="likely",
        explains=_FOLLOWS,
    ),
    Rule(
        code="RuntimeConfigNotShown",
        title="The toolkit cannot ask the host's container runtime for its configuration",
        severity="failure",
        cause="The toolkit runs {program} config dump on the host, and the host has no {program} in its PATH (exit "
        "status 127). k3s, RKE2, MicroK8s and k0s keep it elsewhere, and operators from v24.9 on ask in this way.",
        remedy="Run chroot /host {program} --version in a privileged pod, or {program} --version on the host. Then set "
        "RUNTIME_CONFIG_SOURCE=file in toolkit.env of operator_values, CONTAINERD_CONFIG and CONTAINERD_SOCKET to the "
        "files of your distribution, and run playbooks/site.yml. Releases of the toolkit before that option need a "
        "newer operator (playbooks/upgrade_operator.yml).",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/1099",
            "https://github.com/NVIDIA/gpu-operator/issues/1109",
            "https://github.com/NVIDIA/gpu-operator/issues/1323",
        ),
        patterns=(_NO_DUMP,),
        explains=_FOLLOWS,
    ),
    Rule(
        code="RuntimeProgramMissing",
        title="A program of the container runtime is missing",
        severity="failure",
        cause="The container runtime starts {program}, and the host has no such program.",
        remedy="Look for it with command -v on the host. If it is NVIDIA's, delete the node's pod "
        "nvidia-container-toolkit-daemonset, so that a new one writes it; if it is runc or crun, install the package "
        "again.",
        sources=("https://github.com/containerd/containerd/issues/6464",),
        patterns=(_NO_OCI,),
        certainty="likely",
        explains=_FOLLOWS | seen.NODE_DOWN,
    ),
    Rule(
        code="RelabelNotSupported",
        title="A volume takes no SELinux labels",
        severity="failure",
        cause="The container runtime is to give a volume of the pod an SELinux label, and its file system takes none "
        "(such as NFS, or a part of /run or /dev).",
        remedy="Let the pod not ask for a label of its own on this volume: with an operand, update the operator "
        "(playbooks/upgrade_operator.yml); in a pod of yours, remove seLinuxOptions or use a file system with labels.",
        sources=("https://github.com/cri-o/cri-o/tree/f954a17e5/internal",),
        patterns=_RELABEL,
        certainty="likely",
        explains=NOT_READY,
    ),
)
