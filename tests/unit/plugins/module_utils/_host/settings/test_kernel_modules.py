# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import kernel_modules
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.initramfs_image import file_in_image
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.images import image

NOUVEAU: dict[str, t.Any] = {"blacklist": ["nouveau"], "options": {"nouveau": {"modeset": False}}}
FILE = "/etc/modprobe.d/zz-gpuops.conf"
OLD = 1_000_000_000.0
KERNELS = ("6.1.0-9-amd64", "6.1.0-10-amd64")


def image_of(host: FakeHost) -> bytes:
    """Build an image with the files of /etc/modprobe.d."""
    return image({path.lstrip("/"): f"{host.read(path)}\n" for path in host.glob("/etc/modprobe.d/*.conf")})


def holds(host: FakeHost, path: str) -> bool:
    return file_in_image(host, path, FILE) is not None


def put_image(host: FakeHost, path: str, content: bytes) -> None:
    host.put(path, "")
    Path(host.path(path)).write_bytes(content)


def initramfs_tools(root: Path) -> FakeHost:
    host = FakeHost(root)

    def update(command: list[str]) -> str:
        # Without -k all, it would rebuild only the image of the newest kernel.
        assert command == ["update-initramfs", "-u", "-k", "all"]
        for kernel in KERNELS:
            put_image(host, f"/boot/initrd.img-{kernel}", image_of(host))
        return ""

    host.commands |= {"update-initramfs": update, "gzip": ""}
    return with_images(host, "/boot/initrd.img-{}")


def dracut(root: Path) -> FakeHost:
    host = FakeHost(root)

    def make(command: list[str]) -> str:
        items = "".join(host.read(path) or "" for path in host.glob("/etc/dracut.conf.d/*.conf"))
        assert command[1] == "--force" and command[3] in KERNELS
        put_image(host, command[2], image_of(host) if "/etc/modprobe.d" in items else image({}))
        return ""

    host.commands |= {"dracut": make, "gzip": ""}
    host.put("/boot/initramfs-0-rescue-4f.img", "rescue")
    return with_images(host, "/boot/initramfs-{}.img")


def with_images(host: FakeHost, pattern: str) -> FakeHost:
    for kernel in KERNELS:
        host.put(pattern.format(kernel), "")
        os.utime(host.path(pattern.format(kernel)), (OLD, OLD))
        Path(host.path(f"/lib/modules/{kernel}")).mkdir(parents=True)
    host.put("/proc/modules", "")
    return host


HOSTS = pytest.mark.parametrize("make", [initramfs_tools, dracut])


