# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE

GPU = {"pci_address": "0000:18:00.0"}

HUNG = "INFO: task nvidia-smi:4711 blocked for more than 120 seconds."
OFF_THE_BUS = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
GSP_TIMEOUT = "NVRM: Xid (PCI:0000:18:00): 119, pid=1, name=x, Timeout after 6s of waiting for RPC response!"
NO_NVML = "Failed to initialize NVML: Unknown Error"
NO_HANDLE = "Unable to determine the device handle for GPU 0000:18:00.0: Unknown Error"
MCE = "mce: [Hardware Error]: Machine check events logged"
AER = "nvidia 0000:18:00.0: AER: can't recover (no error_detected callback)"
INIT = "NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x26:0xffff:1127)"
IOMMU = "nvidia 0000:18:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040"
SIGNATURE = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"
SELINUX = "modprobe: ERROR: could not insert 'nvidia': Permission denied"
NOUVEAU = "nouveau 0000:18:00.0: DRM: VRAM: 81920 MiB"
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that"
NO_LIBRARY = (
    "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file"
)
HOOK = "ldcache error: process /sbin/ldconfig.real terminated with signal 9"
FULL = "Out of memory: Killed process 2113 (kubelet) total-vm:5024000kB, anon-rss:90000kB"
NO_HEADERS = "Could not resolve Linux kernel version"
NO_ENTITLEMENT = "RHEL entitlement may be improperly deployed"
ERROR_802 = "  what():  Error (gpu_burn-drv.cpp:298): system not yet initialized"
NO_SWITCH = (
    "nv-fabricmanager[4177]: request to query NVSwitch device information from NVSwitch driver failed with "
    "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
)


def test_a_host_that_nobody_looked_at_has_empty_parts() -> None:
    view = View(Evidence(hosts={NODE: {"unreachable": "no route to host"}}))
    assert (seen.gpus(view, NODE), seen.part(view, NODE, "driver"), seen.state(view, NODE)) == ([], {}, {})
    assert (seen.gpus(view, "gpu-0007"), list(seen.each_gpu(view))) == ([], [])


def test_the_gpus_of_all_hosts_with_their_nodes() -> None:
    view = View(Evidence(hosts={name: {"facts": {"gpus": [GPU]}} for name in ("b", "a")}))
    assert list(seen.each_gpu(view)) == [("a", GPU), ("b", GPU)]


def test_a_gpu_for_which_the_driver_answers() -> None:
    facts = {"gpus": [{**GPU, "uuid": "GPU-1"}, {"pci_address": "0000:2a:00.0", "uuid": None}]}
    view = View(Evidence(hosts={NODE: {"facts": facts}}))
    assert seen.answers(view, NODE, "00000000:18:00.0") and seen.answers(view, NODE, "0000:18:00")
    assert not seen.answers(view, NODE, "0000:2A:00.0") and not seen.answers(view, NODE, "0000:3a:00.0")
    assert not seen.answers(view, NODE, "0001:18:00.0")
    assert not seen.answers(view, NODE) and not seen.answers(view, "gpu-0007")


def test_a_node_on_which_nothing_waits() -> None:
    rows = [diagnosed.row(), diagnosed.row("gpu-0001", waiting_for={"driver": "Error"})]
    view = View(Evidence(stack=diagnosed.stack(*rows)))
    assert [seen.is_ready(view, name) for name in (NODE, "gpu-0001", "gpu-0002")] == [True, False, False]


def test_lines_that_stand_in_one_text() -> None:
    first, second = pattern("a", "a"), pattern("b", "b")
    lines = [TextLine("a", source="x line 1"), TextLine("b", source="x line 9"), TextLine("a", source="y line 1")]
    view = View(Evidence(lines=lines), (first, second))
    assert [hit.line.source for hit in seen.together(view, first, second)] == ["x line 1"]


def test_a_fact_as_evidence() -> None:
    sighting = seen.of_gpu(NODE, GPU, "lost: true", "likely", count="1")
    assert (sighting.object, sighting.certainty, sighting.values) == ("GPU 0000:18:00.0", "likely", {"count": "1"})
    assert sighting.quotes[0].text == "GPU 0000:18:00.0: lost: true"
    assert seen.on_node(NODE, "a").quotes[0].source == "facts of the host"


def test_what_follows_from_a_missing_driver_includes_what_waits_for_it() -> None:
    assert {"OperandWaiting", "NoNvidiaRuntimeHandler", "DriverNotLoaded"} <= seen.NO_DRIVER
    assert {"UnhealthyGPUs", "NoAllocatableGPUs"} <= seen.NO_GPU


