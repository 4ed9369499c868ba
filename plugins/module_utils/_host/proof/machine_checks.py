# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Checks of what a host must have: the driver, all of its GPUs and switches, and no fatal error since the boot."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import (
    Findings,
    Subject,
    Verdict,
    name_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import messages

_SEE_THE_LOG = "Read why in the kernel log (dmesg | grep NVRM)"


def check_driver(subject: Subject) -> list[Verdict]:
    """Prove that the host's own driver is loaded, whole and of the wanted version."""
    check, driver = "proof_driver", subject.facts["driver"]
    if not driver["loaded"]:
        return [_not_loaded(subject, driver)]
    if driver["containerised"]:
        message = "A driver container has loaded the driver, and the host should have its own."
        return [Verdict(check, "failed", message, "Remove the driver container, and reboot.")]
    if driver["version"] is None:
        return [
            Verdict(check, "unknown", f"The driver's version is not known: {subject.why_unknown('driver.version')}.")
        ]
    wanted = str(subject.expected.get("version") or "")
    if not _is_version(driver["version"], wanted):
        message = f"The driver {driver['version']} is loaded, and {wanted} is wanted."
        return [Verdict(check, "failed", message, "Reboot. If that does not help, install the wanted version.")]
    return [_libraries(subject, driver)]


def _not_loaded(subject: Subject, driver: Json) -> Verdict:
    installed = driver.get("installed_version") or driver["userspace_version"]
    if not driver["module_installed"]:
        kernel = (subject.facts.get("kernel") or {}).get("running")
        message = f"The kernel {kernel} has no module of NVIDIA's driver." if kernel else "No driver is installed."
        remedy = "Install the kernel's headers and build the module (dkms autoinstall), or install a matching package."
        return Verdict("proof_driver", "failed", message, remedy)
    if driver.get("signer_enrolled") is False:
        message = f"The driver {installed} is not loaded, and the kernel does not trust its signer {driver['signer']}."
        return Verdict("proof_driver", "failed", message, "Enroll the key (mokutil --import), or turn secure boot off.")
    return Verdict("proof_driver", "failed", f"The driver {installed} is installed and not loaded.", f"{_SEE_THE_LOG}.")


def _libraries(subject: Subject, driver: Json) -> Verdict:
    if driver["matches"] is False:
        versions = f"the modules are {driver['version']}, the libraries {driver['userspace_version']}"
        message = f"The driver's parts have different versions: {versions}."
        return Verdict("proof_driver", "failed", message, "Install both in one version, and reboot.")
    if driver["matches"] is None:
        why = subject.why_unknown("driver.matches")
        return Verdict("proof_driver", "unknown", f"Whether the libraries fit the driver is not known: {why}.")
    return Verdict("proof_driver", "passed", f"The driver {driver['version']} is loaded.")


def _is_version(version: str, wanted: str) -> bool:
    """Return whether a version is the wanted one, or of the wanted branch."""
    return not wanted or version == wanted or version.startswith(f"{wanted}.")


def check_gpus(subject: Subject) -> list[Verdict]:
    """Prove that every GPU is there, of the right model, and answers."""
    found = Findings(failed=[*_missing(subject), *_wrong_models(subject)])
    for gpu in subject.gpus:
        if gpu.get("lost"):
            found.failed.append(f"{name_of(gpu)} has fallen off the bus")
        elif subject.has_driver and gpu.get("uuid") is None:
            why = str(gpu.get("reason") or subject.why_unknown("gpus.uuid")).rstrip(".")
            found.unknown.append(f"{name_of(gpu)} does not answer the driver: {why}")
    remedy = "Turn the host off and on. If that does not help, replace the GPUs, or exclude them (expected.exclude)."
    names = first_few(sorted({str(gpu.get("product") or gpu.get("name")) for gpu in subject.gpus}))
    return found.verdicts("proof_gpus", f"GPUs: {len(subject.gpus)}, {names}.", remedy, f"{_SEE_THE_LOG}.")


def _missing(subject: Subject) -> t.Iterator[str]:
    """Yield what is wrong with the number of GPUs. What the user states is stronger than what was there before."""
    stated = subject.expected.get("gpus")
    if stated is not None:
        wanted = stated - subject.excluded
        if len(subject.gpus) != wanted:
            yield f"The PCI bus has {len(subject.gpus)} GPUs, and {wanted} are expected"
    elif subject.former_gpus:
        here = {gpu["pci_address"] for gpu in subject.gpus}
        gone = [former["pci_address"] for former in subject.former_gpus if former["pci_address"] not in here]
        if gone:
            yield f"The GPUs {', '.join(gone)} are no longer on the PCI bus"
    elif not subject.gpus:
        yield "There is no NVIDIA GPU on the PCI bus"


def _wrong_models(subject: Subject) -> t.Iterator[str]:
    model = str(subject.expected.get("model") or "")
    for gpu in subject.gpus:
        names = [str(name) for name in (gpu.get("product"), gpu.get("name")) if name]
        if model and not any(model.lower() in name.lower() for name in names):
            yield f"{name_of(gpu)} is {' or '.join(names) or 'of an unknown model'}, and {model} is expected"


def check_nvswitches(subject: Subject) -> list[Verdict]:
    """Prove that as many NVSwitches are there as expected, or as before."""
    check, here = "proof_nvswitches", len(subject.facts["nvswitches"] or [])
    stated = subject.expected.get("nvswitches")
    wanted = subject.before.get("nvswitches") if stated is None else stated
    if wanted is None:
        return [Verdict(check, "skipped", "The expected number of NVSwitches is unknown.")]
    # Without a statement, more switches than before are no fault.
    if here == wanted or (stated is None and here > wanted):
        return [Verdict(check, "passed", f"NVSwitches: {here}.")]
    message = f"The PCI bus has {here} NVSwitches, and {wanted} are expected."
    return [Verdict(check, "failed", message, "Turn the host off and on. If that does not help, replace the board.")]


def check_errors(subject: Subject) -> list[Verdict]:
    """Prove that the kernel log has no error of a GPU or a switch after which it must be reset or replaced."""
    check, events = "proof_errors", subject.facts.get("xid")
    if events is None:
        why = subject.why_unknown("xid") if "xid" in subject.facts else "the subset xid was not gathered"
        return [Verdict(check, "unknown", f"The errors in the kernel log are not known: {why}.")]
    fatal = [event for event in messages.standing(events) if not _is_of_excluded(subject, event)]
    if not fatal:
        return [Verdict(check, "passed", "The kernel log has no fatal error of a GPU or a switch since the boot.")]
    names = sorted(set(map(messages.describe, fatal)))
    message = f"The kernel log since the boot has fatal errors: {first_few(names)}."
    return [
        Verdict(check, "failed", message, "Follow NVIDIA's Xid catalog. A reboot or a reset of the GPU comes first.")
    ]


def _is_of_excluded(subject: Subject, event: Json) -> bool:
    of_event = (gpu for gpu in subject.facts["gpus"] if gpu["pci_address"] == event["gpu"])
    return any(map(subject.is_excluded, of_event))