def apply(host: FakeHost, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    return kernel_modules.set_modules(
        host,
        {
            "owner": "gpuops",
            "blacklist": [],
            "load": [],
            "load_now": True,
            "options": {},
            "state": "present",
            **options,
        },
        check,
    )


def four_steps(host: FakeHost, **options: t.Any) -> dict[str, t.Any]:
    """Check, run, check again and run again. Return the result of the first run."""
    predicted = apply(host, check=True, **options)
    done = apply(host, **options)
    assert predicted == done
    built = len(host.ran)
    for check in (True, False):
        again = apply(host, check=check, **options)
        assert not again["changed"] and not again["initramfs"]["rebuilt"] and again["diff"] == []
    assert len(host.ran) == built, "A second run must not run commands."
    return done


@HOSTS
def test_a_blacklist_is_in_every_image_and_can_be_removed(tmp_path: Path, make: t.Callable[[Path], FakeHost]) -> None:
    host = make(tmp_path)
    host.put("/etc/modprobe.d/other.conf", "options snd x=1")
    done = four_steps(host, **NOUVEAU)
    assert done["initramfs"]["rebuilt"] and len(done["initramfs"]["images"]) == 2
    assert host.read(FILE).splitlines()[1:] == ["blacklist nouveau", "options nouveau modeset=0"]
    assert all(holds(host, path) for path in done["initramfs"]["images"])
    gone = four_steps(host, state="absent")
    assert gone["initramfs"]["rebuilt"] and not gone["files"]
    assert not holds(host, gone["initramfs"]["images"][0])
    assert [
        path
        for folder in ("modprobe.d", "dracut.conf.d", "gpuops/kernel_modules")
        for path in host.names(f"/etc/{folder}")
    ] == ["other.conf"]


def test_dracut_omits_the_module_and_the_rescue_image_stays_as_it_is(tmp_path: Path) -> None:
    host = dracut(tmp_path)
    apply(host, **NOUVEAU)
    assert host.read("/etc/dracut.conf.d/gpuops.conf").splitlines()[1:] == [
        f'install_items+=" {FILE} "',
        'omit_drivers+=" nouveau "',
    ]
    assert host.read("/boot/initramfs-0-rescue-4f.img") == "rescue"


def test_modules_to_load_need_no_new_image(tmp_path: Path) -> None:
    host = initramfs_tools(tmp_path)

    def modprobe(command: list[str]) -> str:
        if command[1] != "--dry-run":
            host.put("/proc/modules", f"{command[1].replace('-', '_')} 1 0 - Live\n")
        return ""

    host.commands["modprobe"] = modprobe
    host.put("/sys/module/overlay/version", "")
    done = four_steps(host, load=["vfio-pci", "overlay"])
    assert done["loaded"] == ["vfio-pci"] and not done["initramfs"]["rebuilt"]
    assert host.read("/etc/modules-load.d/gpuops.conf").splitlines()[1:] == ["vfio-pci", "overlay"]
    assert four_steps(host)["changed"] and host.names("/etc/modules-load.d") == []


@pytest.mark.parametrize("check", [True, False])
def test_a_module_that_does_not_exist_is_an_error_before_the_first_change(tmp_path: Path, check: bool) -> None:
    host = initramfs_tools(tmp_path)

    def modprobe(_command: list[str]) -> str:
        raise OSError("FATAL: Module bogus not found")

    host.commands["modprobe"] = modprobe
    with pytest.raises(GpuOpsError) as error:
        apply(host, check=check, load=["bogus"], **NOUVEAU)
    assert error.value.reason == "ModuleNotLoaded"
    assert error.value.msg == wording(
        "The kernel module bogus cannot be loaded, and the host was not changed: modprobe ended with 1: FATAL: Module bogus not found. Install the package that has it, such as linux-modules-extra-<kernel> or kernel-modules-extra."
    )
    assert host.names("/etc/modprobe.d") == []


def test_a_kernel_without_modules_loads_none(tmp_path: Path) -> None:
    assert four_steps(FakeHost(tmp_path), load=["vfio-pci"])["loaded"] == []


def test_a_host_without_images_needs_no_tool(tmp_path: Path) -> None:
    done = four_steps(FakeHost(tmp_path), **NOUVEAU)
    assert done["changed"] and done["initramfs"] == {"tool": None, "rebuilt": False, "images": []}
    assert four_steps(FakeHost(tmp_path), state="absent")["changed"]


def test_images_without_a_tool_are_an_error(tmp_path: Path) -> None:
    host = with_images(FakeHost(tmp_path), "/boot/initrd.img-{}")
    with pytest.raises(GpuOpsError, match="Install initramfs-tools or dracut"):
        apply(host, **NOUVEAU)


@pytest.mark.parametrize("check", [True, False])
def test_a_unified_kernel_image_is_refused_before_the_first_change(tmp_path: Path, check: bool) -> None:
    host = FakeHost(tmp_path, modprobe="")
    host.put("/boot/efi/EFI/Linux/4f2a-6.12.0-1.efi", "")
    with pytest.raises(GpuOpsError) as error:
        apply(host, check=check, **NOUVEAU)
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "This host boots with /boot/efi/EFI/Linux/4f2a-6.12.0-1.efi, which this module cannot rebuild, so the host was not changed. Blacklist the modules with the kernel argument modprobe.blacklist."
    )
    assert host.names("/etc/modprobe.d") == []
    host.put("/proc/modules", "")
    assert apply(host, check=check, load=["vfio-pci"])["loaded"] == ["vfio-pci"]


