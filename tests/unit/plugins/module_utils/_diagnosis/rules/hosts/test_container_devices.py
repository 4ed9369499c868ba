# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.container_devices import RULES
from inline_snapshot import snapshot as wording

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE


@pytest.mark.parametrize(
    ("line", "code", "certainty"),
    [
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/48
        ("Failed to initialize NVML: Unknown Error", "DevicesLostAfterReload", "likely"),
        # https://github.com/NVIDIA/gpu-operator/issues/553
        (
            'type=AVC msg=audit(1691186980.587:9501): avc:  denied  { module_load } for  pid=2431660 comm="modprobe" '
            'path="/usr/lib/modules/4.18.0-477.15.1.el8_8.x86_64/kernel/drivers/video/nvidia.ko" tclass=system '
            "permissive=0",
            "SELinuxDenies",
            "certain",
        ),
        # https://github.com/fedora-selinux/selinux-policy/issues/1695
        ("Target Objects                /dev/nvidia0 [ chr_file ]", "SELinuxDenies", "certain"),
        # https://github.com/NVIDIA/gpu-operator/issues/511
        (
            "nvidia-container-cli.real: initialization error: load library failed: libnvidia-ml.so.1: cannot open "
            "shared object file: no such file or directory: unknown",
            "DriverLibrariesMissing",
            "likely",
        ),
        # https://github.com/gpustack/gpustack/issues/4130
        (
            "failed to inject CDI devices: unresolvable CDI devices management.nvidia.com/gpu=0: unknown",
            "CDIDeviceUnknown",
            "certain",
        ),
        # https://github.com/Project-HAMi/HAMi/issues/1903
        (
            "unresolvable CDI devices k8s.device-plugin.nvidia.com/gpu=MIG-4c0f3a50-17a4-52eb-8450-e29e24c80885'",
            "CDIDeviceUnknown",
            "certain",
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/885
        (
            'failed to inject devices: failed to stat CDI host device "/dev/dri/renderD129": no such file or directory',
            "CDISpecificationStale",
            "likely",
        ),
        # pkg/cdi/container-edits_unix.go of cncf-tags/container-device-interface
        (
            'failed to stat CDI host device \\"/dev/nvidia-uvm\\": no such file or directory: unknown',
            "CDISpecificationStale",
            "certain",
        ),
        # https://github.com/NVIDIA/nvidia-docker/issues/1017
        (
            "ERROR: inject NVIDIA hook: stat /usr/bin/nvidia-container-runtime-hook: no such file or directory",
            "ToolkitProgramMissing",
            "certain",
        ),
        # https://github.com/NVIDIA/nvidia-docker/issues/676, in the words of runc 1.1
        (
            'error running prestart hook #0: exec: "nvidia-container-cli": executable file not found in $PATH',
            "ToolkitProgramMissing",
            "certain",
        ),
        # https://github.com/NVIDIA/k8s-device-plugin/issues/1400
        ("ldcache error: process /sbin/ldconfig terminated with signal 9", "ToolkitHookKilled", "likely"),
    ],
)
def test_published_lines(line: str, code: str, certainty: str) -> None:
    found = diagnosed.found(RULES, line)
    assert {each: finding.certainty for each, finding in found.items()} == {code: certainty}


@pytest.mark.parametrize(
    "line",
    [
        # https://github.com/kata-containers/kata-containers/issues/12549
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/736
        "CDI device injection failed: unresolvable CDI devices nvidia.com/pgpu=vfio1",
        "CDI device injection failed: unresolvable CDI devices k8s.gpu.nvidia.com/device=gpu-1",
        # https://github.com/containers/container-selinux/issues/269
        'avc:  denied  { read write } for  comm="clinfo" name="renderD128" tcontext=system_u:object_r:dri_device_t:s0 '
        "permissive=0",
        # It would deny, if it were enforcing.
        'avc:  denied  { module_load } for  comm="modprobe" path="/x/nvidia.ko" permissive=1',
        'failed to stat CDI host device "/dev/fb0": no such file or directory',
        'failed to stat CDI host device "/dev/infiniband/uverbs0": no such file or directory',
        # https://github.com/NVIDIA/gpu-operator/issues/1374: the driver's program, not the toolkit's
        'exec: "nvidia-smi": executable file not found in $PATH: unknown',
        "stat /etc/nvidia-container-runtime/config.toml: no such file or directory",
        "Running nvidia-container-runtime-hook",
        "Failed to initialize NVML: Driver/library version mismatch",
    ],
)
def test_near_misses(line: str) -> None:
    assert not diagnosed.found(RULES, line)


def host(**state: t.Any) -> dict[str, t.Any]:
    """Return what is known of a host."""
    return {"hosts": {NODE: {"facts": {}, "state": state}}}


def test_no_cgroups_is_told_from_a_reload_of_systemd() -> None:
    # https://github.com/NVIDIA/nvidia-container-toolkit/issues/580
    lost, setting = "Failed to initialize NVML: Unknown Error", "no-cgroups = true"
    assert set(diagnosed.found(RULES, lost, setting)) == {"NoCgroupsSet"}
    assert not diagnosed.found(RULES, setting)
    assert set(diagnosed.found(RULES, lost, "#no-cgroups = true")) == {"DevicesLostAfterReload"}


def test_missing_links_below_dev_char_prove_why_containers_lose_their_gpus() -> None:
    # https://github.com/NVIDIA/nvidia-container-toolkit/issues/48
    line = diagnosed.log("Failed to initialize NVML: Unknown Error", "nvidia-dcgm-exporter-x", "nvidia-dcgm-exporter")
    (finding,) = diagnosed.found(RULES, line, **host(links_missing=["nvidia0", "nvidiactl"])).values()
    assert finding.certainty == "certain"
    assert finding.quotes[-1].text == wording("no link below /dev/char to nvidia0, nvidiactl")
    (finding,) = diagnosed.found(RULES, line, **host(links_missing=[])).values()
    assert finding.certainty == "likely"
    assert not diagnosed.found(RULES, **host(links_missing=["nvidia0"])), "Links alone break nothing."


def test_selinux_that_does_not_enforce_refuses_nothing() -> None:
    line = diagnosed.log("modprobe: ERROR: could not insert 'nvidia': Permission denied", "nvidia-driver-x", "ctr")
    assert set(diagnosed.found(RULES, line, **host(selinux="enforcing"))) == {"SELinuxDenies"}
    assert not diagnosed.found(RULES, line, **host(selinux="permissive"))
