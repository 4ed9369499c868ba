# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The systemd unit that restores the layout at every boot, before anything uses the GPUs.

An Ampere GPU keeps its mode over a reboot and loses its instances; later GPUs lose both. The unit runs a small shell
script with nvidia-smi, which belongs to the driver. It only creates what is missing, and fails with the reason in the
journal if the GPUs have other instances.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import compute_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.plan import InstanceTarget
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SERVICE = "gpuops-mig-partition.service"
UNIT = f"/etc/systemd/system/{SERVICE}"
SCRIPT = "/etc/gpuops/mig_partition/restore.sh"
_WANTS = f"/etc/systemd/system/multi-user.target.wants/{SERVICE}"
_HEADER = "# Written by gpuops.nvidia.mig_partition. Do not edit: change the layout in the inventory.\n"
_LINE = re.compile(r"^restore (GPU-\S+)((?: \S+)*)$", re.MULTILINE)

_BEFORE = (
    "containerd.service crio.service docker.service kubelet.service k3s.service k3s-agent.service rke2-server.service "
    "rke2-agent.service slurmd.service nvidia-dcgm.service dcgm.service dcgm-exporter.service "
    "nvidia-cdi-refresh.service"
)
UNIT_TEXT = f"""{_HEADER}
[Unit]
Description=Restore the MIG instances of the GPUs
After=systemd-modules-load.service nvidia-persistenced.service nvidia-fabricmanager.service
Before={_BEFORE}

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=600
ExecStart=/bin/sh {SCRIPT}

[Install]
WantedBy=multi-user.target
"""

_SCRIPT_HEAD = (
    "#!/bin/sh\n"
    + _HEADER
    + r"""# Each line at the end is a GPU and its instances: profile:start, with /compute instances if it is divided.
export LC_ALL=C
failed=0

fail() {
    echo "gpuops-mig-partition: $1" >&2
    failed=1
}

# Prints "profile:start number" of each GPU instance.
gpu_instances() {
    nvidia-smi mig -i "$1" -lgi 2>/dev/null | awk '{
        for (i = 1; i + 4 <= NF; i++)
            if ($i == "MIG") { split($(i + 4), place, ":"); print $(i + 1) ":" place[1], $(i + 3) }
    }'
}

# Prints "number profile" of each compute instance, with the number of its GPU instance.
compute_instances() {
    nvidia-smi mig -i "$1" -lci 2>/dev/null | awk '{
        for (i = 2; i < NF; i++) if ($i == "MIG") print $(i - 1), $(i + 1)
    }'
}

joined() {
    sort | paste -s -d , -
}

# Prints the number of the GPU instance at a place, from what gpu_instances printed.
number_of() {
    printf '%s\n' "$2" | awk -v place="$1" '$1 == place { print $2; exit }'
}

mode() {
    nvidia-smi -i "$1" --query-gpu=mig.mode.current --format=csv,noheader 2>&1
}

enable() {
    [ "$(mode "$1")" = Enabled ] && return 0
    said=$(nvidia-smi -i "$1" -mig 1 2>&1)
    [ "$(mode "$1")" = Enabled ] && return 0
    fail "MIG mode of $1 cannot be turned on: $said"
    return 1
}

create() {
    [ -n "$2" ] || return 0
    said=$(nvidia-smi mig -i "$1" -cgi "${2#,}" $3 2>&1) && return 0
    fail "the GPU instances ${2#,} of $1 cannot be created: $said"
    return 1
}

# Creates the GPU instances that are missing, whole ones with their compute instance. Refuses if there are others.
create_gpu_instances() {
    gpu=$1 whole= divided=
    shift
    existing=$(gpu_instances "$gpu")
    for instance in "$@"; do
        place=${instance%%/*}
        if [ -z "$(number_of "$place" "$existing")" ]; then
            case $instance in */*) divided=$divided,$place ;; *) whole=$whole,$place ;; esac
        fi
    done
    for place in $(printf '%s\n' "$existing" | cut -d ' ' -f 1); do
        case " $* " in
            *" $place "* | *" $place/"*) ;;
            *) fail "$gpu has the GPU instance $place, which the layout lacks"; return 1 ;;
        esac
    done
    create "$gpu" "$whole" -C && create "$gpu" "$divided" ""
}

# Creates the compute instances that are missing, unless a GPU instance has others.
create_compute_instances() {
    gpu=$1
    shift
    existing=$(gpu_instances "$gpu")
    compute=$(compute_instances "$gpu")
    for instance in "$@"; do
        place=${instance%%/*}
        number=$(number_of "$place" "$existing")
        found=$(printf '%s\n' "$compute" | awk -v number="$number" '$1 == number { print $2 }' | joined)
        case $instance in
            */none) wanted= list= ;;
            */*) list=${instance#*/} wanted=$(printf '%s\n' "${instance#*/}" | tr , '\n' | joined) ;;
            *) wanted=${place%:*} list= ;;
        esac
        if [ "$found" = "$wanted" ]; then
            continue
        elif [ -n "$found" ]; then
            fail "the GPU instance $place of $gpu has the compute instances $found instead of ${wanted:-none}"
        else
            said=$(nvidia-smi mig -i "$gpu" -gi "$number" -cci $list 2>&1) || fail "$wanted in $place of $gpu: $said"
        fi
    done
}

restore() {
    enable "$1" && create_gpu_instances "$@" && create_compute_instances "$@"
}

# The driver may still be loading.
tries=0
until said=$(nvidia-smi -L 2>&1); do
    tries=$((tries + 1))
    [ "$tries" -lt 30 ] || { fail "the driver does not answer: $said"; exit 1; }
    sleep 2
done

"""
)
_SCRIPT_END = "exit $failed\n"

