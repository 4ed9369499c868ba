# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.other_drivers import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE


def host(driver: str | None, *, nouveau: bool, loaded: bool) -> dict[str, t.Any]:
    """Return what is known of a host whose GPU is bound to a driver."""
    gpu = {"pci_address": "0000:18:00.0", "bound_driver": driver, "lost": False}
    facts = {"gpus": [gpu], "nouveau": {"loaded": nouveau}, "driver": {"loaded": loaded}}
    return {"hosts": {NODE: {"facts": facts}}}


@pytest.mark.parametrize(
    ("evidence", "code", "certainty"),
    [
        (host("nouveau", nouveau=True, loaded=False), "NouveauHoldsGPU", "certain"),
        (host(None, nouveau=True, loaded=False), "NouveauHoldsGPU", "likely"),
        (host("nova_core", nouveau=False, loaded=False), "OtherDriverHoldsGPU", "certain"),
    ],
)
def test_the_driver_that_holds_the_gpu_is_named(evidence: dict[str, t.Any], code: str, certainty: str) -> None:
    found = diagnosed.found(RULES, **evidence)
    assert {each: finding.certainty for each, finding in found.items()} == {code: certainty}


def test_a_gpu_for_virtual_machines_is_in_order_and_one_for_containers_is_not() -> None:
    evidence = host("vfio-pci", nouveau=False, loaded=False)
    stack = diagnosed.stack(diagnosed.row())
    assert not diagnosed.found(RULES, **evidence)
    assert "vfio-pci holds the GPU" in diagnosed.found(RULES, stack=stack, **evidence)["OtherDriverHoldsGPU"].cause
    labels = {"nvidia.com/gpu.workload.config": "vm-passthrough"}
    objects = {"nodes": [{"metadata": {"name": NODE, "labels": labels}}]}
    assert not diagnosed.found(RULES, stack=stack, objects=objects, **evidence)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        # https://github.com/negativo17/nvidia-driver/issues/73
        ("\tKernel driver in use: nouveau", "NouveauHoldsGPU"),
        # https://github.com/NixOS/nixpkgs/issues/29514
        ("Sep 17 20:06:40 n1 kernel: nouveau 0000:01:00.0: DRM: VRAM: 2048 MiB", "NouveauHoldsGPU"),
        # https://github.com/beclab/Olares/pull/3963
        ("[  201.910514] NVRM: GPU 0000:01:00.0 is already bound to NovaCore.", "OtherDriverHoldsGPU"),
    ],
)
def test_published_lines(line: str, code: str) -> None:
    assert set(diagnosed.found(RULES, line)) == {code}


@pytest.mark.parametrize(
    "line",
    [
        # https://github.com/NVIDIA/gpu-operator/issues/413
        "Is nouveau loaded? no",
        # lspci -k on a host with NVIDIA's driver
        "\tKernel modules: nouveau, nvidia_drm, nvidia",
        # The list of what might be: the installer names nouveau in each failure.
        "or if another driver, such as nouveau, is present and prevents the NVIDIA kernel module from obtaining",
    ],
)
def test_a_line_that_only_mentions_nouveau_says_nothing(line: str) -> None:
    assert not diagnosed.found(RULES, line)


def test_the_facts_of_a_host_outweigh_its_log() -> None:
    old = TextLine("nouveau 0000:18:00.0: DRM: VRAM: 2048 MiB", "kernel", "kernel log", NODE)
    assert not diagnosed.found(RULES, old, **host("nvidia", nouveau=False, loaded=True))


def test_what_follows_from_nouveau_is_listed_under_it() -> None:
    stack = diagnosed.stack(diagnosed.row(waiting_for={"driver": "CrashLoopBackOff"}))
    found = diagnosed.found(RULES, stack=stack, **host("nouveau", nouveau=True, loaded=False))
    assert set(found) == {"NouveauHoldsGPU"}
    assert [each.code for each in found["NouveauHoldsGPU"].consequences] == ["OperandWaiting"]


def test_a_probe_that_was_not_called_is_a_sign_where_no_facts_say_more() -> None:
    line = TextLine("NVRM: The NVIDIA probe routine was not called for 1 device(s).", "kernel", "kernel log", NODE)
    assert diagnosed.found(RULES, line)["OtherDriverHoldsGPU"].certainty == "likely"
    assert not diagnosed.found(RULES, line, **host("nvidia", nouveau=False, loaded=True))