@HOSTS
@pytest.mark.parametrize("options", [NOUVEAU, {"state": "absent"}])
def test_the_next_run_completes_a_run_that_was_killed(
    tmp_path: Path, make: t.Callable[[Path], FakeHost], options: dict[str, t.Any]
) -> None:
    host = make(tmp_path)
    if options != NOUVEAU:
        apply(host, **NOUVEAU)
    command = "dracut" if "dracut" in host.commands else "update-initramfs"
    working = host.commands[command]

    def killed(_command: list[str]) -> str:
        raise KeyboardInterrupt

    host.commands[command] = killed
    with pytest.raises(KeyboardInterrupt):
        apply(host, **options)
    host.commands[command] = working
    done = four_steps(host, **options)
    assert done["initramfs"]["rebuilt"] and host.names(kernel_modules.MARKS) == []
    assert [holds(host, path) for path in done["initramfs"]["images"]] == [options == NOUVEAU] * 2


@HOSTS
def test_if_an_image_cannot_be_built_the_old_one_and_the_files_stay(
    tmp_path: Path, make: t.Callable[[Path], FakeHost]
) -> None:
    host = make(tmp_path)
    command = "dracut" if "dracut" in host.commands else "update-initramfs"
    working = host.commands[command]

    def full(given: list[str]) -> str:
        if command == "dracut":
            host.put(given[2], "half an ima")
        raise OSError("No space left on device")

    host.commands[command] = full
    before = {path: host.read_bytes(path) for path in host.glob("/boot/*")}
    with pytest.raises(
        GpuOpsError, match=r"the old one is kept: No space left on device\. Remove kernels"
    ) as full_disk:
        apply(host, **NOUVEAU)
    assert full_disk.value.reason == "NoSpace"
    assert {path: host.read_bytes(path) for path in host.glob("/boot/*")} == before
    assert host.names("/etc/modprobe.d") == []
    host.commands[command] = working
    assert four_steps(host, **NOUVEAU)["changed"]


@pytest.mark.parametrize("check", [True, False])
def test_a_full_or_read_only_boot_is_an_error_before_the_first_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    host = initramfs_tools(tmp_path)
    host.put(f"/boot/initrd.img-{KERNELS[0]}", "x" * 3_000_000)
    monkeypatch.setattr(host, "free_bytes", lambda folder: 2 * 2**20)
    with pytest.raises(GpuOpsError) as error:
        apply(host, check=check, **NOUVEAU)
    assert error.value.reason == "NoSpace"
    assert error.value.msg == wording(
        "/boot has 2 MiB free, and rebuilding an initramfs needs 3 MiB. The host was not changed. Remove kernels that are no longer used."
    )
    monkeypatch.setattr(host, "writable", lambda folder: False)
    with pytest.raises(GpuOpsError, match="/boot is not writable"):
        apply(host, check=check, **NOUVEAU)
    assert host.ran == [] and host.names("/etc/modprobe.d") == []


@HOSTS
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (image({}), f"does not contain {FILE}"),
        (image({FILE[1:]: "blacklist something\n"}), f"different version of {FILE}"),
        (b"neither", r"with 6e6569746865, is unknown\."),
    ],
)
def test_every_new_image_is_verified(
    tmp_path: Path, make: t.Callable[[Path], FakeHost], content: bytes, sentence: str
) -> None:
    host = make(tmp_path)

    def make_it(command: list[str]) -> str:
        for path in [command[2]] if command[0] == "dracut" else host.glob("/boot/initrd.img-*"):
            put_image(host, path, content)
        return ""

    host.commands["dracut" if "dracut" in host.commands else "update-initramfs"] = make_it
    with pytest.raises(GpuOpsError, match=sentence):
        apply(host, **NOUVEAU)


def test_an_image_older_than_the_file_is_rebuilt(tmp_path: Path) -> None:
    host = initramfs_tools(tmp_path)
    done = apply(host, **NOUVEAU)
    for path in done["initramfs"]["images"]:
        os.utime(host.path(path), (OLD, OLD))
    again = four_steps(host, **NOUVEAU)
    assert again["initramfs"]["rebuilt"] and again["diff"] == []