Lines = dict[str, str]
"""The words for the instances of each GPU, by its UUID."""


def line(targets: t.Sequence[InstanceTarget]) -> str:
    """Return the words for a GPU's instances."""
    return " ".join(map(_word, targets))


def _word(target: InstanceTarget) -> str:
    profile = target.profile
    place = f"{profile.name}:{target.start}"
    if target.shape == (profile.compute,):
        return place
    # nvidia-smi creates them in this order, each at the first free place.
    names = [compute_name(profile.name, slices, profile.compute) for dummy, slices in target.compute]
    return f"{place}/{','.join(names) or 'none'}"


def read(host: Host) -> Lines:
    """Return what the script restores."""
    return {uuid: words.strip() for uuid, words in _LINE.findall(host.read(SCRIPT) or "")}


def script(lines: Lines) -> str:
    """Return the text of the script."""
    restored = "".join(f"restore {uuid} {words}".rstrip() + "\n" for uuid, words in sorted(lines.items()))
    return f"{_SCRIPT_HEAD}{restored}{_SCRIPT_END}"


@dataclasses.dataclass(frozen=True)
class RestoreUnit:
    """The unit's files as they are to be. Both are empty without a layout to restore."""

    host: Host
    texts: dict[str, str]

    @property
    def differs(self) -> bool:
        """Whether the host has something else."""
        return any(_text(self.host, path) != text for path, text in self.texts.items()) or self._enabled != self._wanted

    @property
    def _wanted(self) -> bool:
        return bool(self.texts[UNIT])

    @property
    def _enabled(self) -> bool:
        return self.host.exists(_WANTS)

    def diff(self) -> Json:
        """Return the script before and after, for ``--diff``."""
        return {
            "before": _text(self.host, SCRIPT),
            "after": self.texts[SCRIPT],
            "before_header": SCRIPT,
            "after_header": SCRIPT,
        }

    def write(self) -> None:
        """Write the files and enable the unit, or disable it and remove them."""
        if not self._wanted and self._enabled:
            self._systemctl("disable", SERVICE)
        for path, text in self.texts.items():
            if not text:
                self.host.remove(path)
            elif _text(self.host, path) != text:
                self.host.write(path, text)
        self._systemctl("daemon-reload")
        if self._wanted and not self._enabled:
            self._systemctl("enable", SERVICE)

    def prove(self) -> None:
        """Run the unit, which leaves the complete layout as it is, to see that it understands this driver."""
        if self._wanted:
            output = self.host.run(["systemctl", "restart", SERVICE], 600)
            if not output.ok:
                said = self.host.run(
                    ["journalctl", "--unit", SERVICE, "--lines", "3", "--output", "cat"]
                ).stdout.strip()
                raise GpuOpsError(
                    f"The layout is on the GPUs, but {SERVICE} cannot restore it at boot: {said or output.error}. "
                    "Run the task again with persistent=false to do without it.",
                    reason="Unsupported",
                )

    def _systemctl(self, *words: str) -> None:
        output = self.host.run(["systemctl", *words], 60)
        if not output.ok:
            raise GpuOpsError(
                f"The unit that restores the MIG layout cannot be set up: {output.error}. Run systemctl "
                f"{' '.join(words)} on the host to see why, or set persistent to false.",
                reason="Unsupported",
            )


def unit(host: Host, lines: Lines) -> RestoreUnit:
    """Return the unit that restores these lines."""
    return RestoreUnit(host, {SCRIPT: script(lines) if lines else "", UNIT: UNIT_TEXT if lines else ""})


def _text(host: Host, path: str) -> str:
    read_text = host.read(path)
    return "" if read_text is None else f"{read_text}\n"
