# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Equal machines that are not equal: `drift` compares them."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import drift
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Quote, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

CODE = "FleetDrift"
"""How the code of each of these rules begins."""

_DRIFT = "https://ai-infrastructure.net/runbook-image-drift/"
_CHECKS = "https://github.com/Azure/azurehpc-health-checks/blob/main/customTests/azure_gpu_"
_VBIOS = "https://facebookresearch.github.io/gcm/docs/GCM_Health_Checks/health_checks/check-nvidia-smi/vbios_mismatch"
_INFOROM = "https://factryze.ai/glossary/firmware-update"
_CLUSTERS = "https://docs.verda.com/clusters/instant-clusters/validation/"
_BAR1 = "https://docs.nvidia.com/cuda/gpudirect-rdma/"
_RDMA = "https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband"
_SMI = "https://manpages.ubuntu.com/manpages/kinetic/man1/nvidia-smi.1.html"


def _sightings(view: View, *, key: str) -> t.Iterator[Sighting]:
    for each in drift.odd(view, key):
        reading = each.reading
        values = {"odd": reading.value, "instead": each.instead}
        text = f"{key}: {reading.value} (usual: {each.usual}, {each.counted})"
        quote = Quote(text, reading.source, reading.machine.node)
        yield Sighting(reading.machine.node, reading.object, (quote,), "certain", values)


def _rule(key: str, name: str, words: str, remedy: str, *sources: str, explains: tuple[str, ...] = ()) -> Rule:
    """Return the rule that compares one trait. ``words`` names it in a sentence."""
    return Rule(
        code=CODE + name,
        title=f"{words[0].upper()}{words[1:]} unlike that of equal machines",
        severity="warning",
        cause=f"The {words} is {{odd}}, while {{instead}}.",
        remedy=remedy,
        sources=sources,
        check=functools.partial(_sightings, key=key),
        explains=frozenset(CODE + each for each in explains),
    )


RULES = (
    _rule(
        "driver",
        "Driver",
        "driver version",
        "Run playbooks/upgrade_driver.yml for these nodes. Where the driver belongs to the host, set "
        "host_driver_version and run playbooks/site.yml.",
        _DRIFT,
        explains=("GSP",),
    ),
    _rule(
        "kernel",
        "Kernel",
        "kernel",
        "Set host_kernel_release and run playbooks/upgrade_kernel.yml for these nodes.",
        _CLUSTERS,
        _DRIFT,
    ),
    _rule(
        "kernel_args",
        "KernelArguments",
        "kernel argument",
        "Set host_prep_kernel_args alike for all machines and run playbooks/site.yml, which reboots if permitted.",
        "https://nvidia.github.io/grace-cpu-benchmarking-guide/platform/index.html",
        _DRIFT,
    ),
    _rule(
        "vbios",
        "VBIOS",
        "VBIOS",
        "Drain the node, and install the machine vendor's firmware bundle that the other machines have.",
        _VBIOS,
        f"{_CHECKS}vbios.nhc",
        explains=("GraphicsClock", "MemoryClock"),
    ),
    _rule(
        "inforom",
        "InfoROM",
        "infoROM image",
        "Drain the node, and install the machine vendor's firmware bundle that the other machines have.",
        _INFOROM,
    ),
    _rule(
        "gsp",
        "GSP",
        "GSP firmware",
        "Drain these nodes, reinstall the driver, which brings the firmware along, and reboot them.",
        _DRIFT,
    ),
    _rule(
        "ecc",
        "ECC",
        "ECC mode",
        "Drain the node, run nvidia-smi --ecc-config=1 on it (or 0, as on the other machines), and reboot it.",
        _CLUSTERS,
        _SMI,
    ),
    _rule(
        "power_limit_w",
        "PowerLimit",
        "power limit in watts",
        "Run nvidia-smi --power-limit=WATTS with the watts of the other machines, and find out who changed the limit.",
        _SMI,
    ),
    _rule(
        "graphics_clock_mhz",
        "GraphicsClock",
        "highest graphics clock in MHz",
        "Compare the boards (nvidia-smi -q): another part number or VBIOS has other clocks. Ask the machine's vendor.",
        _SMI,
    ),
    _rule(
        "memory_clock_mhz",
        "MemoryClock",
        "highest memory clock in MHz",
        "Compare the boards (nvidia-smi -q): another part number or VBIOS has other clocks. Ask the machine's vendor.",
        _SMI,
    ),
    _rule(
        "application_clock_mhz",
        "ApplicationClock",
        "graphics clock for applications in MHz",
        "Run nvidia-smi --reset-applications-clocks, or set the clocks of the other machines, and find out who changed "
        "them.",
        _SMI,
    ),
    _rule(
        "bar1_mib",
        "BAR1",
        "size of BAR1 in MiB",
        "Compare the firmware's settings with those of the other machines: resizable BAR and 64-bit addresses (above "
        "4G decoding) are on or off for the whole machine.",
        _BAR1,
    ),
    _rule(
        "nic_firmware",
        "AdapterFirmware",
        "firmware of a network adapter",
        "Drain the node, and install on the adapter the firmware that the others of the same board have.",
        _RDMA,
    ),
    _rule(
        "persistence_mode",
        "Persistence",
        "persistence mode",
        "With a driver on the host, set host_driver_persistence alike for all machines and run playbooks/site.yml. "
        "With a driver container, drain the node and restart the driver's pod, whose own daemon sets the mode.",
        f"{_CHECKS}persistence.nhc",
    ),
    _rule(
        "mig_mode",
        "MIGMode",
        "MIG mode",
        "Run playbooks/mig.yml, which gives the nodes their layout and proves it.",
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html",
    ),
)