def test_settings_that_take_effect_after_a_reboot(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/proc/modules", "nouveau 2379776 1 - Live 0x0\n")
    host.put("/sys/module/nova_core/initstate", "live\n")  # a container shows no /proc/modules
    host.put("/sys/module/built_in/parameters/x", "1\n")
    host.put("/sys/module/vfio_pci/parameters/disable_idle_d3", "N")
    host.put("/sys/module/vfio_pci/parameters/nointxmask", "Y")
    done = apply(
        host,
        blacklist=["nouveau", "nova-core", "built-in"],
        options={"vfio-pci": {"disable_idle_d3": 1, "nointxmask": True, "unknown": 1}},
    )
    assert done["reboot_reasons"] == [
        wording("nouveau is loaded although it is blacklisted"),
        wording("nova-core is loaded although it is blacklisted"),
        "vfio-pci runs with disable_idle_d3=N instead of 1",
    ]
    assert done["reboot_required"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"owner": "/etc/x"},
            wording(
                "owner must be at most 40 lower-case letters, digits, dashes and underscores, and begin with a letter or a digit."
            ),
        ),
        ({"blacklist": ["a b"]}, wording("'a b' is not the name of a kernel module.")),
        ({"blacklist": ["x"], "load": ["x"]}, wording("x cannot be loaded and blacklisted at the same time.")),
        (
            {"options": {"nvidia": "NVreg=1"}},
            wording(
                "The options of nvidia must be a dictionary of parameters and values without blanks, quotes or #. This is not: NVreg=1."
            ),
        ),
        (
            {"options": {"nvidia": {"a": "b c"}}},
            wording(
                "The options of nvidia must be a dictionary of parameters and values without blanks, quotes or #. This is not: a=b c."
            ),
        ),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, t.Any], sentence: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        apply(FakeHost(tmp_path), **options)
    assert error.value.msg == sentence


@HOSTS
def test_a_tool_that_fails_for_another_reason_than_space_says_so(
    tmp_path: Path, make: t.Callable[[Path], FakeHost]
) -> None:
    host = make(tmp_path)

    def broken(_command: list[str]) -> str:
        raise OSError("mkinitramfs failure cpio 141 gzip 1")

    host.commands["dracut" if "dracut" in host.commands else "update-initramfs"] = broken
    with pytest.raises(GpuOpsError, match=r"mkinitramfs failure cpio 141") as error:
        apply(host, **NOUVEAU)
    assert error.value.reason == "Initramfs"


@pytest.mark.parametrize("check", [True, False])
def test_modules_can_be_left_to_the_next_boot(tmp_path: Path, check: bool) -> None:
    host = initramfs_tools(tmp_path)
    done = apply(host, load=["vfio-pci"], load_now=False, check=check)
    assert (done["changed"], done["loaded"]) == (True, [])
    assert done["files"] == ["/etc/modules-load.d/gpuops.conf"]
    assert host.ran == []


def test_a_module_with_two_parameters_has_one_line(tmp_path: Path) -> None:
    host = initramfs_tools(tmp_path)
    apply(host, options={"nvidia": {"NVreg_OpenRmEnableUnsupportedGpus": 1, "NVreg_EnableGpuFirmware": 0}})
    assert host.read("/etc/modprobe.d/zz-gpuops.conf").splitlines()[1:] == [
        "options nvidia NVreg_OpenRmEnableUnsupportedGpus=1 NVreg_EnableGpuFirmware=0"
    ]


