# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import kernel
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.boot_loader import MINIMUM_FREE_BYTES
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.kernel_args import boot_loader, set_arguments
from inline_snapshot import snapshot as wording

from tests.unit.fakes.boot_host import debian, redhat
from tests.unit.fakes.host import FakeHost

ENTRY = "/boot/loader/entries/4f-5.14.0-362.el9.x86_64.conf"


def apply(host: FakeHost, *args: str, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    return set_arguments(
        host,
        {"owner": "gpuops", "iommu": None, "state": "present", "hugepages": {}, **options, "args": list(args)},
        check,
    )


def four_steps(host: FakeHost, *args: str, **options: t.Any) -> dict[str, t.Any]:
    """Check, run, check again and run again. The check predicts the run, and the second run changes nothing.

    Return the result of the first run.
    """
    predicted = apply(host, *args, check=True, **options)
    done = apply(host, *args, **options)
    assert {**predicted, "diff": done["diff"]} == done
    for check in (True, False):
        again = apply(host, *args, check=check, **options)
        assert not again["changed"] and again["configured"] == done["configured"]
    return done


def test_debian_gets_a_drop_in_and_each_normal_entry_gets_the_arguments(tmp_path: Path) -> None:
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


def test_owners_do_not_affect_each_other(tmp_path: Path) -> None:
    host = debian(tmp_path)
    apply(host, "iommu=pt")
    apply(host, "iommu=nopt", "nokaslr", owner="other")
    assert apply(host, state="absent")["configured"][-2:] == ["iommu=nopt", "nokaslr"]


def test_an_equal_argument_of_another_owner_stays(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=pt"\n')
    host.commands["update-grub"]([])
    done = four_steps(host, "iommu=pt", "intel_iommu=on")
    assert done["configured"].count("iommu=pt") == 2 and done["elsewhere"] == []
    assert four_steps(host, "intel_iommu=on")["configured"].count("iommu=pt") == 1


def test_another_value_of_the_same_name_is_reported(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=off"\n')
    host.commands["update-grub"]([])
    assert apply(host, "iommu=pt", check=True)["elsewhere"] == ["iommu=off"]


def test_the_next_run_completes_a_run_that_was_killed_before_the_boot_loader_ran(tmp_path: Path) -> None:
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


def test_a_configuration_that_has_lost_the_arguments_gets_them_back(tmp_path: Path) -> None:
    host = debian(tmp_path)
    apply(host, "iommu=pt")
    menu = "menuentry 'Ubuntu' {\n\tlinux /vmlinuz-6.8.0-60-generic root=UUID=2f0c ro quiet\n}\n"
    host.put("/boot/grub/grub.cfg", menu)
    assert four_steps(host, "iommu=pt")["changed"]


@pytest.mark.parametrize("earlier", [[], ["nokaslr"]])
def test_a_boot_loader_that_fails_changes_nothing(tmp_path: Path, earlier: list[str]) -> None:
    host = debian(tmp_path)
    apply(host, *earlier)
    before = (host.read("/etc/default/grub.d/zz-gpuops.cfg"), host.read("/boot/grub/grub.cfg"))

    def refuse(_command: list[str]) -> str:
        raise OSError("grub-probe: failed to get canonical path of overlay")

    host.commands["update-grub"] = refuse
    with pytest.raises(GpuOpsError) as error:
        apply(host, "iommu=pt")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "update-grub failed, and the kernel arguments are left as they were: update-grub ended with 1: grub-probe: failed to get canonical path of overlay."
    )
    assert (host.read("/etc/default/grub.d/zz-gpuops.cfg"), host.read("/boot/grub/grub.cfg")) == before


def test_a_boot_loader_that_ignores_the_drop_in_is_an_error(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.commands["update-grub"] = lambda _command: ""
    with pytest.raises(GpuOpsError, match="still lacks iommu=pt"):
        apply(host, "iommu=pt")
    assert not host.exists("/etc/default/grub.d/zz-gpuops.cfg")


@pytest.mark.parametrize("check", [True, False])
def test_an_unwritable_or_full_boot_is_an_error_before_the_first_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    host = debian(tmp_path)
    monkeypatch.setattr(host, "writable", lambda folder: folder != "/boot/grub")
    with pytest.raises(GpuOpsError) as error:
        apply(host, "iommu=pt", check=check)
    assert error.value.reason == "NotWritable"
    assert error.value.msg == wording(
        "/boot/grub is not writable, so the kernel arguments are left as they are. Remount it writable (mount -o remount,rw), or become root."
    )
    monkeypatch.undo()
    monkeypatch.setattr(host, "free_bytes", lambda folder: MINIMUM_FREE_BYTES - (folder == "/boot/grub"))
    with pytest.raises(GpuOpsError) as error:
        apply(host, "iommu=pt", check=check)
    assert error.value.reason == "NoSpace"
    assert error.value.msg == wording(
        "/boot/grub is on a full file system, so the kernel arguments are left as they are. Remove kernels that are no longer used."
    )
    assert host.ran == [] and not host.exists("/etc/default/grub.d/zz-gpuops.cfg")
    assert not apply(host, check=check)["changed"]  # without a change, neither matters


def test_red_hat_entries_are_edited_and_replaced_arguments_come_back(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    done = four_steps(host, hugepages={"1G": 4}, iommu="passthrough")
    wanted = ["iommu=pt", "hugepagesz=1G", "hugepages=4"]
    assert done["configured"] == ["ro", "crashkernel=1G", *wanted] and done["elsewhere"] == ["iommu=off"]
    assert host.read(ENTRY).endswith(f"options ro crashkernel=1G {' '.join(wanted)}")
    assert json.loads(host.read("/etc/gpuops/kernel_args/gpuops.json")) == {
        "args": wanted,
        "pending": False,
        "replaced": ["iommu=off"],
        "previous": [],
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
    with pytest.raises(GpuOpsError) as error:
        apply(host, hugepages={"1G": 4, "2M": 64}, check=check)
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "grubby keeps one value for each name, so hugepages and hugepagesz cannot be given more than once. Reserve huge pages of one size with arguments, and pages of 2M with the sysctl vm.nr_hugepages."
    )
    assert host.read(ENTRY) == before and not host.exists("/etc/gpuops/kernel_args/gpuops.json")


def test_a_new_kernel_of_red_hat_without_the_arguments_gets_them(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    apply(host, "nokaslr")
    host.put(ENTRY, host.read(ENTRY).replace(" nokaslr", ""))
    assert four_steps(host, "nokaslr")["changed"] and " nokaslr" in host.read(ENTRY)


def test_the_next_run_completes_a_run_in_which_grubby_failed(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    apply(host, "iommu=pt", "nokaslr")
    grubby = host.commands["grubby"]

    def half(command: list[str]) -> str:
        if "--info=ALL" in command:
            return grubby(command)
        raise OSError("No space left on device")

    host.commands["grubby"] = half
    with pytest.raises(GpuOpsError) as error:
        apply(host, state="absent")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "grubby failed: grubby ended with 1: No space left on device. The next run sets the arguments again on every boot entry."
    )
    host.commands["grubby"] = grubby
    assert sorted(four_steps(host, state="absent")["configured"]) == ["crashkernel=1G", "iommu=off", "ro"]


def test_a_grubby_that_does_nothing_is_an_error(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    grubby = host.commands["grubby"]
    host.commands["grubby"] = lambda command: grubby(command) if "--info=ALL" in command else ""
    with pytest.raises(GpuOpsError, match="still lacks nokaslr"):
        apply(host, "nokaslr")


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    host.put("/etc/gpuops/kernel_args/gpuops.json", "{")
    with pytest.raises(GpuOpsError, match="is damaged"):
        apply(host, "nokaslr")


def test_hosts_with_another_boot_loader_are_refused(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    with pytest.raises(GpuOpsError) as error:
        apply(host, "iommu=pt")
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "No boot loader was found that this module can change: GRUB with update-grub (Debian, Ubuntu), or grubby (the Red Hat family)."
    )
    (tmp_path / "boot/efi/EFI/systemd").mkdir(parents=True)
    with pytest.raises(GpuOpsError, match="boots with systemd-boot"):
        apply(host, "iommu=pt")
    assert four_steps(host, state="absent")["bootloader"] is None  # without arguments, there is nothing to refuse


def test_the_boot_entries_are_read_once_before_a_change_and_once_after_it(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    apply(host, "nokaslr")
    assert [command[1] for command in host.ran] == ["--info=ALL", "--update-kernel=ALL", "--info=ALL"]
    host.ran.clear()
    apply(host, "iommu=pt", check=True)
    assert [command[1] for command in host.ran] == ["--info=ALL"]


def test_bad_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GpuOpsError, match="owner must be"):
        apply(debian(tmp_path), owner="../x")
    with pytest.raises(GpuOpsError) as error:
        apply(debian(tmp_path), "intel_iommu=yes", "quiet", "quiet")
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "intel_iommu=yes has no effect: intel_iommu takes forcedac, igfx_off, off, on, sm_off, sm_on, sp_off, strict, tboot_noforce. quiet is given twice."
    )


def test_a_run_that_was_killed_after_grubby_is_completed_or_taken_back(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    grubby = host.commands["grubby"]

    def killed(command: list[str]) -> str:
        answer = grubby(command)
        if "--info=ALL" not in command:
            raise KeyboardInterrupt
        return str(answer)

    host.commands["grubby"] = killed
    with pytest.raises(KeyboardInterrupt):
        apply(host, "iommu=pt", "nokaslr")
    host.commands["grubby"] = grubby
    assert json.loads(host.read("/etc/gpuops/kernel_args/gpuops.json") or "") == {
        "args": ["iommu=pt", "nokaslr"],
        "pending": True,
        "replaced": ["iommu=off"],
        "previous": [],
    }
    gone = four_steps(host, state="absent")
    assert gone["changed"]
    assert sorted(gone["configured"]) == ["crashkernel=1G", "iommu=off", "ro"]


def test_the_result_names_the_arguments_of_the_running_kernel(tmp_path: Path) -> None:
    host = debian(tmp_path)
    first = apply(host, "iommu=pt")
    assert first["running"] == ["BOOT_IMAGE=/vmlinuz-6.8.0-60-generic", "root=UUID=2f0c", "ro", "quiet"]
    assert first["diff"] == {
        "before": "",
        "after": "iommu=pt\n",
        "before_header": "/etc/default/grub.d/zz-gpuops.cfg",
        "after_header": "/etc/default/grub.d/zz-gpuops.cfg",
    }
    second = apply(host, "nokaslr", "iommu=pt")
    assert (second["diff"]["before"], second["diff"]["after"]) == ("iommu=pt\n", "nokaslr\niommu=pt\n")


def test_each_family_has_its_boot_loader(tmp_path: Path) -> None:
    assert boot_loader(debian(tmp_path / "debian"), "gpuops").path == "/etc/default/grub.d/zz-gpuops.cfg"
    assert boot_loader(redhat(tmp_path / "redhat"), "gpuops").path == "/etc/gpuops/kernel_args/gpuops.json"
    with pytest.raises(GpuOpsError) as error:
        boot_loader(FakeHost(tmp_path / "other"), "gpuops")
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "No boot loader was found that this module can change: GRUB with update-grub (Debian, Ubuntu), or grubby (the Red Hat family)."
    )


@pytest.mark.parametrize("missing", ["update-grub", "/etc/default/grub"])
def test_grub_needs_its_command_and_its_defaults(tmp_path: Path, missing: str) -> None:
    host = debian(tmp_path)
    if missing == "update-grub":
        del host.commands["update-grub"]
    else:
        host.remove("/etc/default/grub")
    with pytest.raises(GpuOpsError) as error:
        boot_loader(host, "gpuops")
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "No boot loader was found that this module can change: GRUB with update-grub (Debian, Ubuntu), or grubby (the Red Hat family)."
    )


def test_a_result_says_why_a_reboot_is_due(tmp_path: Path) -> None:
    host = debian(tmp_path, running="root=UUID=2f0c ro old=1")
    done = apply(host, "iommu=pt", check=True)
    assert done["reboot_reasons"] == [
        wording("The kernel runs without the configured arguments iommu=pt"),
        wording("The kernel runs with the arguments old=1, which are no longer configured"),
    ]
    assert apply(debian(tmp_path / "other"))["reboot_reasons"] == []


def test_lists_of_one_owner_are_one_argument(tmp_path: Path) -> None:
    done = apply(debian(tmp_path), "modprobe.blacklist=nouveau", "nokaslr", "modprobe.blacklist=floppy,nouveau")
    assert done["configured"][-2:] == ["modprobe.blacklist=nouveau,floppy", "nokaslr"]


def test_a_console_elsewhere_counts_beside_the_owners(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="console=tty0 modprobe.blacklist=floppy module_blacklist=a"\n')
    host.commands["update-grub"]([])
    done = apply(host, "console=ttyS0", "modprobe.blacklist=nouveau", "module_blacklist=b")
    # The kernel uses only the last module_blacklist.
    assert done["elsewhere"] == ["module_blacklist=a"]


@pytest.mark.parametrize("check", [True, False])
def test_if_the_next_entry_is_unknown_the_owners_arguments_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    host = debian(tmp_path, running="root=UUID=2f0c ro nokaslr")
    apply(host, "nokaslr", "a=1")
    facts = kernel.kernel(host)
    unknown = dataclasses.replace(facts, facts={**facts.facts, "cmdline_configured": None})
    monkeypatch.setattr(kernel, "kernel", lambda _host: unknown)
    done = apply(host, "iommu=pt", check=check)
    assert done["configured"] is None
    assert done["reboot_reasons"] == [
        wording("The kernel runs without the configured arguments iommu=pt"),
        wording("The kernel runs with the arguments nokaslr, which are no longer configured"),
    ]
