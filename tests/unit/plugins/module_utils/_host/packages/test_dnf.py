# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.dnf import STATE, Dnf
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Observed,
    Outcome,
    Package,
    Request,
    Transaction,
)
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost, recorded

KERNEL = "5.14.0-427.13.1.el9_4.x86_64"
HEADERS = f"kernel-devel-{KERNEL}"
RPMS = """\
kernel-core|0|5.14.0|427.13.1.el9_4|x86_64|installed
kmod-nvidia-open-dkms|3|580.82.07|1.el9|x86_64|installed
nvidia-driver-cuda|3|580.82.07|1.el9|x86_64|installed
bash|0|5.1.8|9.el9|x86_64|installed
"""
OFFERED_HEADERS = (
    "kernel-devel|0|5.14.0|427.13.1.el9_4|x86_64|appstream\nkernel-devel|0|5.14.0|1.el9|aarch64|appstream\n"
)
REPOSITORY = "--setopt=cuda.module_hotfixes=1"
NEW = {"kmod-nvidia-open-dkms": "3:580.95.05-1.el9", "nvidia-driver-cuda": "3:580.95.05-1.el9"}


class ElHost(FakeHost):
    """A host whose dnf and rpm print recorded texts. ``enabled`` changes with the commands, as on a host."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, dnf=self._dnf, rpm=self._rpm)
        self.put("/proc/sys/kernel/osrelease", f"{KERNEL}\n")
        self.put(f"/lib/modules/{KERNEL}/vmlinuz", "")
        self.rpms, self.headers, self.modular = RPMS, OFFERED_HEADERS, True
        self.answers: dict[str, str] = {}
        self.fails: dict[str, str] = {}

    def _dnf(self, command: list[str]) -> str:
        words = [word for word in command[1:] if not word.startswith("-")]
        if words[0] in self.fails:
            raise OSError(self.fails[words[0]])
        if words[:2] == ["module", "list"]:
            return recorded("dnf/module_list.txt") if self.modular else ""
        if words[:2] == ["module", "enable"]:
            self.put(
                STATE, f"[nvidia-driver]\nname=nvidia-driver\nstream={words[2].partition(':')[2]}\nstate=enabled\n"
            )
        if words[:2] == ["module", "reset"]:
            self.put(STATE, recorded("dnf/reset.module"))
        if words[0] == "repoquery":
            return recorded("dnf/repoquery.txt") + self.headers
        return self.answers.get(words[0], "")

    def _rpm(self, command: list[str]) -> str:
        if "--erase" in command:
            erased = command[command.index("--nodeps") + 1 :]
            self.rpms = "".join(
                line for line in self.rpms.splitlines(keepends=True) if self._full(line.split("|")) not in erased
            )
            return ""
        if "--all" in command and "INSTALLTIME" in command[-1]:
            rows = [line.split("|") for line in self.rpms.splitlines()]
            return "".join(
                f"{row[0]}|{row[4]}|{1760000000 + number}|{self._full(row)}\n" for number, row in enumerate(rows)
            )
        if "--all" in command:
            return self.rpms
        path = command[-1]
        if path == f"/lib/modules/{KERNEL}/vmlinuz":
            return f"kernel-core|{KERNEL}\n"
        if path == "/usr/lib64/libnvidia-ml.so.1":
            return "libnvidia-ml\n"
        raise OSError(f"file {path} is not owned by any package")

    @staticmethod
    def _full(row: list[str]) -> str:
        return f"{row[0]}-{row[2]}-{row[3]}.{row[4]}"

    def commands_of(self, *words: str) -> list[list[str]]:
        """Return the dnf commands with these words that have run."""
        return [command for command in self.ran if command[0] == "dnf" and set(words) <= set(command)]


@pytest.fixture
def host(tmp_path: Path) -> ElHost:
    return ElHost(tmp_path)


def observed(dnf: Dnf, **more: t.Any) -> Observed:
    known = {"driver": InstalledDriver(), "offered": tuple(dnf.offered()), "kernels": (KERNEL,), **more}
    return Observed(**known)


def test_reads_the_packages_of_driver_and_kernels(host: ElHost) -> None:
    host.put("/etc/dnf/plugins/versionlock.list", "kmod-nvidia-open-dkms-3:580.82.07-1.el9.*\n")
    found = Dnf(host).installed()
    assert [(each.name, each.version, each.origin, each.held) for each in found] == [
        ("kernel-core", "0:5.14.0-427.13.1.el9_4", "distribution", False),
        ("kmod-nvidia-open-dkms", "3:580.82.07-1.el9", "nvidia", True),
        ("nvidia-driver-cuda", "3:580.82.07-1.el9", "nvidia", False),
    ]


def test_reads_what_repositories_offer_behind_the_modular_filter(host: ElHost) -> None:
    found = {each.name: each.origin for each in Dnf(host).offered()}
    assert found["kmod-nvidia-open-dkms"] == "nvidia" and found[HEADERS] == "distribution"
    assert "kernel-devel-5.14.0-1.el9.aarch64" not in found
    assert "--disable-modular-filtering" in host.commands_of("repoquery")[0]


def test_the_owner_of_a_file_and_the_driver_that_packages_make(host: ElHost) -> None:
    dnf = Dnf(host)
    paths = ["/usr/lib64/libnvidia-ml.so.1", "/usr/lib64/libcuda.so.1"]
    assert dnf.owners(paths) == {paths[0]: "libnvidia-ml", paths[1]: None}
    assert dnf.recognise(dnf.installed(), ["libnvidia-ml"]) == ("nvidia", "open")
    assert dnf.recognise([], ["libnvidia-ml"]) == ("nvidia", None)
    assert dnf.recognise([Package("kmod-nvidia-latest-dkms", "3:580.82.07-1.el9")], []) == ("nvidia", "proprietary")
    assert dnf.recognise([Package("akmod-nvidia", "3:580.82.07-1.el9")], []) == ("distribution", "proprietary")
    assert dnf.recognise([Package("kernel-core", "0:5.14.0-1")], ["bash"]) == (None, None)


def test_a_branch_needs_its_stream_and_the_headers_of_the_kernel(host: ElHost) -> None:
    dnf = Dnf(host)
    (layout,) = dnf.layouts(Request(branch="580"), observed(dnf), "580", "open")
    assert layout.required == ("kmod-nvidia-open-dkms", "nvidia-driver-cuda")
    assert (layout.streams, layout.extra) == (("nvidia-driver:580-open",), (HEADERS,))
    assert dnf.layouts(Request(branch="580", origin="distribution"), observed(dnf), "580", "open") == []
    host.put(f"/lib/modules/{KERNEL}/build/Makefile", "")
    assert dnf.layouts(Request(branch="580"), observed(dnf), "580", "open")[0].extra == ()


def test_secure_boot_prefers_precompiled_modules(host: ElHost) -> None:
    dnf = Dnf(host)
    layouts = dnf.layouts(Request(branch="580"), observed(dnf, secure_boot=True), "580", "proprietary")
    names = ["kmod-nvidia-580.95.05-5.14.0-427.13.1", "kmod-nvidia-latest-dkms"]
    assert [layout.required[0] for layout in layouts] == names
    assert [layout.signed for layout in layouts] == [True, False]
    host.put(STATE, recorded("dnf/nvidia-driver.module").replace("580-open", "580"))
    assert dnf.layouts(Request(branch="580"), observed(dnf), "580", "proprietary")[0].required[0] == names[0]


def test_another_enabled_stream_is_refused_by_name_unless_the_change_is_permitted(host: ElHost) -> None:
    host.put(STATE, recorded("dnf/nvidia-driver.module"))
    dnf = Dnf(host)
    with pytest.raises(GpuOpsError) as error:
        dnf.layouts(Request(branch="590"), observed(dnf), "590", "open")
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording(
        "The module stream nvidia-driver:580-open is enabled, and the open modules of driver branch 590 need nvidia-driver:590-open. Run dnf module reset nvidia-driver, or permit the change."
    )
    for permitted in (Request(branch="590", replace=True), Request(branch="580")):
        assert dnf.layouts(permitted, observed(dnf), permitted.branch, "open")
    assert dnf.layouts(Request(branch="590"), observed(dnf, driver=InstalledDriver(present=True)), "590", "open")


def test_if_no_branch_is_asked_for_the_enabled_stream_says_which(host: ElHost) -> None:
    host.put(STATE, recorded("dnf/nvidia-driver.module"))
    dnf = Dnf(host)
    assert dnf.layouts(Request(), observed(dnf), "590", "open") == []
    assert dnf.layouts(Request(), observed(dnf), "580", "open")[0].streams == ("nvidia-driver:580-open",)


def test_headers_that_cannot_be_had_ask_for_a_reboot_first(host: ElHost) -> None:
    host.headers = ""
    dnf = Dnf(host)
    message = rf"{HEADERS}, the headers of the running kernel.* Update the kernel and reboot first"
    with pytest.raises(GpuOpsError, match=message):
        dnf.layouts(Request(branch="580"), observed(dnf), "580", "open")
    host.put("/boot/vmlinuz-5.14.0-503.1.1.el9_5.x86_64", "")
    with pytest.raises(GpuOpsError) as error:
        dnf.layouts(Request(branch="580"), observed(dnf), "580", "open")
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording(
        "No enabled repository offers kernel-devel-5.14.0-427.13.1.el9_4.x86_64, the headers of the running kernel, which the driver's modules are built with. Reboot into the installed kernel 5.14.0-503.1.1.el9_5.x86_64 first."
    )


def test_a_transaction_has_exact_versions_and_no_modular_filter(host: ElHost) -> None:
    host.answers["install"] = recorded("dnf/install.txt")
    found = Dnf(host).simulate(Transaction({**NEW, HEADERS: ""}))
    assert found.install["dkms"] == "3.1.8-1.el9" and found.error is None
    (command,) = host.commands_of("install", "--assumeno")
    assert command[-3:] == ["kmod-nvidia-open-dkms-3:580.95.05-1.el9", "nvidia-driver-cuda-3:580.95.05-1.el9", HEADERS]
    assert REPOSITORY in command and "--disableplugin=versionlock" in command and "--allowerasing" not in command


def test_a_repository_without_modules_needs_no_option(host: ElHost) -> None:
    host.modular = False
    Dnf(host).simulate(Transaction(NEW))
    assert REPOSITORY not in host.commands_of("install")[0]


def test_what_dnf_does_not_erase_is_removed_after_it(host: ElHost) -> None:
    host.answers["install"] = recorded("dnf/change.txt")
    transaction = Transaction(NEW, remove=("kmod-nvidia-latest-dkms", "nvidia-driver"))
    assert Dnf(host).simulate(transaction).remove == ("kmod-nvidia-latest-dkms", "nvidia-driver")
    assert "--allowerasing" in host.commands_of("install")[0]
    host.rpms += "nvidia-driver|3|580.82.07|1.el9|x86_64|installed\n"
    Dnf(host).apply(transaction)
    assert host.commands_of("remove")[0][-2:] == ["remove", "nvidia-driver"]


def test_a_refusal_of_dnf_is_the_outcome(host: ElHost) -> None:
    host.fails["install"] = recorded("dnf/no_dkms.txt")
    assert "offers dkms" in str(Dnf(host).simulate(Transaction(NEW)).error)
    assert Dnf(host).simulate(Transaction()) == Outcome()


def test_the_stream_is_reset_before_another_is_enabled(host: ElHost) -> None:
    host.put(STATE, recorded("dnf/nvidia-driver.module"))
    transaction = Transaction(NEW, streams=("nvidia-driver:590-open",), pins={"/etc/x": "text\n", "/etc/y": None})
    host.put("/etc/y", "")
    dnf = Dnf(host)
    dnf.apply(transaction)
    dnf.apply(transaction)
    words = [command[-2:] for command in host.commands_of("module") if "list" not in command]
    assert words == [["reset", "nvidia-driver"], ["enable", "nvidia-driver:590-open"]]
    assert host.read("/etc/x") == "text" and not host.exists("/etc/y")
    assert dnf.streams().enabled == "590-open"


def test_what_a_transaction_that_was_cut_off_has_replaced_is_removed_first(host: ElHost) -> None:
    """The later installation counts, whether it was an upgrade or a way back. Kernels may be there several times."""
    dnf = Dnf(host)
    assert dnf.unfinished() == []
    host.rpms += (
        "nvidia-driver-cuda|3|580.95.05|1.el9|x86_64|installed\nkmod-nvidia-open-dkms|3|570.1|1.el9|x86_64|installed\n"
        "kernel-core|0|5.14.0|500.el9|x86_64|installed\nkmod-nvidia-580|3|580.1|1.el9|x86_64|installed\n"
        "kmod-nvidia-580|3|580.2|1.el9|x86_64|installed\nnvidia-driver-cuda|3|580.95.05|1.el9|i686|installed\n"
    )
    assert dnf.unfinished() == ["kmod-nvidia-open-dkms", "nvidia-driver-cuda"]
    dnf.apply(Transaction())
    assert [command[3:] for command in host.ran if "--erase" in command] == [
        ["kmod-nvidia-open-dkms-580.82.07-1.el9.x86_64", "nvidia-driver-cuda-580.82.07-1.el9.x86_64"]
    ]
    assert dnf.unfinished() == [] and not host.commands_of("install")


@pytest.mark.parametrize("before", [None, recorded("dnf/nvidia-driver.module")])
def test_a_failed_installation_puts_the_stream_back(host: ElHost, before: str | None) -> None:
    if before:
        host.put(STATE, before)
    host.fails["install"] = recorded("dnf/conflict.txt")
    with pytest.raises(GpuOpsError) as error:
        Dnf(host).apply(Transaction(NEW, streams=("nvidia-driver:590-open",)))
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording(
        "The packages could not be installed. kmod-nvidia-open-dkms-3:580.95.05-1.el9.x86_64 conflicts with kmod-nvidia-latest-dkms-3:580.82.07-1.el9.x86_64."
    )
    assert host.read(STATE) == (before.rstrip("\n") if before else None)


def test_copies_of_the_former_packages_are_the_way_back(host: ElHost) -> None:
    def download(command: list[str]) -> str:
        if "reinstall" in command:
            folder = next(word.partition("=")[2] for word in command if word.startswith("--downloaddir="))
            host.put(f"{folder}/nvidia-driver-cuda-580.82.07-1.el9.x86_64.rpm", "")
        return ""

    dnf, former = Dnf(host), {"kmod-nvidia-open-dkms": "3:580.82.07-1.el9", "nvidia-driver-cuda": "3:580.82.07-1.el9"}
    dnf.offered()
    host.commands["dnf"] = download
    assert dnf.keep(former) == ["kmod-nvidia-open-dkms=3:580.82.07-1.el9"]
    kept = dnf.kept(former)
    assert kept == {"nvidia-driver-cuda": "/var/cache/gpuops/packages/nvidia-driver-cuda-580.82.07-1.el9.x86_64.rpm"}
    dnf.apply(Transaction(local=tuple(kept.values())))
    assert {"--allowerasing", "install", *kept.values()} <= set(host.ran[-1])


def test_a_removal_includes_whoever_owns_the_files(host: ElHost) -> None:
    dnf = Dnf(host)
    packages = observed(dnf, installed=tuple(dnf.installed()), owners=("libnvidia-ml",))
    assert dnf.removal(packages) == ["kmod-nvidia-open-dkms", "libnvidia-ml", "nvidia-driver-cuda"]


def test_a_declared_version_is_locked(host: ElHost) -> None:
    locks = "/etc/dnf/plugins/versionlock.list"
    for request, kept in ((Request(version="580.95.05"), "580.95.05"), (Request(branch="580"), "580.*")):
        pins = Dnf(host).pins(request, "580.95.05")
        assert f"nvidia-fabricmanager-0:{kept}-*\n" in str(pins[locks]) and pins[STATE] is None
    assert Dnf(host).pins(Request(state="absent", branch="580"), None)[locks] is None


def test_the_way_back_restores_the_stream(host: ElHost) -> None:
    before = recorded("dnf/nvidia-driver.module")
    host.put(STATE, before)
    pins = Dnf(host).pins(Request(), "580.95.05")
    assert pins[STATE] == before
    host.put(STATE, before.replace("580", "590"))
    Dnf(host).apply(Transaction(pins={STATE: pins[STATE]}))
    assert Dnf(host).streams().enabled == "580-open"


def test_repositories_that_do_not_answer_are_one_sentence(host: ElHost) -> None:
    host.fails["makecache"] = "Error: Failed to download metadata for repo 'cuda': Cannot download repomd.xml"
    with pytest.raises(GpuOpsError) as error:
        Dnf(host).refresh()
    assert error.value.reason == "PackageManager"
    assert error.value.msg == wording(
        "The metadata of the repositories cannot be had: Error: Failed to download metadata for repo 'cuda': Cannot download repomd.xml."
    )
