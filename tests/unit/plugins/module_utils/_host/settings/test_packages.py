# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import apt_locks
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import matching
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import packages as core
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost

INSTALLED = ("bash", "libnvidia-compute-580:amd64", "linux-image-6.8.0-60-generic", "nvidia-driver-580-server")


def debian(root: Path) -> FakeHost:
    """A host with dpkg. The file /holds has the packages on hold, one on each line."""
    host = FakeHost(root)

    def mark(command: list[str]) -> str:
        held = set((host.read("/holds") or "").split())
        names = set(command[2:])
        host.put("/holds", "\n".join(sorted(held | names if command[1] == "hold" else held - names)))
        return ""

    def query(_command: list[str]) -> str:
        held = (host.read("/holds") or "").split()
        return (
            "".join(f"{name}\t{'hold' if name in held else 'install'}\tinstalled\t1\n" for name in INSTALLED)
            + "gone\tdeinstall\tconfig-files\t1\n"
        )

    host.commands = {"apt-mark": mark, "dpkg-query": query}
    return host


def redhat(root: Path) -> FakeHost:
    host = FakeHost(root)
    rows = "bash\t0:5.1-9.el9\nkernel\t0:5.14.0-427.el9\nkernel\t0:5.14.0-362.el9\nnvidia-driver\t3:580.95.05-1.el9\n"
    host.commands = {"rpm": rows}
    host.put("/etc/redhat-release", "Rocky Linux release 9.4")
    host.put(core.LOCKS, "# Added lock on Mon\nopenssl-1:3.0.7-27.el9.*\n")
    return host


