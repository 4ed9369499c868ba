# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import table

from lab.nvml import profiles

# `nvidia-smi mig -lgip` and `-lgipp` as published from real GPUs, and NVIDIA's MIG User Guide where none was found:
# per profile its most instances, and the placements as nvidia-smi prints them.
PUBLISHED = {
    "A30": {
        "1g.6gb": (4, "{0,1,2,3}:1"),
        "1g.6gb+me": (1, "{0,1,2,3}:1"),
        "2g.12gb": (2, "{0,2}:2"),
        "2g.12gb+me": (1, "{0,2}:2"),
        "4g.24gb": (1, "{0}:4"),
    },
    "A100-40GB": {
        "1g.5gb": (7, "{0,1,2,3,4,5,6}:1"),
        "1g.5gb+me": (1, "{0,1,2,3,4,5,6}:1"),
        "1g.10gb": (4, "{0,2,4,6}:2"),
        "2g.10gb": (3, "{0,2,4}:2"),
        "3g.20gb": (2, "{0,4}:4"),
        "4g.20gb": (1, "{0}:4"),
        "7g.40gb": (1, "{0}:8"),
    },
    "H100-80GB": {
        "1g.10gb": (7, "{0,1,2,3,4,5,6}:1"),
        "1g.10gb+me": (1, "{0,1,2,3,4,5,6}:1"),
        "1g.20gb": (4, "{0,2,4,6}:2"),
        "2g.20gb": (3, "{0,2,4}:2"),
        "3g.40gb": (2, "{0,4}:4"),
        "4g.40gb": (1, "{0}:4"),
        "7g.80gb": (1, "{0}:8"),
    },
    "RTX-PRO-6000": {
        "1g.24gb": (4, "{0,3,6,9}:3"),
        "1g.24gb+me": (1, "{0,3,6,9}:3"),
        "1g.24gb+gfx": (4, "{0,3,6,9}:3"),
        "1g.24gb+me.all": (1, "{0,3,6,9}:3"),
        "1g.24gb-me": (4, "{0,3,6,9}:3"),
        "2g.48gb": (2, "{0,6}:6"),
        "2g.48gb+gfx": (2, "{0,6}:6"),
        "2g.48gb+me.all": (1, "{0,6}:6"),
        "2g.48gb-me": (2, "{0,6}:6"),
        "4g.96gb": (1, "{0}:12"),
        "4g.96gb+gfx": (1, "{0}:12"),
    },
}

# The same from the guide for the GPUs that are divided into halves, whose placements are published nowhere.
HALVES = {
    "RTX-PRO-5000": "1g.24gb:2 1g.24gb+gfx:2 1g.24gb+me.all:1 1g.24gb-me:2 2g.48gb:1 2g.48gb+gfx:1 1g.24gb+me:1",
    "RTX-PRO-4500": "1g.16gb:2 1g.16gb+gfx:2 1g.16gb+me.all:1 1g.16gb-me:2 2g.32gb:1 2g.32gb+gfx:1",
}


@pytest.mark.parametrize("model", HALVES)
def test_gpus_of_two_halves_have_the_profiles_of_the_guide(model: str) -> None:
    assert " ".join(f"{each.name}:{each.most}" for each in table.named(model).profiles) == HALVES[model]


