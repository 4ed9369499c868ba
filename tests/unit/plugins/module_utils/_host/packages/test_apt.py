# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import apt_locks
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import apt as core
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Observed,
    Package,
    Request,
    Transaction,
)
from inline_snapshot import snapshot as wording

from tests.unit.fakes.apt_host import AptHost

PINS = "/etc/apt/preferences.d/gpuops-nvidia"
OFFERS = {
    "nvidia-smi": ["535.261.03-1", "535.216.03-2~bpo12+1"],
    "libcuda1": ["535.261.03-1", "535.216.03-2~bpo12+1"],
    "linux-headers-6.1.0-40-amd64": ["6.1.153-1"],
    "linux-headers-6.1.0-1-rt-amd64": ["6.1.4-1"],
    "linux-modules-nvidia-580-6.1.0-40-amd64": ["6.1.153"],
    "linux-modules-nvidia-580-6.1.0-1-aws": ["6.1.4"],
    "linux-image-6.1.0-40-amd64": ["6.1.153-1"],
    "nvidia-cuda-toolkit": ["11.8"],
    "bash": ["5.2"],
}

# What apt 2.6 prints for the two packages of an exact version without pins, on Debian bookworm with backports.
UNMET = """\
Reading package lists...
The following packages have unmet dependencies:
 nvidia-smi : Depends: nvidia-alternative (= 535.216.03-2~bpo12+1) but 535.261.03-1 is to be installed
              Depends: libnvidia-ml1 (= 535.216.03-2~bpo12+1) but 535.261.03-1 is to be installed
"""


@pytest.fixture
def host(tmp_path: Path) -> AptHost:
    return AptHost(tmp_path, OFFERS)


@pytest.fixture
def apt(host: AptHost) -> core.Apt:
    return core.Apt(host, lock_timeout_s=0)


def test_only_packages_of_this_host_are_of_interest(apt: core.Apt) -> None:
    assert {package.name for package in apt.offered()} == {
        "nvidia-smi",
        "libcuda1",
        "linux-headers-6.1.0-40-amd64",
        "linux-modules-nvidia-580-6.1.0-40-amd64",
    }
    assert Package("nvidia-smi", "535.216.03-2~bpo12+1", "debian") in apt.offered()


def test_installed_packages_have_their_hold_and_foreign_ones_their_architecture(host: AptHost, apt: core.Apt) -> None:
    row = "libcuda1:i386\ti386\thold\thalf-configured\t535.261.03-1\tcudatools <cudatools@nvidia.com>\n"
    host.commands["dpkg-query"] = (
        row + "bash\tamd64\tinstall\tinstalled\t5\tx\nnvidia-smi\tamd64\tdeinstall\tconfig-files\t5\tx\n"
    )
    assert apt.installed() == [Package("libcuda1:i386", "535.261.03-1", "nvidia", True)]


def test_the_lists_are_updated_only_if_they_are_old_or_missing(host: AptHost, apt: core.Apt) -> None:
    def updates() -> int:
        host.ran.clear()
        apt.refresh()
        return sum("update" in command for command in host.ran)

    os.utime(host.path("/etc/apt/sources.list"), (1, 1))
    assert updates() == 0
    later = time.time() + 60
    os.utime(host.path("/etc/apt/sources.list"), (later, later))
    assert updates() == 1
    os.utime(host.path("/etc/apt/sources.list"), (1, 1))
    os.utime(host.path("/var/lib/apt/lists"), (time.time() - 4000,) * 2)
    assert updates() == 1
    host.remove("/var/lib/apt/lists/deb.debian.org_Packages")
    assert updates() == 1


def test_the_owner_of_a_file_is_not_a_diversion(host: AptHost, apt: core.Apt) -> None:
    host.commands["dpkg-query"] = (
        "diversion by glx-diversions from: /usr/lib/libGL.so\nlibnvidia-ml1:amd64: /usr/lib/x\n"
    )
    assert apt.owners(["/usr/lib/x", "/usr/lib/y"]) == {"/usr/lib/x": "libnvidia-ml1", "/usr/lib/y": None}


def test_dgx_os_is_named(host: AptHost, apt: core.Apt) -> None:
    assert apt.dgx_release() is None
    host.put("/etc/dgx-release", 'DGX_NAME="DGX Server"\nDGX_SWBUILD_VERSION="7.1.0"\n')
    assert apt.dgx_release() == "DGX OS 7.1.0"
    host.put("/etc/dgx-release", 'DGX_NAME="DGX Server"\n')
    assert apt.dgx_release() == "DGX OS"


