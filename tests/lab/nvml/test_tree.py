# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The procfs of a simulated machine."""

from __future__ import annotations

from pathlib import Path

from lab.nvml import H100, plant


def test_mig_instances_have_the_devices_of_a_real_machine(tmp_path: Path) -> None:
    """``slurmd -G`` printed these numbers on four H100: stackhpc/ansible-slurm-appliance, docs/mig.md."""
    plant(tmp_path, H100, 4)
    lines = (tmp_path / "proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
    minors = dict(line.split() for line in lines)
    assert {minors[f"gpu2/gi{number}/access"] for number in (2, 7, 8, 9)} == {"291", "336", "345", "354"}
    assert {minors[f"gpu3/gi{number}/access"] for number in (1, 11, 12, 13)} == {"417", "507", "516", "525"}
    assert minors["gpu0/gi0/ci0/access"] == "4" and len(set(minors.values())) == len(lines)
