# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci_ids import architecture_of, name_of

NVIDIA = "10de  NVIDIA Corporation\n\t0fff  Old [One]\n\t\t10de 1234  Board\n# comment\n\t2fff  GB999 [New]\n"
PCI_IDS = f"10dd  Enhance Limited\n{NVIDIA}10df  Emulex\n\t2ffe  Not NVIDIA's\n"


def test_names_come_from_the_hosts_table_if_ours_lacks_them() -> None:
    assert name_of("2fff", PCI_IDS) == "GB999 [New]"
    assert name_of("0fff", PCI_IDS) == "Old [One]"
    assert name_of("2ffe", PCI_IDS) is None
    assert name_of("2330", PCI_IDS) == "GH100 [H100 SXM5 80GB]"
    assert name_of("2fff") is None


@pytest.mark.parametrize(
    ("device_id", "architecture"),
    [
        ("15f9", "Pascal"),
        ("1db6", "Volta"),
        ("1eb8", "Turing"),
        ("20b2", "Ampere"),
        ("2237", "Ampere"),
        ("2330", "Hopper"),
        ("26b9", "Ada Lovelace"),
        ("2901", "Blackwell"),
        ("2bb5", "Blackwell"),
        ("31c2", "Blackwell"),
        ("ffff", None),
    ],
)
def test_the_generation_of_a_device(device_id: str, architecture: str | None) -> None:
    assert architecture_of(device_id) == architecture
