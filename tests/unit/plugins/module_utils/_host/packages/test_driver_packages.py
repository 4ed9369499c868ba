# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import driver_packages
from ansible_collections.gpuops.nvidia.plugins.modules.driver_packages import SPEC
from inline_snapshot import snapshot as wording

from tests.unit.fakes.apt_host import AptHost
from tests.unit.fakes.host import FakeHost

PINS = "/etc/apt/preferences.d/gpuops-nvidia"
OLD, NEW = "535.216.03-2~bpo12+1", "535.261.03-1"
NAMES = ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1")
V100 = {"architecture": "Volta", "device_id": "10de:1db6", "name": "V100", "bound_driver": None}
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"


@pytest.fixture
def host(tmp_path: Path) -> AptHost:
    host = AptHost(tmp_path, {name: [NEW, OLD] for name in NAMES})
    host.commands["modprobe"] = ""
    return host


def manage(host: FakeHost, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    defaults = {name: option.get("default") for name, option in SPEC.options.items()}
    return driver_packages.manage(host, {**defaults, "gpus": [V100], "lock_timeout": 0, **options}, check)


def installed(host: AptHost) -> dict[str, str]:
    return {name: version for name, version in host.packages.items() if name in NAMES}


def put_library(host: AptHost) -> None:
    host.put(LIBRARY, "")
    host.files[LIBRARY] = "libcuda1"


def loaded(host: AptHost, version: str = "535.216.03") -> None:
    host.put("/sys/module/nvidia/version", f"{version}\n")
    put_library(host)


def test_check_predicts_what_a_run_does_and_a_rerun_changes_nothing(host: AptHost) -> None:
    predicted = manage(host, check=True, version="535.216.03")
    assert installed(host) == {} and not host.exists(PINS)
    done = manage(host, version="535.216.03")
    assert {**predicted, "loaded": True} == done and done["changed"] and done["action"] == "install"
    assert installed(host) == dict.fromkeys(NAMES, OLD)
    assert [step["name"] for step in done["transaction"]["install"]] == list(NAMES)
    assert done["wanted"]["version"] == "535.216.03" and done["wanted"]["origin"] == "debian"
    assert "535.216.03" in str(host.read(PINS)) and not done["interrupts"]

    loaded(host)
    for check in (True, False):
        again = manage(host, check=check, version="535.216.03")
        assert (again["action"], again["changed"]) == ("adopt", False)
    assert json.loads(json.dumps(again)) == again


def test_a_change_needs_permission_and_keeps_the_way_back(host: AptHost) -> None:
    manage(host, version="535.216.03")
    loaded(host)
    refused = manage(host, check=True, version="535.261.03")
    assert refused["action"] == "change" and "Allow the change" in refused["refused"]
    with pytest.raises(GpuOpsError) as failed:
        manage(host, version="535.261.03")
    assert failed.value.msg == refused["refused"] and failed.value.details["former"]["version"] == "535.216.03"

    done = manage(host, version="535.261.03", replace=True)
    assert installed(host) == dict.fromkeys(NAMES, NEW)
    assert done["interrupts"] and done["interrupt_reasons"] == [
        "The driver 535.216.03 is loaded, and nvidia-kernel-dkms, nvidia-smi, libcuda1 changes."
    ]
    assert done["reboot_reasons"] == ["The driver 535.261.03 is installed, and 535.216.03 is loaded"]
    assert done["way_back"] == {"possible": True, "missing": []}

    host.offers = {name: [] for name in NAMES}
    host.remove("/var/lib/apt/lists/deb.debian.org_Packages")

    def without_update(command: list[str]) -> str:
        if "update" in command:
            raise OSError("the repository is away")
        return AptHost._env(host, command)

    host.commands["env"] = without_update
    with pytest.raises(GpuOpsError) as error:
        manage(host, version="535.261.03")
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording(
        "The lists of packages cannot be updated: env ended with 1: the repository is away."
    )
    back = manage(host, state="restored", former=done["former"])
    assert (back["action"], installed(host)) == ("restore", dict.fromkeys(NAMES, OLD))
    assert "535.216.03" in str(host.read(PINS))
    assert manage(host, state="restored", former=done["former"])["action"] == "none"


def test_an_installation_that_was_cut_off_is_completed(host: AptHost) -> None:
    manage(host, version="535.216.03")
    put_library(host)
    host.states = {"nvidia-kernel-dkms": "unpacked", "nvidia-smi": "half-configured"}
    predicted = manage(host, check=True, version="535.216.03")
    assert (predicted["action"], predicted["changed"], host.states != {}) == ("complete", True, True)
    assert (predicted["interrupts"], predicted["wanted"]["origin"]) == (False, "debian")
    done = manage(host, version="535.216.03")
    assert (done["action"], done["changed"], host.states) == ("complete", True, {})
    assert manage(host, version="535.216.03")["action"] == "adopt"


def test_completing_the_installation_of_a_loaded_driver_interrupts(host: AptHost) -> None:
    former = manage(host, version="535.216.03")["wanted"]
    loaded(host)
    host.states = {"nvidia-kernel-dkms": "unpacked"}
    [reason] = manage(host, check=True)["interrupt_reasons"]
    assert reason == (
        wording(
            "The driver 535.216.03 is loaded, and the installation of nvidia-kernel-dkms was cut off and is to be "
            "completed."
        )
    )
    back = manage(host, state="restored", former={**former, "packages": dict.fromkeys(NAMES, OLD), "pins": {}})
    assert (back["action"], host.states) == ("complete", {})


def test_a_removal_removes_what_was_cut_off(host: AptHost) -> None:
    manage(host, version="535.216.03")
    host.states = {"nvidia-kernel-dkms": "half-installed"}
    assert manage(host, state="absent")["action"] == "remove" and installed(host) == {}
    host.packages["linux-headers-6.1.0-40-amd64"] = "6.1.153-1"
    host.states = {"linux-headers-6.1.0-40-amd64": "unpacked"}
    assert manage(host, state="absent")["action"] == "none"


def test_a_way_back_that_is_lost_is_refused(host: AptHost) -> None:
    former = {"packages": {"nvidia-smi": "1-1", "libcuda1": NEW}, "version": "1", "present": True}
    assert manage(host, check=True, state="restored", former=former)["refused"] == (
        wording("No repository and no kept file has nvidia-smi=1-1, which the former driver consists of.")
    )
    former = {"uninstaller": "/usr/bin/nvidia-uninstall", "described": "the driver 1 of a .run installer"}
    assert manage(host, check=True, state="restored", former=former)["refused"] == (
        wording(
            "The host had the driver 1 of a .run installer, which no package manager can install. Run its installer again."
        )
    )


def test_a_removal_leaves_nothing_and_says_so(host: AptHost) -> None:
    manage(host, version="535.216.03")
    loaded(host)
    host.held = {"nvidia-smi"}

    def leave(command: list[str]) -> str:
        host.remove(LIBRARY)
        return AptHost._env(host, command)

    host.commands["env"] = leave
    done = manage(host, state="absent")
    assert (done["action"], done["wanted"], installed(host)) == ("remove", None, {})
    assert done["reboot_reasons"] == [wording("The driver 535.216.03 was removed and is still loaded")]
    assert not host.exists(PINS)


def test_a_removal_that_leaves_files_fails(host: AptHost) -> None:
    manage(host, version="535.216.03")
    put_library(host)
    with pytest.raises(GpuOpsError) as error:
        manage(host, state="absent")
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording(
        "The driver was removed, but /usr/lib/x86_64-linux-gnu/libcuda.so.1 is still there. Remove what put it there."
    )


def test_a_run_driver_goes_by_its_uninstaller(host: AptHost) -> None:
    host.put("/usr/bin/nvidia-uninstall", "")
    host.put(LIBRARY, "")

    def uninstall(command: list[str]) -> str:
        host.remove(LIBRARY)
        host.remove("/usr/bin/nvidia-uninstall")
        return ""

    host.commands["nvidia-uninstall"] = uninstall
    assert "nvidia-uninstall --silent" in manage(host, check=True, state="absent")["refused"]
    done = manage(host, state="absent", replace=True)
    assert done["action"] == "remove" and ["nvidia-uninstall", "--silent"] in host.ran
    host.put("/usr/bin/nvidia-uninstall", "")
    host.commands["nvidia-uninstall"] = Output(error="nvidia-uninstall ended with 1: in use")
    with pytest.raises(GpuOpsError) as error:
        manage(host, state="absent", replace=True)
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording("The driver's own uninstaller failed: nvidia-uninstall ended with 1: in use.")


def test_what_apt_refuses_or_would_take_along_is_refused(host: AptHost) -> None:
    host.commands["apt-get"] = Output(stderr="E: Unable to correct problems", error="apt-get ended with 100")
    assert manage(host, check=True)["refused"] == (
        wording("The package manager refuses the change: E: Unable to correct problems.")
    )
    host.commands["apt-get"] = "Inst nvidia-smi (535.261.03-1 Debian)\nRemv my-renderer [1]\nRemv cuda-12-8 [12]\n"
    assert manage(host, check=True)["refused"] == (
        wording(
            "The package manager would also remove my-renderer, which need the present driver. Remove them yourself "
            "if they may go."
        )
    )


def test_a_package_manager_that_did_something_else_is_found_out(host: AptHost) -> None:
    host.commands["env"] = ""
    with pytest.raises(GpuOpsError) as error:
        manage(host)
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording(
        "The package manager ended without an error, but did not install what was asked: nvidia-kernel-dkms is missing, nvidia-smi is missing, libcuda1 is missing."
    )


def test_a_host_without_a_known_package_manager(tmp_path: Path) -> None:
    with pytest.raises(GpuOpsError, match="neither apt nor dnf"):
        driver_packages.family_of(FakeHost(tmp_path), 1)
    host = FakeHost(tmp_path, apt_get="", dnf="")
    assert type(driver_packages.family_of(host, 1)).__name__ == "Apt"
    host.put("/etc/redhat-release", "Rocky Linux")
    assert type(driver_packages.family_of(host, 1)).__name__ == "Dnf"


PLATFORM = {"nvidia-raid-config": "24.07-1", "nvidia-repo-keys": "23.04-1", "nvidia-crashdump": "24.04.2"}


def test_a_removal_on_a_dgx_without_a_driver_changes_nothing(host: AptHost) -> None:
    host.packages |= PLATFORM
    host.put("/etc/dgx-release", 'DGX_SWBUILD_VERSION="7.1.0"\n')
    for check in (True, False):
        done = manage(host, check=check, state="absent", replace=True)
        assert (done["action"], done["changed"], done["transaction"]["remove"]) == ("none", False, [])
    assert {**PLATFORM, **host.packages} == host.packages


def test_a_removal_leaves_the_platform_of_a_dgx(host: AptHost) -> None:
    manage(host, version="535.216.03")
    host.packages |= PLATFORM
    done = manage(host, state="absent")
    assert [row["name"] for row in done["transaction"]["remove"]] == sorted(NAMES)
    assert sorted(done["former"]["packages"]) == sorted(NAMES)
    assert {**PLATFORM, **host.packages} == host.packages


@pytest.mark.parametrize(
    ("name", "version", "goes"),
    [
        ("nvidia-container-toolkit", "1.18.1-1", False),
        ("nvidia-system-core", "24.07-1", False),
        ("linux-image-6.14.0-1013-nvidia", "6.14.0-1013.13", False),
        ("nvidia-settings", "510.47.03-0ubuntu1", True),
        ("cuda-runtime-12-4", "12.4.1-1", True),
    ],
)
def test_what_needs_the_driver_may_go_only_if_it_is_of_a_driver(
    host: AptHost, name: str, version: str, goes: bool
) -> None:
    manage(host, version="535.216.03")
    host.packages[name] = version
    # The fake says what the package manager would remove besides.
    host.commands["apt-get"] = lambda command: f"{AptHost._apt_get(host, command)}Remv {name} [{version}]\n"
    refused = manage(host, check=True, state="absent")["refused"]
    assert (refused is None) == goes and (goes or name in str(refused))