def apply(host: FakeHost, *packages: str, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    asked = {
        "owner": "gpuops",
        "driver": False,
        "state": "present",
        "lock_timeout": 0,
        **options,
        "packages": list(packages),
    }
    return core.hold(host, asked, check)


def four_steps(host: FakeHost, *packages: str, **options: t.Any) -> dict[str, t.Any]:
    """Check, run, check again and run again. Return the result of the first run."""
    predicted = apply(host, *packages, check=True, **options)
    done = apply(host, *packages, **options)
    assert predicted == done
    assert [apply(host, *packages, check=check, **options)["changed"] for check in (True, False)] == [False, False]
    return done


def test_debian_holds_installed_packages_and_releases_them(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put("/holds", "bash")
    done = four_steps(host, "linux-image-*", "*nvidia-*", "gone")
    assert done["held"] == list(INSTALLED[1:]) and done["changed"]
    assert [command for command in host.ran if command[0] == "apt-mark"] == [["apt-mark", "hold", *INSTALLED[1:]]]
    assert four_steps(host, "linux-image-*")["held"] == ["linux-image-6.8.0-60-generic"]
    four_steps(host, state="absent")
    assert host.read("/holds") == "bash" and not host.exists("/etc/gpuops/package_hold/gpuops.json")


def test_a_hold_by_somebody_else_stays(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put("/holds", "bash")
    assert four_steps(host, "bash", "linux-*")["held"] == ["linux-image-6.8.0-60-generic"]
    four_steps(host, state="absent")
    assert host.read("/holds") == "bash"


def test_a_hold_that_somebody_has_removed_comes_back(tmp_path: Path) -> None:
    host = debian(tmp_path)
    apply(host, "linux-*")
    host.put("/holds", "")
    assert four_steps(host, "linux-*")["changed"]


@pytest.mark.parametrize("step", ["hold", "unhold"])
def test_waits_while_dpkg_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    host = debian(tmp_path)
    if step == "unhold":
        apply(host, "bash")
    unlocked, wanted = host.commands["apt-mark"], ["bash"] if step == "hold" else []
    busy = "dpkg: error: dpkg frontend lock was locked by another process with pid 812"
    host.commands["apt-mark"] = Output(stderr=busy, error="apt-mark ended with 100")
    with pytest.raises(GpuOpsError) as error:
        apply(host, *wanted)
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording("The package manager does not answer: apt-mark ended with 100.")
    monkeypatch.setattr(apt_locks.time, "sleep", lambda dummy: host.commands.update({"apt-mark": unlocked}))
    assert apply(host, *wanted, lock_timeout=60)["held"] == wanted == (host.read("/holds") or "").split()


@pytest.mark.parametrize("step", ["hold", "unhold"])
def test_the_next_run_completes_a_run_that_was_killed(tmp_path: Path, step: str) -> None:
    host = debian(tmp_path)
    apply(host, "nvidia-*")
    mark = host.commands["apt-mark"]

    def killed(command: list[str]) -> str:
        if command[1] == step:
            raise KeyboardInterrupt
        return mark(command)

    host.commands["apt-mark"] = killed
    with pytest.raises(KeyboardInterrupt):
        apply(host, "linux-*")
    host.commands["apt-mark"] = mark
    assert four_steps(host, "linux-*")["changed"]
    four_steps(host, state="absent")
    assert host.read("/holds") == ""


DGX = {
    "libnvidia-compute-580:amd64": "580.95.05-0ubuntu1",
    "linux-modules-nvidia-580-server-open-6.8.0-60-generic": "6.8.0-60.63",
    "my-tools:amd64": "1.0",
    "nvidia-container-toolkit": "1.18.1-1",
    "nvidia-kernel-defaults": "24.07-1",
    "nvidia-raid-config": "24.07-1",
    "nvidia-repo-keys": "24.07-1",
}


def test_the_drivers_packages_are_those_of_its_files_and_its_version(tmp_path: Path) -> None:
    host = debian(tmp_path)
    library = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
    states = "".join(f"{name}\tinstall\tinstalled\t{version}\n" for name, version in DGX.items())

    def query(command: list[str]) -> str:
        owned = f"diversion by glx from: {library}\nmy-tools:amd64, other: {library}\n"
        held = (host.read("/holds") or "").split()
        rows = states.splitlines(keepends=True)
        shown = (row.replace("\tinstall\t", "\thold\t") if row.split("\t")[0] in held else row for row in rows)
        return owned if command[1] == "--search" else "".join(shown)

    host.commands["dpkg-query"] = query
    assert four_steps(host, driver=True)["held"] == ["nvidia-container-toolkit"]
    host.put("/sys/module/nvidia/version", "580.95.05\n")
    host.put(library, "")
    assert four_steps(host, driver=True)["held"] == sorted(DGX)[:4]


def test_red_hat_locks_every_installed_version_in_a_block(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    done = four_steps(host, "kernel", "nvidia-*")
    assert done["held"] == [
        "kernel-0:5.14.0-362.el9.*",
        "kernel-0:5.14.0-427.el9.*",
        "nvidia-driver-3:580.95.05-1.el9.*",
    ]
    before = "# Added lock on Mon\nopenssl-1:3.0.7-27.el9.*"
    block = ["# gpuops.nvidia gpuops: begin", *done["held"], "# gpuops.nvidia gpuops: end"]
    assert host.read(core.LOCKS) == "\n".join([before, *block])
    four_steps(host, "bash", owner="other")
    four_steps(host, state="absent")
    four_steps(host, owner="other", state="absent")
    assert host.read(core.LOCKS) == before


def test_red_hat_locks_the_driver(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    rows, library = host.commands["rpm"], "/usr/lib64/libcuda.so.580.95.05"
    host.commands["rpm"] = lambda command: "site-driver\n" if "--file" in command else f"{rows}site-driver\t0:1-1\n"
    host.put(library, "")
    Path(host.path("/usr/lib64/libcuda.so.1")).symlink_to("libcuda.so.580.95.05")
    assert four_steps(host, driver=True)["held"] == ["nvidia-driver-3:580.95.05-1.el9.*", "site-driver-0:1-1.*"]


def test_red_hat_gets_the_plugin_if_there_is_something_to_hold(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    host.remove(core.LOCKS)
    assert not four_steps(host, "gone")["changed"]
    assert not four_steps(host, state="absent")["changed"]
    assert all(command[0] == "rpm" for command in host.ran), (
        "The plugin must not be installed if there is nothing to hold."
    )

    def dnf(command: list[str]) -> str:
        assert command == ["dnf-3", "--assumeyes", "--quiet", "install", "python3-dnf-plugin-versionlock"]
        host.put(core.LOCKS, "# The plugin's own line\n")
        return ""

    with pytest.raises(GpuOpsError) as error:
        apply(host, "kernel", check=True)
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "Packages are locked by the plugin versionlock of dnf 4 (python3-dnf-plugin-versionlock), which this host does not have."
    )
    host.commands["dnf-3"] = lambda _command: ""
    with pytest.raises(GpuOpsError) as error:
        apply(host, "kernel")
    assert error.value.reason == "PluginMissing"
    assert error.value.msg == wording(
        "python3-dnf-plugin-versionlock, which dnf needs to hold packages, could not be installed, so the packages are not held: it did not install /etc/dnf/plugins/versionlock.list."
    )
    assert not host.exists(core.LOCKS)
    host.commands["dnf-3"] = dnf
    assert len(four_steps(host, "kernel")["held"]) == 2
    assert host.read(core.LOCKS).splitlines()[:2] == ["# The plugin's own line", "# gpuops.nvidia gpuops: begin"]
    assert [command[0] for command in host.ran].count("dnf-3") == 2


def test_a_package_that_cannot_be_held_is_an_error(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    host.commands = {}
    with pytest.raises(GpuOpsError, match="neither apt nor rpm"):
        apply(host, "kernel")
    with pytest.raises(GpuOpsError, match="owner must be"):
        apply(host, owner="A b")
    failing = debian(tmp_path / "debian")
    failing.put("/etc/gpuops/package_hold/gpuops.json", "[")
    with pytest.raises(GpuOpsError, match="is damaged"):
        apply(failing)

    def broken(_command: list[str]) -> str:
        raise OSError("dpkg is broken")

    failing.commands["dpkg-query"] = broken
    with pytest.raises(GpuOpsError) as error:
        apply(failing)
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording("The package manager does not answer: dpkg-query ended with 1: dpkg is broken.")


# Names from the repositories of Rocky 9 (x86-64 and Arm), Oracle Linux 9, Amazon Linux 2023, SLES 15 and Ubuntu 24.04.
KERNELS = [
    "kernel",
    "kernel-core",
    "kernel-modules",
    "kernel-modules-core",
    "kernel-modules-extra",
    "kernel-devel",
    "kernel-devel-matched",
    "kernel-64k",
    "kernel-64k-core",
    "kernel-64k-modules",
    "kernel-64k-modules-core",
    "kernel-64k-devel",
    "kernel-64k-devel-matched",
    "kernel-rt",
    "kernel-rt-core",
    "kernel-rt-modules",
    "kernel-rt-devel",
    "kernel-uek",
    "kernel-uek-core",
    "kernel-uek-modules",
    "kernel-uek-modules-core",
    "kernel-uek-devel",
    "kernel6.12",
    "kernel6.12-modules-extra",
    "kernel6.12-devel",
    "kernel-default",
    "kernel-default-devel",
    "linux-image-6.8.0-60-generic",
    "linux-image-generic",
    "linux-headers-6.8.0-60-generic",
    "linux-modules-6.8.0-60-generic",
    "linux-modules-extra-6.8.0-60-generic",
    "linux-modules-nvidia-580-server-open-6.8.0-60-generic",
    "linux-image-aws",
    "linux-generic",
    "linux-generic-hwe-24.04",
    "linux-virtual",
    "linux-image-generic-64k",
]
NO_KERNELS = [
    "kernel-tools",
    "kernel-tools-libs",
    "kernel-headers",
    "kernel-srpm-macros",
    "linux-libc-dev",
    "linux-firmware",
    "linux-base",
]


def test_the_role_holds_the_kernels_of_every_flavour() -> None:
    variables = yaml.safe_load((Path(__file__).parents[6] / "roles/host_prep/vars/main.yml").read_text())
    patterns = [*variables["__host_prep_debian_kernel"], *variables["__host_prep_red_hat_kernel"]]
    assert matching([*KERNELS, *NO_KERNELS], patterns) == sorted(KERNELS)


@pytest.mark.parametrize("end", ["\n", "\n\n\n"])
def test_what_others_have_in_the_list_stays_byte_by_byte(tmp_path: Path, end: str) -> None:
    host = redhat(tmp_path)
    path = Path(host.path(core.LOCKS))
    others = b"# \xe9\nopenssl-1:3.0.7-27.el9.*" + end.encode()
    path.write_bytes(others)
    path.chmod(0o640)
    four_steps(host, "kernel")
    assert path.read_bytes().startswith(others)
    four_steps(host, state="absent")
    assert path.read_bytes() == others and path.stat().st_mode & 0o777 == 0o640


def test_a_list_without_a_newline_at_its_end_gets_one(tmp_path: Path) -> None:
    host = redhat(tmp_path)
    host.put(core.LOCKS, "openssl-1:3.0.7-27.el9.*")
    four_steps(host, "kernel")
    assert "el9.*\n# gpuops.nvidia gpuops: begin\n" in (host.read(core.LOCKS) or "")
