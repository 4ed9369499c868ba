# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import kernel_args as core

from tests.unit.boot_host import FakeHost, debian, redhat

ENTRY = "/boot/loader/entries/4f-5.14.0-362.el9.x86_64.conf"


def apply(host: FakeHost, *args: str, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    return core.set_arguments(
        host,
        {"owner": "gpuops", "iommu": None, "state": "present", "hugepages": {}, **options, "args": list(args)},
        check,
    )


def four_steps(host: FakeHost, *args: str, **options: t.Any) -> dict[str, t.Any]:
    """Check, run, check again, run again: the check tells the truth, and the second run has nothing to do. Returns the run's result."""
    predicted = apply(host, *args, check=True, **options)
    done = apply(host, *args, **options)
    assert {**predicted, "diff": done["diff"]} == done
    for check in (True, False):
        again = apply(host, *args, check=check, **options)
        assert not again["changed"] and again["configured"] == done["configured"]
    return done


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("intel_iommu=yes", "intel_iommu takes"),
        ("amd_iommu=on", "on by default; iommu=pt"),
        ("iommu=pt,bogus", "has no effect"),
        ("hugepages=many", "takes a number"),
        ("hugepagesz=3M", "hugepagesz takes"),
        ("root=/dev/sda1", "belongs to the boot loader"),
        ("a b", "not a kernel argument"),
        ("x=$(reboot)", "not a kernel argument"),
        ('dyndbg="file foo"', "not a kernel argument"),
        ("", "not a kernel argument"),
        ("-x", "not a kernel argument"),
    ],
)
def test_an_argument_that_would_do_nothing_or_harm_is_one_clear_sentence(argument: str, sentence: str) -> None:
    (problem,) = core.problems([argument])
    assert sentence in problem


def test_arguments_that_people_need_are_fine() -> None:
    wanted = [
        "intel_iommu=on,sm_on",
        "iommu=pt",
        "hugepagesz=1G",
        "hugepages=0:4,1:4",
        "hugepagesz=2M",
        "hugepages=512",
        "pci=realloc=off,nocrs",
        "nokaslr",
    ]
    assert core.problems([*wanted, "vfio-pci.ids=10de:2330", "modprobe.blacklist=nouveau", "isolcpus=1-7"]) == []
    assert core.problems(["quiet", "quiet"]) == ["quiet is given twice."]


@pytest.mark.parametrize(
    ("mode", "vendor", "wanted"),
    [(mode, vendor, args) for mode, by in core.IOMMU.items() for vendor, args in by.items()],
)
def test_the_iommus_arguments_are_valid(mode: str, vendor: str, wanted: list[str]) -> None:
    assert core.problems(wanted) == []


def test_cpu_vendors() -> None:
    assert core.cpu_vendor("vendor_id\t: GenuineIntel\n") == "intel"
    assert core.cpu_vendor("vendor_id\t: HygonGenuine\n") == "amd"
    assert core.cpu_vendor("processor\t: 0\nCPU implementer\t: 0x41\n") == "arm"


def test_debian_gets_a_drop_in_and_every_normal_entry_the_arguments(tmp_path: Path) -> None:
    host = debian(tmp_path)
    done = four_steps(host, "hugepages=16", iommu="passthrough")
    assert done["configured"][-3:] == ["intel_iommu=on", "iommu=pt", "hugepages=16"]
    assert done["changed"] and done["reboot_required"]
    assert done["diff"]["after"] == "intel_iommu=on\niommu=pt\nhugepages=16\n"
    assert host.read("/etc/default/grub.d/zz-gpuops.cfg").endswith(
        'DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT intel_iommu=on iommu=pt hugepages=16"'
    )
    assert host.ran == [["update-grub"]]

    changed = four_steps(host, "iommu=nopt")
    assert changed["configured"] == ["root=UUID=2f0c", "ro", "quiet", "iommu=nopt"]

    gone = four_steps(host, state="absent")
    assert gone["configured"] == ["root=UUID=2f0c", "ro", "quiet"] and not gone["reboot_required"]
    assert not host.exists("/etc/default/grub.d/zz-gpuops.cfg")


