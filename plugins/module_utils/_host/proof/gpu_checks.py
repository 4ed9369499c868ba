# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Checks of what the driver says of each GPU. A reading that is missing is not a good one."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci_ids import NVL72, NVLINK_5
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import (
    Findings,
    Subject,
    Verdict,
    name_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_RESET = "Reboot the host, or reset the GPU (nvidia-smi --gpu-reset)"
_REPLACE = "If that does not help, replace the GPU"
# On these the memory is checked by the hardware, so that a missing reading is a fault. GA100 has the ids from 20b0 on.
_GA100 = ("10de:20b", "10de:20f")
_BEFORE_FABRIC_STATES = ("Volta", "Turing", "Ampere")
_HEALTHY = (None, "Healthy")


def check_memory(subject: Subject) -> list[Verdict]:
    """Prove that no memory has failed: ECC errors, rows to remap, pages to retire."""
    found = Findings()
    for gpu in subject.gpus:
        name = name_of(gpu)
        found.failed += [f"{name} {problem}" for problem in _memory_problems(gpu)]
        missing = _missing_memory_readings(gpu)
        if missing and (_checks_its_memory(gpu) or gpu.get("uuid") is None):
            found.unknown.append(f"{name} does not report {' and '.join(missing)}: {_why(subject, gpu, missing[0])}")
    return found.verdicts("proof_memory", "No GPU reports a memory error.", f"{_RESET}. {_REPLACE}.")


def _memory_problems(gpu: Json) -> list[str]:
    ecc, rows, pages = (gpu.get(field) or {} for field in ("ecc", "remapped_rows", "retired_pages"))
    problems = []
    if ecc.get("uncorrected"):
        problems.append(f"has had {ecc['uncorrected']} uncorrected memory errors since the driver was loaded")
    if ecc and ecc.get("enabled") != ecc.get("pending"):
        problems.append(f"turns ECC {'on' if ecc.get('pending') else 'off'} only at the next reset")
    if rows.get("failure"):
        problems.append("has no row left to replace a failed one")
    if rows.get("pending"):
        problems.append("replaces failed rows only at the next reset")
    if pages.get("pending"):
        problems.append("retires pages only at the next reset")
    return problems


def _missing_memory_readings(gpu: Json) -> list[str]:
    missing = [field for field in ("ecc", "remapped_rows") if gpu.get(field) is None]
    ecc = gpu.get("ecc") or {}
    return ["ecc.uncorrected", *missing] if ecc.get("enabled") and ecc.get("uncorrected") is None else missing


def _checks_its_memory(gpu: Json) -> bool:
    device_id = str(gpu.get("device_id"))
    newer = {f"10de:{number}" for number in (*NVLINK_5, *NVL72)}
    return gpu.get("architecture") == "Hopper" or device_id.startswith(_GA100) or device_id in newer


def check_pcie(subject: Subject) -> list[Verdict]:
    """Prove that no PCIe link has lost lanes, or a generation that the slot had before or should have."""
    found = Findings()
    for gpu in subject.gpus:
        _find_lost_lanes(subject, gpu, found)
        _find_lost_generation(subject, gpu, found)
    remedy = "Turn the host off and on, and reseat the GPU or its riser."
    return found.verdicts("proof_pcie", "Every PCIe link has all of its lanes.", remedy)


def _find_lost_lanes(subject: Subject, gpu: Json, found: Findings) -> None:
    pcie = gpu.get("pcie") or {}
    width, lanes = pcie.get("width"), max(pcie.get("width_max") or 0, subject.former(gpu).get("width") or 0)
    if width is None or not lanes:
        found.unknown.append(f"{name_of(gpu)} does not report its PCIe link: {_why(subject, gpu, 'pcie')}")
    elif width < lanes:
        found.failed.append(f"{name_of(gpu)} has a PCIe link of {width} lanes instead of {lanes}")


def _find_lost_generation(subject: Subject, gpu: Json, found: Findings) -> None:
    """Judge what GPU and slot can do together. Their present state is no sign, because an idle GPU saves power."""
    least = subject.expected.get("pcie_generation") or subject.former(gpu).get("generation_host")
    generation = (gpu.get("pcie") or {}).get("generation_host")
    if least and generation is None:
        found.unknown.append(f"{name_of(gpu)} does not report the PCIe generation of its slot")
    elif least and generation < least:
        found.failed.append(f"{name_of(gpu)} has a slot of PCIe generation {generation} instead of {least}")


def check_nvlink(subject: Subject) -> list[Verdict]:
    """Prove that the NVLinks are up: all of them with switches, as many as before otherwise."""
    if subject.fabric == "none" and not any(former.get("links") for former in subject.former_gpus):
        return [Verdict("proof_nvlink", "skipped", "No fabric connects the GPUs, and no link was up before.")]
    found = Findings()
    for gpu in subject.gpus:
        if not _turns_its_links_off(gpu):
            _find_links_that_are_down(subject, gpu, found)
    remedy = "Look at nvidia-smi nvlink --status and at the fabric manager's log, and turn the host off and on."
    return found.verdicts("proof_nvlink", "All NVLinks are up.", remedy)


def _find_links_that_are_down(subject: Subject, gpu: Json, found: Findings) -> None:
    switched, former, nvlink = subject.fabric != "none", subject.former(gpu).get("links") or 0, gpu.get("nvlink")
    if nvlink is None and (switched or former):
        found.unknown.append(f"{name_of(gpu)} does not report its NVLinks: {_why(subject, gpu, 'nvlink')}")
    due = nvlink["links"] if nvlink and switched else former
    if nvlink and nvlink["active"] < due:
        found.failed.append(f"{name_of(gpu)} has {nvlink['active']} of {due} NVLinks up")


def _turns_its_links_off(gpu: Json) -> bool:
    """Return whether a GPU has no NVLinks because of MIG. Before Hopper, the fabric manager turns them off for it."""
    return gpu.get("architecture") == "Ampere" and bool((gpu.get("mig") or {}).get("mode"))


def check_fabric(subject: Subject) -> list[Verdict]:
    """Prove that every GPU has joined the fabric.

    Before Hopper the driver does not tell. There the fabric manager must run in the driver's version, and the check of
    the NVLinks is the other half of the proof: without the fabric manager, no link to a switch is up.
    """
    if subject.fabric == "none":
        return [Verdict("proof_fabric", "skipped", "No fabric connects the GPUs.")]
    if subject.gpus and all(gpu.get("architecture") in _BEFORE_FABRIC_STATES for gpu in subject.gpus):
        return [_fabric_by_service(subject)]
    found = Findings()
    for gpu in subject.gpus:
        failed, unknown = _fabric_problem(subject, gpu)
        found.failed += [f"{name_of(gpu)} {failed}"] if failed else []
        found.unknown += [f"{name_of(gpu)} {unknown}"] if unknown else []
    remedy = "Look at the log of the fabric manager or of IMEX (journalctl -u nvidia-fabricmanager -u nvidia-imex)."
    return found.verdicts("proof_fabric", "Every GPU has joined the fabric.", remedy, remedy)


def _fabric_problem(subject: Subject, gpu: Json) -> tuple[str, str]:
    """Return what is wrong with a GPU's fabric, and what is not known of it."""
    fabric = gpu.get("fabric")
    if fabric is None:
        return "", f"does not report the state of its fabric: {_why(subject, gpu, 'fabric')}"
    if fabric["state"] != "Completed":
        return f"has not joined the fabric: its state is {fabric['state']}", ""
    if fabric["status"] is None:
        return "", "does not report whether it has joined the fabric with success"
    if fabric["status"] != "Success":
        return f"has not joined the fabric: its status is {fabric['status']}", ""
    if fabric.get("health") not in _HEALTHY:
        problems = ", ".join(fabric.get("problems") or [])
        return f"has a fabric that is {fabric['health'].lower()}{f' ({problems})' if problems else ''}", ""
    return "", ""


def _fabric_by_service(subject: Subject) -> Verdict:
    check = "proof_fabric"
    service = (subject.facts.get("services") or {}).get("fabric_manager")
    if service is None or service["active"] is None:
        gathered = service is not None
        why = subject.why_unknown("services.fabric_manager") if gathered else "the subset services was not gathered"
        return Verdict(check, "unknown", f"Whether the fabric manager runs is not known: {why}.")
    if not service["active"]:
        remedy = "Start it (systemctl start nvidia-fabricmanager), and read its log."
        return Verdict(check, "failed", "The GPUs need the fabric manager, and it does not run.", remedy)
    if service["matches_driver"] is False:
        message = f"The fabric manager has the version {service['version']}, and not the driver's."
        return Verdict(check, "failed", message, "Install the fabric manager in the driver's version.")
    return Verdict(check, "passed", "The fabric manager runs in the driver's version.")


def check_persistence(subject: Subject) -> list[Verdict]:
    """Prove that persistence mode is on, if it should be."""
    if not subject.expected.get("persistence"):
        return [Verdict("proof_persistence", "skipped", "Persistence mode is not expected.")]
    found = Findings()
    for gpu in subject.gpus:
        mode = gpu.get("persistence_mode")
        if mode is None:
            why = _why(subject, gpu, "persistence_mode")
            found.unknown.append(f"{name_of(gpu)} does not report its persistence mode: {why}")
        elif not mode:
            found.failed.append(f"{name_of(gpu)} has persistence mode off")
    remedy = "Run nvidia-persistenced without --no-persistence-mode, as host_driver_persistence does."
    return found.verdicts("proof_persistence", "Persistence mode is on.", remedy)


def check_recovery(subject: Subject) -> list[Verdict]:
    """Prove that the driver is content with every GPU. Drivers before branch 570 give no recommendation."""
    found, asked = Findings(), False
    for gpu in subject.gpus:
        action = gpu.get("recovery_action")
        asked = asked or action is not None or gpu.get("uuid") is None
        if action is None and gpu.get("uuid") is None:
            found.unknown.append(f"{name_of(gpu)} does not report a recovery action: {_why(subject, gpu, 'uuid')}")
        elif action not in (None, "NONE"):
            found.failed.append(f"{name_of(gpu)} needs {action}, says the driver")
    if not asked:
        return [Verdict("proof_recovery", "skipped", "The driver recommends no recovery actions.")]
    return found.verdicts("proof_recovery", "The driver recommends no recovery action.", f"{_RESET}. {_REPLACE}.")


def _why(subject: Subject, gpu: Json, field: str) -> str:
    return str(gpu.get("reason") or subject.why_unknown(f"gpus.{field}")).rstrip(".")