def test_a_transaction_is_one_command_with_pins_of_its_own(host: AptHost, apt: core.Apt) -> None:
    """The pins of an earlier version would hold dependencies back."""
    host.put(PINS, "Package: *\nPin: version 580.*\nPin-Priority: 1001\n")
    host.put("/etc/apt/preferences.d/mine", "Package: bash\nPin: version 5*\nPin-Priority: 1001\n")
    seen: list[dict[str, str | None]] = []
    install = host._apt_get

    def spy(command: list[str]) -> str:
        seen.append(
            {name: host.read(f"/run/gpuops/preferences.d/{name}") for name in host.names("/run/gpuops/preferences.d")}
        )
        return install(command)

    host.commands["apt-get"] = spy
    host.packages["nvidia-kernel-dkms"] = "470-1"
    transaction = Transaction({"nvidia-smi": "535.216.03-2~bpo12+1"}, ("nvidia-kernel-dkms",), version="535.216.03")
    outcome = apt.simulate(transaction)
    assert outcome.install == {"nvidia-smi": "535.216.03-2~bpo12+1"} and outcome.remove == ("nvidia-kernel-dkms",)
    [pins] = seen
    assert "bash" in str(pins["mine"]) and "535.216.03*" in str(pins["gpuops-nvidia"])
    assert "580" not in str(pins["gpuops-nvidia"])
    assert host.names("/run/gpuops/preferences.d") == []
    [command] = [command for command in host.ran if command[0] == "apt-get"]
    assert {"--simulate", "--allow-downgrades", "--no-install-recommends"} <= set(command)
    assert command[-2:] == ["nvidia-smi=535.216.03-2~bpo12+1", "nvidia-kernel-dkms-"]


def test_the_refusal_names_the_dependencies(host: AptHost, apt: core.Apt) -> None:
    host.commands["apt-get"] = Output(UNMET, "E: Unable to correct problems", "apt-get ended with 100: E: Unable")
    assert apt.simulate(Transaction({"nvidia-smi": "1"})).error == (
        "nvidia-smi : Depends: nvidia-alternative (= 535.216.03-2~bpo12+1) but 535.261.03-1 is to be installed "
        "Depends: libnvidia-ml1 (= 535.216.03-2~bpo12+1) but 535.261.03-1 is to be installed"
    )


def test_packages_on_hold_are_released_and_held_again(host: AptHost, apt: core.Apt) -> None:
    host.packages.update({"nvidia-smi": "535.216.03-2~bpo12+1", "libcuda1": "535.216.03-2~bpo12+1"})
    host.held = {"nvidia-smi", "libcuda1", "bash"}
    apt.apply(Transaction({"nvidia-smi": "535.261.03-1"}, ("libcuda1",), {PINS: "text\n"}))
    assert "libcuda1" not in host.packages and host.packages["nvidia-smi"] == "535.261.03-1"
    assert host.held == {"nvidia-smi", "bash"}
    assert host.read(PINS) == "text"
    apt.apply(Transaction(pins={PINS: None}))
    assert not host.exists(PINS)


