# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Errors of GPUs (Xid) and NVSwitches (SXid), judged: each case is a finding that names the one thing to do.

The judgement is that of ``_xid``, from the facts of a host, or else from the lines of its kernel log.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import XID_TAINT
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import claimed_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Quote, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import (
    cases,
    catalogue,
    messages,
    reports,
    switches,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.case import Case
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.cases import Machine
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import Report

_LITERALS = ("xid (", "fallen off the bus", "nvrm: the nvidia gpu")
_PATTERNS = tuple(pattern(literal.replace("(", r"\("), literal, "kernel") for literal in _LITERALS)
"""What these rules need of a log. The first keeps the lines of SXids, too."""
_QUOTES = 6
_NUMBER = re.compile(r",? line \d+$")
"""What differs between the sources of the lines of one file."""
_UNNAMED = "log "
"""Before the name of a log of an unknown machine. No node's name has a space."""
_BURSTS = "https://docs.nvidia.com/fleet-intel/user-guide/xid-bursts.md"
_MEMORY = "https://github.com/awslabs/awsome-distributed-ai/pull/1190"
_ORDERS = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1441"
_SENTINEL = "https://github.com/NVIDIA/NVSentinel/issues/155"


def judged(view: View) -> list[Case]:
    """Return the cases of all machines. A log of unknown origin is a machine of its own, without a name."""
    machines = {node: _machine(view.facts(node)) for node in view.names if view.facts(node)}
    found = [report for node in machines for report in reports.from_facts(node, view.facts(node).get("xid") or [])]
    known = {node for node in machines if view.facts(node).get("xid") is not None}
    logs: dict[tuple[str, str], list[TextLine]] = {}
    for line in view.evidence.lines:
        if line.kind in ("kernel", "text") and line.node not in known and _concerns(line.text):
            logs.setdefault((line.node, _NUMBER.sub("", line.source)), []).append(line)
    for (node, log), lines in logs.items():
        found += reports.from_lines(node or _UNNAMED + log, [line.text for line in lines], log)
    return cases.judge([*found, *_of_taints(view, found)], machines)


def _of_taints(view: View, known: t.Sequence[Report]) -> t.Iterator[Report]:
    """Yield the errors that only a taint of a device tells. The log, where it was read, says more of the same error."""
    told = {(report.machine, report.event.code) for report in known}
    for node, pool in view.once(claimed_pools.pools).items():
        tainted = [(each, taint) for each in pool.devices for taint in each.taints]
        for each, taint in tainted:
            code = taint.value
            if taint.key != XID_TAINT or not code.isdigit() or (node, int(code)) in told:
                continue
            line = f"NVRM: Xid (PCI:{each.pci_address or '0000:00:00'}): {code}, "
            text = f"taint {taint} of the device {each.name[2]}"
            for report in reports.from_lines(node, [line], claimed_pools.SOURCE):
                event = report.event if each.pci_address else dataclasses.replace(report.event, gpu=each.name[2])
                yield dataclasses.replace(report, event=event, line=text)


def _concerns(text: str) -> bool:
    lowered = text.lower()
    return any(literal in lowered for literal in _LITERALS)


def _machine(facts: Json) -> Machine:
    gpus: list[Json] = facts.get("gpus") or []
    switches_seen = facts.get("nvswitches")
    kind = (facts.get("fabric") or {}).get("kind")
    return Machine(
        driver=str((facts.get("driver") or {}).get("version") or ""),
        architectures={str(gpu.get("pci_address")): str(gpu.get("architecture") or "") for gpu in gpus},
        orders={str(gpu["pci_address"]): str(gpu["recovery_action"]) for gpu in gpus if gpu.get("recovery_action")},
        lost=frozenset(str(gpu["pci_address"]) for gpu in gpus if gpu.get("lost")),
        has_switches=bool(switches_seen) if switches_seen is not None else (None if kind is None else kind != "none"),
    )


# ---- which rule a case belongs to ----------------------------------------------------------------------------------


def _code(case: Case) -> str:
    """Return the code of the rule for a case, or an empty text if nothing is to be done."""
    if case.outcome == "nothing":
        return ""
    if case.family == "unknown":
        return "XidUnknown"
    if case.outcome in ("service", "check the machine"):
        return {"service": "XidService", "check the machine": "XidCheck"}[case.outcome]
    if case.outcome == "restart the application":
        return _code_of_restart(case)
    if case.outcome == "reboot":
        return "XidOffTheBus" if case.family == "off the bus" else "XidReboot"
    families = {"memory": "XidMemory", "nvlink": "XidNvlink", "switch": "XidSwitch"}
    return families.get(case.family, "XidReset")


def _code_of_restart(case: Case) -> str:
    if case.family == "nvlink":
        return "XidNvlinkNonfatal"
    return "XidContained" if case.code == 94 and case.kind == "xid" else "XidApplication"


def _sightings(code: str, view: View) -> t.Iterator[Sighting]:
    for case in view.once(judged):
        if _code(case) == code:
            yield _sighting(case)


def _behind(view: View) -> t.Iterator[Sighting]:
    """Yield the GPUs on which the driver ended work because of an error whose own message is not in the log."""
    told = {(case.machine, code) for case in view.once(judged) for code in case.codes}
    for case in view.once(judged):
        named = {messages.previous(report.event) for report in case.reports} - {None}
        lost = sorted(code for code in named if code is not None and (case.machine, code) not in told)
        if lost and case.outcome == "nothing" and catalogue.RECOVERY_ACTION_CHANGED not in case.codes:
            yield from (_of_cleanup(case, code) for code in lost)


def _of_cleanup(case: Case, code: int) -> Sighting:
    lines = tuple(report for report in case.reports if messages.previous(report.event) == code)
    found = _sighting(dataclasses.replace(case, reports=lines))
    meaning = catalogue.meaning(code) or "which NVIDIA's catalog does not know"
    return dataclasses.replace(found, certainty="certain", values={"code": str(code), "meaning": meaning})


def _sighting(case: Case) -> Sighting:
    device = "GPU" if case.kind == "xid" else "NVSwitch"
    node = "" if case.machine.startswith(_UNNAMED) else case.machine
    lines = dict.fromkeys((report.line, report.source) for report in case.reports)
    quotes = [Quote(line, source, node) for line, source in lines][:_QUOTES]
    if not quotes:
        quotes = [Quote(f"{case.gpu}: {case.why}", "facts of the host", node)]
    often = f". It happened {case.bursts} times" if case.bursts > 1 else ""
    values = {"why": case.why + often, "xids": _named(case)}
    return Sighting(node, f"{device} {case.gpu}", tuple(quotes), case.certainty, values)


def _named(case: Case) -> str:
    """Return the codes of a case, the one that decides first."""
    codes = [case.code, *(code for code in case.codes if code != case.code)]
    prefix = "Xid" if case.kind == "xid" else "SXid"
    return f"{prefix} " + first_few([str(code) for code in codes])


# ---- the rules -----------------------------------------------------------------------------------------------------

_DRAIN = "Take the node out of service (kubectl drain, or the module gpuops.nvidia.node_maintenance)"
_PROVE = "Prove the node with playbooks/verify.yml, and put it back."
_FOLLOW = frozenset(
    {
        # The driver for claims taints the device.
        "DevicesTainted",
        *(*NOT_READY, "DevicePluginGaveUpGPU", "GPUDoesNotAnswer", "GPUInitFailed", "HostPreflightHostGpus"),
        "ExporterSilent",
    }
)
_HANGS = {"DriverHangs": seen.HANG_OR_XID}
_OF_CONTAINER = {"DevicesLostAfterReload": seen.CONTAINER_OR_GPU}
_LOST = _FOLLOW | {"GPUsMissingFromDriver", "LostGPUBlocksAdmission", "NVLinkDown"}
_LINKS = _FOLLOW | {"FabricNotReady", "FabricUnhealthy", "NVLinkDown"}


@dataclasses.dataclass(frozen=True)
class _Text:
    """What differs between the rules."""

    code: str
    title: str
    severity: t.Literal["failure", "warning"]
    remedy: str
    sources: tuple[str, ...] = (catalogue.CATALOG_PAGE,)
    explains: frozenset[str] = frozenset()
    unlike: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


_TEXTS = (
    _Text(
        "XidOffTheBus",
        "A GPU has fallen off the bus",
        "failure",
        f"{_DRAIN}, and turn the host off and on: a warm reboot often does not bring the GPU back. If it is lost "
        f"again, check its seat, power and temperature, or have it replaced. {_PROVE}",
        (catalogue.CATALOG_PAGE, _SENTINEL),
        _LOST,
        {
            **_HANGS,
            **_OF_CONTAINER,
            "MachineCheckErrors": seen.MACHINE_OR_LINK,
            "PCIeErrors": seen.LINK_OR_POWER,
        },
    ),
    _Text(
        "XidMemory",
        "A GPU has an uncorrectable memory error",
        "failure",
        f"{_DRAIN}, and reset the GPU (nvidia-smi --gpu-reset -i ADDRESS) or reboot the host: spare memory replaces "
        f"the bad. If the error comes back, run the field diagnostics. {_PROVE}",
        (catalogue.CATALOG_PAGE, _MEMORY),
        _FOLLOW | {"MemoryUncorrectable", "RowRemapPending", "PagesRetiredPending"},
    ),
    _Text(
        "XidReset",
        "A GPU must be reset",
        "failure",
        f"{_DRAIN}, and reset the GPU (nvidia-smi --gpu-reset -i ADDRESS). If that fails, reboot the host. {_PROVE}",
        (catalogue.CATALOG_PAGE, _BURSTS),
        _FOLLOW | {"GSPFailed"},
        {**_HANGS, **_OF_CONTAINER},
    ),
    _Text(
        "XidReboot",
        "A host must be rebooted because of a GPU",
        "failure",
        f"{_DRAIN}, and reboot the host. {_PROVE}",
        (catalogue.CATALOG_PAGE, _ORDERS),
        _FOLLOW,
        _HANGS,
    ),
    _Text(
        "XidNvlink",
        "A GPU has a fatal NVLink error",
        "failure",
        f"{_DRAIN}, and reset all GPUs that are linked to this one (nvidia-smi --gpu-reset without -i), or reboot the "
        f"host. {_PROVE}",
        explains=_LINKS,
    ),
    _Text(
        "XidNvlinkNonfatal",
        "An NVLink error has ended an application",
        "warning",
        "Start the application again. If the error comes back, run nvidia-smi nvlink --status and --errorcounters, and "
        "check the links that are down or count errors: cables and switches, or the GPU's board.",
        explains=frozenset({"NVLinkDown"}),
    ),
    _Text(
        "XidSwitch",
        "An NVSwitch has a fatal error",
        "failure",
        f"{_DRAIN}, stop the fabric manager, reset all GPUs and NVSwitches together (nvidia-smi --gpu-reset without "
        f"-i), and start it again, or reboot the host. {_PROVE}",
        (switches.GUIDE_PAGE,),
        _LINKS,
    ),
    _Text(
        "XidService",
        "A GPU needs service",
        "failure",
        f"{_DRAIN}. Run the diagnostics (dcgmi diag -r 4, then NVIDIA's field diagnostics), and send their result with "
        "nvidia-bug-report.sh to the vendor.",
        (catalogue.CATALOG_PAGE, _BURSTS),
        _FOLLOW,
        _HANGS,
    ),
    _Text(
        "XidCheck",
        "A machine must be checked because of a GPU",
        "warning",
        "Drain the node when its jobs have ended. Then check what the cause names: power, cooling, seats and links, "
        "the fabric manager, or the versions of driver and firmware.",
        (catalogue.CATALOG_PAGE, switches.GUIDE_PAGE),
    ),
    _Text(
        "XidContained",
        "An application has hit bad GPU memory",
        "warning",
        "Start the application again. The GPU still works. Drain the node when it suits you and reset the GPU, so that "
        "spare memory replaces the bad.",
        (catalogue.CATALOG_PAGE, _MEMORY),
    ),
    _Text(
        "XidApplication",
        "An application has failed on a GPU",
        "warning",
        "Start the application again. If it fails again, run it in compute-sanitizer or cuda-gdb. The node stays in "
        "service.",
    ),
    _Text(
        "XidUnknown",
        "NVIDIA's catalog does not know an error",
        "warning",
        "Look for {xids} in NVIDIA's newest Xid catalog. If the GPU fails, take the node out of service and send "
        "nvidia-bug-report.sh to the vendor.",
        (catalogue.CATALOG_PAGE,),
    ),
)

_BEHIND = Rule(
    code="XidBehindCleanup",
    title="The error that ended an application is not in this log",
    severity="warning",
    cause="The driver ended the work of an application on the GPU because of Xid {code} ({meaning}), and the message "
    "of Xid {code} itself is not in this log.",
    remedy="Run journalctl -k -g 'Xid.*: {code},' on the host, and explain what it shows (playbooks/explain.yml): that "
    "message says what to do. If it is gone, run nvidia-smi -q and follow GPU Recovery Action.",
    sources=(
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/main/src/nvidia/src/kernel/gpu/rc/kernel_rc.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1150",
    ),
    check=_behind,
    patterns=_PATTERNS,
    explains=_FOLLOW,
)

RULES: tuple[Rule, ...] = (
    _BEHIND,
    *(
        Rule(
            code=text.code,
            title=text.title,
            severity=text.severity,
            cause="{why}.",
            remedy=text.remedy,
            sources=text.sources,
            check=functools.partial(_sightings, text.code),
            patterns=_PATTERNS,
            explains=text.explains,
            unlike=text.unlike,
        )
        for text in _TEXTS
    ),
)