@pytest.mark.parametrize(
    ("lines", "codes", "look"),
    [
        ((HUNG, OFF_THE_BUS), ("DriverHangs", "XidOffTheBus"), "journalctl -k -b"),
        ((HUNG, GSP_TIMEOUT), ("DriverHangs", "XidReset"), "journalctl -k -b"),
        ((NO_NVML, OFF_THE_BUS), ("DevicesLostAfterReload", "XidOffTheBus"), "nvidia-smi on the host"),
        ((NO_NVML, GSP_TIMEOUT), ("DevicesLostAfterReload", "XidReset"), "nvidia-smi on the host"),
        ((NO_NVML, NO_HANDLE), ("DevicesLostAfterReload", "GPUDoesNotAnswer"), "nvidia-smi on the host"),
        ((MCE, AER), ("MachineCheckErrors", "PCIeErrors"), "ras-mc-ctl --errors"),
        ((MCE, OFF_THE_BUS), ("MachineCheckErrors", "XidOffTheBus"), "ras-mc-ctl --errors"),
        ((INIT, IOMMU), ("GPUInitFailed", "IOMMUFaults"), "iommu=pt"),
        ((SIGNATURE, NOUVEAU), ("ModuleSignatureRefused", "NouveauHoldsGPU"), "lspci -k"),
        ((SIGNATURE, SELINUX), ("ModuleSignatureRefused", "SELinuxDenies"), "ausearch -m avc"),
        ((NO_DRIVER, NO_LIBRARY), ("DriverNotLoaded", "DriverLibrariesMissing"), "/proc/driver/nvidia/version"),
        ((HOOK, FULL), ("ToolkitHookKilled", "HostOutOfMemory"), "out of memory"),
        ((NO_HEADERS, NO_ENTITLEMENT), ("HeadersMissing", "EntitlementMissing"), "elfutils-libelf-devel"),
        ((ERROR_802, NO_SWITCH), ("FabricNotReady", "FabricManagerWithoutSwitches"), "topo -m"),
    ],
)
def test_two_causes_that_one_sight_fits_are_both_named_with_what_tells_them_apart(
    lines: tuple[str, ...], codes: tuple[str, str], look: str
) -> None:
    known = [TextLine(text, "kernel", "kernel log", NODE) for text in lines]
    found = diagnosed.found(RULES, *known)
    first, second = (found[code].tell_apart for code in codes)
    assert first == second and look in first[0]
    elsewhere = [known[0], TextLine(known[1].text, "kernel", "kernel log", "gpu-0007")]
    assert [found.tell_apart for found in diagnosed.found(RULES, *elsewhere).values()] == [(), ()]


IMAGE = 'Failed to pull image "nvcr.io/nvidia/x:1": failed to do request: Head "https://nvcr.io/v2/": '


@pytest.mark.parametrize(
    ("lines", "codes", "look"),
    [
        (
            (
                "Could not resolve Linux kernel version",
                "Unable to locate package linux-modules-nvidia-535-6.8.0-31-generic",
            ),
            ("HeadersMissing", "PrecompiledDriverMissing"),
            "driver.usePrecompiled",
        ),
        (
            (
                f"{IMAGE}dial tcp 192.0.2.1:443: i/o timeout",
                f"{IMAGE}proxyconnect tcp: dial tcp 192.0.2.2:3128: i/o timeout",
            ),
            ("RegistryUnreachable", "RegistryProxyFails"),
            "HTTPS_PROXY",
        ),
        (
            (
                f"{IMAGE}x509: certificate signed by unknown authority",
                "x509: certificate has expired or is not yet valid: current time 2020-01-01T00:00:00Z is before 2026",
            ),
            ("RegistryCertificateUntrusted", "CertificateNotValidNow"),
            "timedatectl",
        ),
        (
            (
                "DcgmModuleProfiling failed to initialize",
                "dcgm-exporter doesn't have sufficient privileges to expose profiling metrics",
            ),
            ("ExporterProfilingFails", "ExporterLacksPrivilege"),
            "SYS_ADMIN",
        ),
        (
            ("Error connecting to nv-hostengine", "nv-hostengine[42]: segfault at 0 ip 0"),
            ("ExporterWithoutDCGM", "HostengineCrashed"),
            "RESTARTS",
        ),
        ((AER, OFF_THE_BUS), ("PCIeErrors", "XidOffTheBus"), "event log of the BMC"),
        (
            ("Memory cgroup out of memory: Killed process 7 (dcgm-exporter)", FULL),
            ("ExporterOutOfMemory", "HostOutOfMemory"),
            "out of memory",
        ),
    ],
)
def test_loose_lines_that_fit_two_causes_say_what_tells_them_apart(
    lines: tuple[str, ...], codes: tuple[str, str], look: str
) -> None:
    found = diagnosed.found(RULES, *(TextLine(text, "text", "ticket.txt", NODE) for text in lines))
    for code in codes:
        assert any(look in text for text in found[code].tell_apart), (code, found)


def test_what_tells_a_cause_from_two_others_is_said_once() -> None:
    other = OFF_THE_BUS.replace("0000:18", "0000:2a")
    lines = [TextLine(text, "kernel", "kernel log", NODE) for text in (HUNG, GSP_TIMEOUT, other)]
    found = diagnosed.found(RULES, *lines)
    assert {*found} == {"DriverHangs", "XidOffTheBus", "XidReset"} and len(found["DriverHangs"].tell_apart) == 1


def test_what_tells_two_causes_apart_is_said_on_both_sides() -> None:
    rules = {rule.code: rule for rule in RULES}
    one_sided = [(rule.code, other) for rule in RULES for other in rule.unlike if rule.code not in rules[other].unlike]
    assert one_sided == []