@pytest.mark.parametrize("model", sorted(PUBLISHED))
def test_profiles_and_placements_are_those_that_nvidia_smi_prints(model: str) -> None:
    found = {
        each.name: (each.most, f"{{{','.join(map(str, each.starts))}}}:{each.slots}")
        for each in table.named(model).profiles
    }
    assert found == PUBLISHED[model]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("A100-64GB", "1g.8gb 1g.8gb+me 1g.16gb 2g.16gb 3g.32gb 4g.32gb 7g.64gb"),
        ("H100-64GB", "1g.8gb 1g.8gb+me 1g.16gb 2g.16gb 3g.32gb 4g.32gb 7g.64gb"),
        ("H20-3e", "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
        ("A100-80GB", "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("H100-94GB", "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"),
        ("H100-96GB", "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
        ("H200", "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
        ("GH200-144GB", "1g.18gb 1g.18gb+me 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb"),
        ("B200", "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
        ("GB200", "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb"),
        ("B300", "1g.34gb 1g.34gb+me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb"),
        ("GB300", "1g.35gb 1g.35gb+me 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb"),
    ],
)
def test_names_follow_from_the_memory(model: str, expected: str) -> None:
    """The names are those of the guide, and of the operator's default layouts."""
    assert " ".join(each.name for each in table.named(model).profiles) == expected
    assert [each.most for each in table.named(model).profiles] == [7, 1, 4, 3, 2, 1, 1]


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("NVIDIA-A30", "A30"),
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-40GB"),
        ("NVIDIA-A100-PCIE-40GB-SHARED", "A100-40GB"),
        ("NVIDIA-A100-PCIE-40GB-MIG-1g.5gb-SHARED", "A100-40GB"),
        ("NVIDIA-A800-40GB-Active", "A100-40GB"),
        ("A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB"),
        ("NVIDIA-A800-SXM4-80GB", "A100-80GB"),
        ("NVIDIA-H100-80GB-HBM3-MIG-INVALID", "H100-80GB"),
        ("NVIDIA H100 PCIe", "H100-80GB"),
        ("NVIDIA-H800", "H100-80GB"),
        ("NVIDIA-H100-NVL", "H100-94GB"),
        ("NVIDIA-GH200-480GB", "H100-96GB"),
        ("NVIDIA-H20", "H100-96GB"),
        ("NVIDIA-H200", "H200"),
        ("NVIDIA-H200-NVL", "H200"),
        ("NVIDIA-GH200-144G-HBM3e", "GH200-144GB"),
        ("NVIDIA-B200", "B200"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-GB300", "GB300"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX-PRO-6000"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-1g.24gb", "RTX-PRO-6000"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Ed-MIG-1g.24gb", "RTX-PRO-6000"),  # cut off at 63 characters
        ("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-W-MIG-1g.24gb.me.all-SHARED", "RTX-PRO-6000"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb-me", "RTX-PRO-6000"),
        ("NVIDIA-RTX-PRO-5000-Blackwell", "RTX-PRO-5000"),
        ("NVIDIA-RTX-PRO-4500-Blackwell-MIG-1g.16gb", "RTX-PRO-4500"),
        ("NVIDIA-A30X", "A30X"),
        ("NVIDIA-A100X", "A100X"),
        ("NVIDIA-A100-SXM-64GB", "A100-64GB"),
        ("NVIDIA-A800-SXM4-40GB", "A800-SXM4-40GB"),
        ("NVIDIA-A100-PG509-200", "A100-40GB"),
        ("NVIDIA-PG509-210", "A100-80GB"),
        ("NVIDIA-PG506-232", "H100-96GB"),
        ("NVIDIA-H100-64GB", "H100-64GB"),
        ("NVIDIA-H20-3e", "H20-3e"),
        ("NVIDIA-H200-141GB-HBM3e", "H200"),
    ],
)
def test_a_product_label_or_name_tells_the_model(product: str, model: str) -> None:
    assert getattr(table.model_of(product), "name", None) == model


@pytest.mark.parametrize(
    "product", ["", None, "NVIDIA-L40S", "NVIDIA-H100", "Tesla-T4", "NVIDIA-RTX-PRO-5000-72GB-Blackwell"]
)
def test_other_products_have_no_model(product: str | None) -> None:
    """Two GPUs are named H100 without their memory, and the profiles of the RTX PRO 5000 72GB are published nowhere."""
    assert table.model_of(product) is None


@pytest.mark.parametrize(
    ("device", "model"),
    [
        (0x20B0, "A100-40GB"),
        (0x20B010DE, "A100-40GB"),
        (0x20B710DE, "A30"),
        (0x20B9, "A30X"),
        (0x2BB5, "RTX-PRO-6000"),
        (0x26B9, None),
    ],
)
def test_a_pci_device_tells_the_model(device: int, model: str | None) -> None:
    assert getattr(table.model_of("NVIDIA-A30", device), "name", None) == model


def test_profiles_are_found_by_either_name_and_by_number() -> None:
    gb200 = table.named("GB200")
    assert gb200.profile("3g.95gb") is gb200.profile("3g.93gb")
    assert gb200.profile("9g.9gb") is None
    assert (table.named("A30").by_gi(8), table.named("A30").by_gi(9)) == (
        table.named("A30").profile("2g.12gb+me"),
        None,
    )
    assert table.named("A100-40GB").profiles[4].computes == (1, 2, 3)


def test_no_two_models_share_a_device_and_no_two_profiles_a_number() -> None:
    devices = [device for model in table.MODELS for device in model.devices]
    assert len(devices) == len(set(devices)) == 37
    for model in table.MODELS:
        assert len({each.gi for each in model.profiles}) == len(model.profiles)


@pytest.mark.parametrize(
    ("model", "simulated"),
    [
        ("A30", "a30"),
        ("A100-40GB", "a100-40gb"),
        ("A100-80GB", "a100-80gb"),
        ("H100-80GB", "h100"),
        ("H200", "h200"),
        ("B200", "b200"),
    ],
)
def test_the_simulated_nvml_has_the_same_profiles_from_sources_of_its_own(model: str, simulated: str) -> None:
    ours = {
        each.name: (each.gi, each.compute, each.starts, each.slots, each.most, each.ofa)
        for each in table.named(model).profiles
    }
    theirs = {
        each.name: (each.number, each.slices, each.starts, each.size, each.most, each.engines[3])
        for each in profiles.TABLES[simulated]
    }
    assert ours == theirs
