# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from ansible.module_utils.facts.collector import get_collector_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import gather
from inline_snapshot import snapshot as wording

from lab.nvml import L4, plant
from tests.unit.fakes.host import FakeHost


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_selected_subsets_are_those_that_the_code_of_setup_selects(length: int) -> None:
    ours = frozenset(gather.SUBSETS) - gather.ONLY_BY_NAME
    for asked in itertools.product(["all", "min", "!all", "!min", "xid", "!xid", "kernel", "!kernel"], repeat=length):
        theirs = get_collector_names(
            valid_subsets=ours, minimal_gather_subset=gather.MINIMUM, gather_subset=list(asked)
        )
        assert gather.select_subsets(asked) == theirs, asked


def test_an_unknown_subset_is_an_error() -> None:
    with pytest.raises(GpuOpsError) as error:
        gather.select_subsets(["gpu", "all", "cpu"])
    assert error.value.msg == wording(
        "There is no subset gpu, cpu. gather_subset accepts all, min, system, pci, gpus, nics, driver, nouveau, initramfs, kernel, secure_boot, iommu, passthrough, acs, services, runtimes, xid, hugepages, numa, node, files, reboot, each also with a ! before it."
    )


def test_only_the_sources_of_the_selected_subsets_are_used(tmp_path: Path) -> None:
    plant(tmp_path, L4, 1, driver=None, bound=None)
    host = FakeHost(tmp_path, systemctl="", rpm="")
    facts = gather.gather(host, ["!all", "!min", "pci", "services"], 5)
    assert set(facts) == {"gpus", "nvswitches", "fabric", "services", "sources"}
    assert sorted(command[0] for command in host.ran) == ["rpm", "systemctl"]
