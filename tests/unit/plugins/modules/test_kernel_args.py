# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import kernel_args
from inline_snapshot import snapshot as wording

from tests.unit.fakes.boot_host import debian
from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.modules import RunModule


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = debian(tmp_path)
    monkeypatch.setattr(kernel_args, "Host", lambda: host)
    return host


def test_predicts_sets_and_removes(host: FakeHost, run_module: RunModule) -> None:
    predicted = run_module("kernel_args", args=["iommu=pt"], _ansible_check_mode=True, _ansible_diff=True)
    assert host.ran == []
    done = run_module("kernel_args", args=["iommu=pt"], _ansible_diff=True)
    assert predicted.result == done.result
    assert (done.rc, done.result["changed"], done.result["diff"]["after"], done.result["bootloader"]) == (
        0,
        True,
        "iommu=pt\n",
        "grub",
    )
    assert not run_module("kernel_args", args=["iommu=pt"]).result["changed"]
    assert run_module("kernel_args", state="absent").result["configured"] == ["root=UUID=2f0c", "ro", "quiet"]


def test_warns_of_another_value_of_the_same_name(host: FakeHost, run_module: RunModule) -> None:
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=off"\n')
    host.commands["update-grub"]([])
    assert run_module("kernel_args", args=["iommu=pt"]).warnings == [
        wording("iommu=off is also set elsewhere. The kernel uses the last value, which is the one set here.")
    ]


def test_warns_of_entries_that_were_written_by_hand(host: FakeHost, run_module: RunModule) -> None:
    host.put("/etc/grub.d/40_custom", "menuentry 'Rescue' {\n linux /vmlinuz-rescue ro\n}")
    done = run_module("kernel_args", args=["iommu=pt"])
    assert (done.rc, done.result["entries_without"]) == (0, ["Rescue"])
    assert done.warnings == [
        wording("The boot entries Rescue were written by hand and lack the arguments. Add them there.")
    ]


def test_a_wrong_argument_is_one_message(host: FakeHost, run_module: RunModule) -> None:
    failed = run_module("kernel_args", args=["amd_iommu=on", "a b"])
    assert (failed.rc, failed.result["reason"]) == (1, "Invalid")
    assert "amd_iommu=on has no effect" in failed.result["msg"] and failed.result["msg"] == wording(
        "amd_iommu=on has no effect: amd_iommu takes force_enable, force_isolation, fullflush, irtcachedis, nohugepages, off, pgtbl_v1, pgtbl_v2, v2_pgsizes_only. The IOMMU of an AMD CPU is on by default. Use iommu=pt for passthrough. 'a b' is not a kernel argument. Write name or name=value, one in each item, without blanks, quotes or shell characters."
    )
