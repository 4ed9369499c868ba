# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from inline_snapshot import snapshot as wording


@pytest.mark.parametrize("name", ["gpuops", "a", "0", "team-a_2", "x" * 40])
def test_names_that_can_be_part_of_a_file_name_are_accepted(name: str) -> None:
    owners.assert_valid(name)


@pytest.mark.parametrize("name", ["", "../x", "A", "a b", "-a", "_a", "x" * 41, "a\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(GpuOpsError) as failed:
        owners.assert_valid(name)
    assert failed.value.reason == "Invalid"
    assert failed.value.msg == wording(
        "owner must be at most 40 lower-case letters, digits, dashes and underscores, and begin with a letter or a digit."
    )


def test_the_header_names_the_module_and_warns_editors() -> None:
    assert owners.header("kernel_sysctls", "sysctls") == (
        wording(
            "# Written by gpuops.nvidia.kernel_sysctls. Do not edit: change the owner's sysctls in the inventory.\n"
        )
    )


def test_each_module_has_its_own_folder_of_records() -> None:
    assert owners.records("kernel_args") == "/etc/gpuops/kernel_args"
