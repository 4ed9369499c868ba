# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof import guest_checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import Subject, Verdict
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._host.guests.test_guest_problems import FOR_GUESTS, GPU, facts


def subject(containerised: bool = False, expected: dict[str, t.Any] | None = None, **changes: t.Any) -> Subject:
    given = {**facts(**changes), "driver": {"containerised": containerised}}
    return Subject(given, "none", {}, expected or {}, "vm-passthrough")


def only(verdicts: list[Verdict]) -> tuple[str, str]:
    (verdict,) = verdicts
    return verdict.result, verdict.message


def test_the_iommu() -> None:
    assert only(guest_checks.check_iommu(subject()))[0] == "passed"
    # What the roles settle before a change has failed after it.
    off = subject(iommu={"enabled": False}, kernel={"cmdline": []})
    assert only(guest_checks.check_iommu(off)) == (
        "failed",
        wording("The IOMMU is off: the kernel has made no groups."),
    )


def test_groups() -> None:
    assert only(guest_checks.check_groups(subject()))[0] == "passed"
    assert only(guest_checks.check_groups(subject(iommu={"enabled": False})))[0] == "unknown"
    twin = {**GPU, "pci_address": "0000:19:00.0"}
    assert only(guest_checks.check_groups(subject(passthrough={"devices": [GPU, twin]})))[0] == "failed"


AUDIO = {**GPU, "pci_address": "0000:18:00.1", "kind": "audio", "device_id": "10de:1aef"}
BOUND = {"bound": True}


@pytest.mark.parametrize(
    ("devices", "expected", "result", "message"),
    [
        ([GPU], {}, "passed", wording("No driver of the host holds a GPU, and vfio can take them.")),
        ([GPU], BOUND, "failed", wording("No driver holds the GPUs 0000:18:00.0, and vfio should.")),
        ([{**GPU, "bound_driver": "vfio-pci"}], BOUND, "passed", wording("vfio holds every GPU.")),
        ([{**GPU, "bound_driver": "nvgrace_gpu_vfio_pci"}], BOUND, "passed", wording("vfio holds every GPU.")),
        (
            [{**GPU, "bound_driver": "nvidia"}],
            {},
            "failed",
            wording("Another driver than vfio holds the GPUs 0000:18:00.0 (nvidia)."),
        ),
        (
            [{**GPU, "bound_driver": "vfio-pci"}, {**AUDIO, "bound_driver": "snd_hda_intel"}],
            BOUND,
            "failed",
            wording(
                "Other drivers hold functions of the GPUs, so no guest gets the GPU: 0000:18:00.1 (snd_hda_intel)."
            ),
        ),
        # The kernel hands a group over if a function has no driver, and the operator's pods come later.
        ([{**GPU, "bound_driver": "vfio-pci"}, AUDIO], BOUND, "passed", wording("vfio holds every GPU.")),
        ([GPU, {**AUDIO, "bound_driver": "snd_hda_intel"}], {}, "passed", None),
        # A broken GPU that the user leaves out.
        ([{**GPU, "bound_driver": "nvidia"}], {"exclude": ["0000:18:00.0"]}, "passed", None),
    ],
)
def test_the_drivers_of_gpus(
    devices: list[t.Any], expected: dict[str, t.Any], result: str, message: str | None
) -> None:
    found = only(guest_checks.check_binding(subject(passthrough={"devices": devices}, expected=expected)))
    assert found[0] == result
    assert message in (None, found[1])


def test_without_a_gpu_nothing_is_proved() -> None:
    assert only(guest_checks.check_binding(subject(passthrough={"devices": []})))[0] == "unknown"
    assert only(guest_checks.check_vgpus(subject(expected=BOUND, passthrough={"vgpus": []})))[0] == "unknown"


def test_a_driver_container_has_the_gpus_until_the_label_changes() -> None:
    nvidia = {"devices": [{**GPU, "bound_driver": "nvidia"}]}
    assert only(guest_checks.check_binding(subject(True, passthrough=nvidia)))[0] == "skipped"
    assert only(guest_checks.check_binding(subject(True, BOUND, passthrough=nvidia)))[0] == "failed"


def vgpus(**changes: t.Any) -> dict[str, t.Any]:
    return {"vgpus": [{**FOR_GUESTS["passthrough"]["vgpus"][0], **changes}]}


@pytest.mark.parametrize(
    ("row", "expected", "result", "message"),
    [
        ({}, {}, "skipped", None),
        ({}, BOUND, "passed", wording("Every GPU offers vGPUs.")),
        # All room is taken, so the driver offers no types any more.
        ({"types": [], "vgpus": 4}, BOUND, "passed", None),
        ({"sriov_numvfs": 0}, BOUND, "failed", wording("The virtual functions of the GPUs 0000:18:00.0 are off.")),
        ({"types": []}, BOUND, "failed", wording("The GPUs 0000:18:00.0 offer no vGPU types.")),
    ],
)
def test_vgpus(row: dict[str, t.Any], expected: dict[str, t.Any], result: str, message: str | None) -> None:
    found = only(guest_checks.check_vgpus(subject(expected=expected, passthrough=vgpus(**row))))
    assert found[0] == result
    assert message in (None, found[1])