def test_the_diff_shows_each_file_before_and_after(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    (first,) = apply(host, blacklist=["nouveau"])["diff"]
    assert (first["before"], first["before_header"], first["after_header"]) == ("", FILE, FILE)
    assert first["after"].splitlines()[1:] == ["blacklist nouveau"]
    (second,) = apply(host, blacklist=["nvidiafb"])["diff"]
    assert second["before"] == first["after"]
    assert second["after"].splitlines()[1:] == ["blacklist nvidiafb"]
    (third,) = apply(host, state="absent")["diff"]
    assert (third["before"], third["after"]) == (second["after"], "")


def test_a_module_that_is_not_loaded_any_more_is_loaded_again(tmp_path: Path) -> None:
    host = initramfs_tools(tmp_path)
    host.commands["modprobe"] = ""
    apply(host, load=["vfio-pci"])
    host.ran.clear()
    again = apply(host, load=["vfio-pci"])
    assert (again["changed"], again["loaded"], again["diff"]) == (True, ["vfio-pci"], [])
    assert host.ran == [["modprobe", "vfio-pci"]]


# Lines of /proc/driver/nvidia/params of a host with driver 580, with the names in kernel-open/nvidia/nv-reg.h.
PARAMS = """\
ResmanDebugLevel: 4294967295
ModifyDeviceFiles: 1
DeviceFileMode: 438
EnableGpuFirmware: 18
RmProfilingAdminOnly: 1
DynamicPowerManagement: 3
RegistryDwords: ""
"""


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        ({"NVreg_RestrictProfilingToAdminUsers": 0}, ["NVreg_RestrictProfilingToAdminUsers=1 instead of 0"]),
        ({"NVreg_RestrictProfilingToAdminUsers": True, "NVreg_DynamicPowerManagement": "0x03"}, []),
        ({"NVreg_EnableGpuFirmware": 0}, ["NVreg_EnableGpuFirmware=18 instead of 0"]),
        ({"NVreg_ResmanDebugLevel": -1}, []),
        ({"NVreg_RegistryDwords": "PeerMappingOverride=1"}, ["NVreg_RegistryDwords= instead of PeerMappingOverride=1"]),
        ({"NVreg_OfAnotherDriver": 1}, []),
    ],
)
def test_nvidias_options_in_force_are_those_that_the_driver_shows(
    tmp_path: Path, options: dict[str, t.Any], reasons: list[str]
) -> None:
    """They have the mode 0, so that sysfs shows none of them."""
    host = FakeHost(tmp_path)
    host.put("/proc/driver/nvidia/params", PARAMS)
    done = apply(host, options={"nvidia": options})
    assert done["reboot_reasons"] == [f"nvidia runs with {reason}" for reason in reasons]


def test_without_a_loaded_driver_its_options_are_not_known(tmp_path: Path) -> None:
    assert apply(FakeHost(tmp_path), options={"nvidia": {"NVreg_EnableGpuFirmware": 0}})["reboot_reasons"] == []


def test_a_file_that_is_read_later_is_reported(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/etc/modprobe.d/nvidia.conf", "options nvidia NVreg_EnableGpuFirmware=18\n")
    host.put("/etc/modprobe.d/zzz-site.conf", "# options nvidia a=1\n\noptions nvidia NVreg_EnableGpuFirmware=18 b=2\n")
    host.put("/usr/lib/modprobe.d/zzz.conf", "options nvidia_drm modeset=1\nblacklist nouveau\n")
    asked = {"nvidia": {"NVreg_EnableGpuFirmware": 0, "b": 2}, "nvidia-drm": {"modeset": 0}}
    done = four_steps(host, options=asked)
    firmware, modeset = done["overridden"]
    assert firmware == {
        "module": "nvidia",
        "name": "NVreg_EnableGpuFirmware",
        "value": "18",
        "file": "/etc/modprobe.d/zzz-site.conf",
    }
    assert (modeset["module"], modeset["name"], modeset["value"]) == ("nvidia_drm", "modeset", "1")
    assert done["warnings"][0] == wording(
        "/etc/modprobe.d/zzz-site.conf sets NVreg_EnableGpuFirmware of nvidia to 18, because it is read last. Remove the line there."
    )


def test_the_file_of_an_earlier_release_goes_and_a_foreign_one_stays(tmp_path: Path) -> None:
    host, former = FakeHost(tmp_path), "/etc/modprobe.d/gpuops.conf"
    host.put(former, "blacklist my\n")
    four_steps(host, blacklist=["nouveau"])
    assert host.read(former) == "blacklist my"
    ours = host.read(FILE) or ""
    host.put(former, f"{ours}\n")
    assert four_steps(host, blacklist=["nouveau"])["changed"] and not host.exists(former)
    host.put(former, f"{ours}\n")
    four_steps(host, state="absent")
    assert not host.exists(former) and not host.exists(FILE)