@pytest.mark.parametrize("failing", ["unhold", "hold"])
def test_holds_that_cannot_be_changed_are_an_error(
    host: AptHost, apt: core.Apt, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    host.packages["nvidia-smi"], host.held = "1", {"nvidia-smi"}
    run = host.run

    def refuse(command: list[str], timeout_s: float | None = None) -> Output:
        broken = Output(stderr="E: Executing dpkg failed.", error="apt-mark ended with 100")
        return broken if command[:2] == ["apt-mark", failing] else run(command, timeout_s)

    monkeypatch.setattr(host, "run", refuse)
    with pytest.raises(GpuOpsError) as failed:
        apt.apply(Transaction({"nvidia-smi": "535.261.03-1"}))
    assert failed.value.msg == f"apt-mark {failing} failed: E: Executing dpkg failed."
    assert host.packages["nvidia-smi"] == ("1" if failing == "unhold" else "535.261.03-1")


def programs(host: AptHost) -> list[list[str]]:
    """Return what has run under env, without its settings."""
    return [command[4:] for command in host.ran if command[0] == "env"]


COMPLETE = ["dpkg", "--configure", "-a"]


@pytest.mark.parametrize("state", ["half-installed", "unpacked", "half-configured"])
def test_an_earlier_transaction_that_was_killed_is_completed_first(host: AptHost, apt: core.Apt, state: str) -> None:
    host.packages["nvidia-smi"], host.states["nvidia-smi"] = "535.261.03-1", state
    host.packages["vim"], host.states["vim"] = "9", state
    assert apt.unfinished() == ["nvidia-smi"]
    apt.apply(Transaction({"libcuda1": "535.261.03-1"}))
    assert programs(host)[0] == COMPLETE and programs(host)[1][:2] == ["apt-get", "--quiet"]


def test_dpkg_is_asked_to_complete_its_journal_which_apt_refuses(host: AptHost, apt: core.Apt) -> None:
    host.put("/var/lib/dpkg/updates/tmp.i", "")
    apt.apply(Transaction())
    assert programs(host) == []
    host.put("/var/lib/dpkg/updates/0003", "")
    apt.apply(Transaction())
    assert programs(host) == [COMPLETE]


def test_what_is_only_unpacked_is_configured_and_what_is_half_unpacked_is_installed_again(
    host: AptHost, apt: core.Apt
) -> None:
    host.packages.update({"nvidia-smi": "535.261.03-1", "libcuda1": "535.261.03-1"})
    host.states.update({"nvidia-smi": "unpacked"})
    apt.apply(Transaction())
    assert (programs(host), apt.unfinished()) == ([COMPLETE], [])
    host.states.update({"nvidia-smi": "half-configured", "libcuda1": "half-installed"})
    apt.apply(Transaction())
    assert programs(host)[-1][-2:] == ["install", "--fix-broken"] and apt.unfinished() == []


def test_what_cannot_be_configured_is_an_error_unless_it_is_replaced(host: AptHost, apt: core.Apt) -> None:
    host.packages["libcuda1"], host.states["libcuda1"] = "535.261.03-1", "half-configured"
    host.unconfigurable = True
    with pytest.raises(GpuOpsError) as error:
        apt.apply(Transaction())
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording(
        "An installation that was cut off cannot be completed: env ended with 1: dpkg: error processing package nvidia-kernel-dkms (--configure)."
    )
    apt.apply(Transaction({"libcuda1": "535.216.03-2~bpo12+1"}))
    assert host.packages["libcuda1"] == "535.216.03-2~bpo12+1" and apt.unfinished() == []


@pytest.mark.parametrize(
    ("stdout", "stderr", "reason"),
    [
        (
            "Error! Bad return status for module build on kernel: 6.1.0-40-amd64\n",
            "E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
            "Error! Bad return status for module build on kernel: 6.1.0-40-amd64",
        ),
        ("", "E: You don't have enough free space\n", "E: You don't have enough free space"),
        ("", "", "apt-get ended with 100"),
    ],
)
def test_a_failure_has_its_cause_and_leaves_the_holds(
    host: AptHost, apt: core.Apt, stdout: str, stderr: str, reason: str
) -> None:
    host.packages["nvidia-smi"], host.held = "1", {"nvidia-smi"}
    host.failure = Output(stdout, stderr, "apt-get ended with 100")
    with pytest.raises(GpuOpsError) as failed:
        apt.apply(Transaction({"nvidia-smi": "535.261.03-1"}, pins={PINS: "text\n"}))
    assert failed.value.msg.endswith(f": {reason}.")
    assert host.held == {"nvidia-smi"} and not host.exists(PINS)


def test_waits_for_whoever_has_the_locks(host: AptHost, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    host.failure = Output(
        stderr="E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812", error="x"
    )

    def give_up(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            host.failure = None

    monkeypatch.setattr(apt_locks.time, "sleep", give_up)
    core.Apt(host, lock_timeout_s=600).apply(Transaction({"libcuda1": "535.261.03-1"}))
    assert waited == [5.0, 5.0, 5.0] and host.packages["libcuda1"] == "535.261.03-1"


def test_former_packages_are_kept_if_a_repository_still_has_them(host: AptHost, apt: core.Apt) -> None:
    host.put("/var/cache/apt/archives/libnvidia-ml1_1%3a535.1-1_amd64.deb", "")
    former = {"nvidia-smi": "535.216.03-2~bpo12+1", "libnvidia-ml1": "1:535.1-1", "libcuda1": "520-1"}
    assert apt.keep(former) == ["libcuda1=520-1"]
    assert apt.kept(former) == {
        "nvidia-smi": "/var/cache/gpuops/packages/nvidia-smi_535.216.03-2~bpo12+1_amd64.deb",
        "libnvidia-ml1": "/var/cache/apt/archives/libnvidia-ml1_1%3a535.1-1_amd64.deb",
    }
    assert apt.keep({}) == []


def test_a_package_manager_that_is_silent_is_one_message(host: AptHost, apt: core.Apt) -> None:
    host.commands["dpkg"] = Output(error="dpkg ended with 2: database is locked")
    with pytest.raises(GpuOpsError) as error:
        apt.installed()
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording("The package manager does not answer: dpkg ended with 2: database is locked.")
    host.failure = None
    host.commands["env"] = Output(error="apt-get ended with 100: no network")
    host.remove("/var/lib/apt/lists/deb.debian.org_Packages")
    with pytest.raises(GpuOpsError) as error:
        apt.refresh()
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording("The lists of packages cannot be updated: apt-get ended with 100: no network.")


def test_names_come_from_the_names_of_apt(apt: core.Apt) -> None:
    observed = Observed(InstalledDriver(True, version="535.216.03"), (Package("nvidia-smi", "535.216.03-1"),))
    assert apt.removal(observed) == ["nvidia-smi"]
    assert apt.recognise([Package("nvidia-dkms-open", "1")], ()) == ("nvidia", "open")
    assert apt.layouts(Request(), observed, "580", "open")[-1].origin == "nvidia"
    assert apt.pins(Request(), None) == {PINS: None}


def test_the_candidates_are_those_of_apts_own_policy(apt: core.Apt) -> None:
    assert isinstance(apt.host, AptHost)
    asked = [package for package in apt.offered() if package.candidate]
    assert asked and len({package.name for package in asked}) == len(asked)
    assert {(package.name, package.version) for package in asked} == {
        (name, versions[0])
        for name, versions in apt.host.offers.items()
        if versions and any(package.name == name for package in apt.offered())
    }