def test_owners_do_not_touch_each_other(tmp_path: Path) -> None:
    host = debian(tmp_path)
    apply(host, "iommu=pt")
    apply(host, "iommu=nopt", "nokaslr", owner="other")
    assert apply(host, state="absent")["configured"][-2:] == ["iommu=nopt", "nokaslr"]


def test_an_equal_argument_of_somebody_else_stays(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=pt"\n')
    host.commands["update-grub"]([])
    done = four_steps(host, "iommu=pt", "intel_iommu=on")
    assert done["configured"].count("iommu=pt") == 2 and done["elsewhere"] == []
    assert four_steps(host, "intel_iommu=on")["configured"].count("iommu=pt") == 1


def test_another_value_elsewhere_is_named(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=off"\n')
    host.commands["update-grub"]([])
    assert apply(host, "iommu=pt", check=True)["elsewhere"] == ["iommu=off"]


def test_a_run_that_was_killed_before_the_boot_loader_is_completed(tmp_path: Path) -> None:
    host = debian(tmp_path)
    apply(host, "iommu=pt", "nokaslr")
    update_grub = host.commands.pop("update-grub")

    def killed(_command: list[str]) -> str:
        raise KeyboardInterrupt

    for options in ({"args": ["iommu=pt"]}, {"args": [], "state": "absent"}):
        host.commands["update-grub"] = killed
        with pytest.raises(KeyboardInterrupt):
            apply(host, *options["args"], state=options.get("state", "present"))
        host.commands["update-grub"] = update_grub
        assert apply(host, *options["args"], state=options.get("state", "present"), check=True)["changed"]
        assert (
            four_steps(host, *options["args"], state=options.get("state", "present"))["configured"][3:]
            == options["args"]
        )


def test_a_configuration_that_lost_the_arguments_gets_them_back(tmp_path: Path) -> None:
    host = debian(tmp_path)
    apply(host, "iommu=pt")
    host.put("/boot/grub/grub.cfg", "linux /vmlinuz-6.8.0-60-generic root=UUID=2f0c ro quiet\n")
    assert four_steps(host, "iommu=pt")["changed"]


@pytest.mark.parametrize("earlier", [[], ["nokaslr"]])
def test_a_boot_loader_that_refuses_leaves_everything_as_it_was(tmp_path: Path, earlier: list[str]) -> None:
    host = debian(tmp_path)
    apply(host, *earlier)
    before = (host.read("/etc/default/grub.d/zz-gpuops.cfg"), host.read("/boot/grub/grub.cfg"))

    def refuse(_command: list[str]) -> str:
        raise OSError("grub-probe: failed to get canonical path of overlay")

    host.commands["update-grub"] = refuse
    with pytest.raises(GpuOpsError, match=r"update-grub failed, .* left as they were: .*canonical path"):
        apply(host, "iommu=pt")
    assert (host.read("/etc/default/grub.d/zz-gpuops.cfg"), host.read("/boot/grub/grub.cfg")) == before


def test_a_boot_loader_that_ignores_the_drop_in_is_told(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.commands["update-grub"] = lambda _command: ""
    with pytest.raises(GpuOpsError, match="still without iommu=pt"):
        apply(host, "iommu=pt")
    assert not host.exists("/etc/default/grub.d/zz-gpuops.cfg")


@pytest.mark.parametrize("check", [True, False])
def test_an_unwritable_or_full_boot_is_told_before_anything_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    host = debian(tmp_path)
    monkeypatch.setattr(host, "writable", lambda folder: folder != "/boot/grub")
    with pytest.raises(GpuOpsError, match="/boot/grub is not writable, so the kernel arguments are left as they are"):
        apply(host, "iommu=pt", check=check)
    monkeypatch.undo()
    monkeypatch.setattr(host, "free_bytes", lambda folder: core.ROOM - (folder == "/boot/grub"))
    with pytest.raises(
        GpuOpsError, match="/boot/grub is on a file system that is full, so the kernel arguments are left as they are"
    ):
        apply(host, "iommu=pt", check=check)
    assert host.ran == [] and not host.exists("/etc/default/grub.d/zz-gpuops.cfg")
    assert not apply(host, check=check)["changed"]  # nothing to do needs no permission and no room


def test_red_hat_entries_are_edited_and_what_was_displaced_comes_back(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    done = four_steps(host, hugepages={"1G": 4}, iommu="passthrough")
    wanted = ["iommu=pt", "hugepagesz=1G", "hugepages=4"]
    assert done["configured"] == ["ro", "crashkernel=1G", *wanted] and done["elsewhere"] == ["iommu=off"]
    assert host.read(ENTRY).endswith(f"options ro crashkernel=1G {' '.join(wanted)}")
    assert json.loads(host.read("/etc/gpuops/kernel_args/gpuops.json")) == {
        "args": wanted,
        "pending": False,
        "replaced": ["iommu=off"],
        "was": [],
    }

    fewer = four_steps(host, "iommu=pt")
    assert fewer["configured"] == ["ro", "crashkernel=1G", "iommu=pt"]

    gone = four_steps(host, state="absent")
    assert sorted(gone["configured"]) == ["crashkernel=1G", "iommu=off", "ro"] and not gone["reboot_required"]
    assert not host.exists("/etc/gpuops/kernel_args/gpuops.json")


@pytest.mark.parametrize("check", [True, False])
def test_grubby_keeps_one_value_for_each_name(tmp_path: Path, check: bool) -> None:
    host = redhat(tmp_path)
    before = host.read(ENTRY)
    with pytest.raises(GpuOpsError, match="hugepages and hugepagesz cannot be given more than once"):
        apply(host, hugepages={"1G": 4, "2M": 64}, check=check)
    assert host.read(ENTRY) == before and not host.exists("/etc/gpuops/kernel_args/gpuops.json")


def test_a_new_kernel_of_red_hat_without_the_arguments_gets_them(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    apply(host, "nokaslr")
    host.put(ENTRY, host.read(ENTRY).replace(" nokaslr", ""))
    assert four_steps(host, "nokaslr")["changed"] and " nokaslr" in host.read(ENTRY)


def test_a_grubby_that_was_killed_or_failed_is_run_again(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    apply(host, "iommu=pt", "nokaslr")
    grubby = host.commands["grubby"]

    def half(command: list[str]) -> str:
        if "--info=ALL" in command:
            return grubby(command)
        raise OSError("No space left on device")

    host.commands["grubby"] = half
    with pytest.raises(GpuOpsError, match=r"No space left on device\. The next run"):
        apply(host, state="absent")
    host.commands["grubby"] = grubby
    assert sorted(four_steps(host, state="absent")["configured"]) == ["crashkernel=1G", "iommu=off", "ro"]


def test_a_grubby_that_does_nothing_is_told(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    grubby = host.commands["grubby"]
    host.commands["grubby"] = lambda command: grubby(command) if "--info=ALL" in command else ""
    with pytest.raises(GpuOpsError, match="still without nokaslr"):
        apply(host, "nokaslr")


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    host.put("/etc/gpuops/kernel_args/gpuops.json", "{")
    with pytest.raises(GpuOpsError, match="is damaged"):
        apply(host, "nokaslr")


def test_hosts_that_boot_otherwise_are_refused(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    with pytest.raises(GpuOpsError, match="No boot loader was found"):
        apply(host, "iommu=pt")
    (tmp_path / "boot/efi/EFI/systemd").mkdir(parents=True)
    with pytest.raises(GpuOpsError, match="boots with systemd-boot"):
        apply(host, "iommu=pt")
    assert four_steps(host, state="absent")["bootloader"] is None  # nothing to set is nothing to refuse


def test_bad_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GpuOpsError, match="owner must be"):
        apply(debian(tmp_path), owner="../x")
    with pytest.raises(GpuOpsError, match=r"intel_iommu=yes has no effect.*quiet is given twice"):
        apply(debian(tmp_path), "intel_iommu=yes", "quiet", "quiet")


def test_grubby_entries_leave_out_the_rescue_entry() -> None:
    text = 'index=0\nkernel="/boot/vmlinuz-5"\nargs="ro a=1"\nroot="x"\nindex=1\nkernel="/boot/vmlinuz-0-rescue-4f"\nargs="ro"\n'
    assert core.grubby_entries(text) == [["ro", "a=1"]]
