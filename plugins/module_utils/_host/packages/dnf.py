# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The driver's packages on the Red Hat family: dnf 4 and the module streams of NVIDIA's repository.

Versions are always exact. A stream has only the newest modules of its branch, so a transaction turns the modular
filter off for NVIDIA's repositories. The stream is enabled all the same, for the user's own upgrades, and locks keep
the packages that are in no stream at the driver's version.
"""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel import installed_kernels
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import matching
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import dnf_catalog, dnf_locks, dnf_output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.family import KEPT, Family
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    Layout,
    Observed,
    Outcome,
    Package,
    Request,
    Transaction,
)

STATE = f"/etc/dnf/modules.d/{dnf_catalog.MODULE}.module"
_METADATA_LASTS_S = 3600
"""How old the metadata of a repository may be. dnf itself lets it grow two days old."""

_QUERY_TIMEOUT_S = 300.0
_TRANSACTION_TIMEOUT_S = 3600.0
"""Building the modules takes minutes, and a transaction that is killed leaves the host with half a driver."""

_RPM_FIELDS = "--queryformat=%{NAME}|%{EPOCHNUM}|%{VERSION}|%{RELEASE}|%{ARCH}|installed\\n"
_RPM_TIMES = "--queryformat=%{NAME}|%{ARCH}|%{INSTALLTIME}|%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}\\n"
_NAMES = ("kmod-*nvidia*", "nvidia-*", "libnvidia-*", "libnvsdm*", "nvlsm", "cuda-drivers*", dnf_catalog.LOCK_PLUGIN)
_KERNELS = ("kernel*", "kmod-*nvidia*", "nvidia-*", "libnvidia-*", "libnvsdm*", "nvlsm", "cuda-drivers*")
# Modules that are built for a kernel may be there several times, once for each kernel.
_ONCE = ("kmod-*nvidia*-dkms", "nvidia-*", "libnvidia-*", "libnvsdm*", "nvlsm")
# The names that other packagers of the driver use: RPM Fusion and ELRepo.
_FOREIGN = ("akmod-nvidia*", "xorg-x11-drv-nvidia*", "nvidia-x11-drv*")
_MODULES = ("kmod-*nvidia*", "akmod-nvidia*")
_NVIDIAS = ("nvidia-driver*", "kmod-nvidia-*", "kmod-64k-nvidia-*", "nvidia-kmod-common", "libnvidia-ml")


class Dnf(Family):
    """The packages of a host with dnf 4."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def refresh(self) -> None:
        """Download the metadata of repositories that is missing or old."""
        self._asked(
            ["dnf", "--quiet", f"--setopt=*.metadata_expire={_METADATA_LASTS_S}", "makecache"],
            "The metadata of the repositories cannot be had",
        )

    def installed(self) -> list[Package]:
        """Return the packages of the driver and of kernels. Headers have their kernel in the name."""
        rows = self._rpms()
        names = {row.name for row in rows}
        wanted = set(matching(names, [*_KERNELS, *_FOREIGN, dnf_catalog.LOCK_PLUGIN, "dkms"]))
        locked = dnf_locks.locked(self.host)
        return [
            Package(_name(row), row.full, "nvidia" if _is_nvidias(row.name) else "distribution", row.name in locked)
            for row in rows
            if row.name in wanted
        ]

    def offered(self) -> list[Package]:
        """Return every version of the driver's packages and of the headers of the installed kernels."""
        return [
            Package(_name(row), row.full, "nvidia" if row.repository in self._nvidias else "distribution")
            for row in self._available
        ]

    def owners(self, paths: t.Sequence[str]) -> dict[str, str | None]:
        """Return the package that owns each file."""
        return {path: self._owner(path) for path in paths}

    def recognise(self, installed: t.Sequence[Package], owners: t.Collection[str]) -> tuple[str | None, str | None]:
        """Return whose driver is installed, and its flavour."""
        names = {*(package.name for package in installed), *owners}
        if not matching(names, [*_NVIDIAS, *_FOREIGN]):
            return None, None
        modules = matching(names, _MODULES)
        flavour = None if not modules else "open" if any("open" in name for name in modules) else "proprietary"
        return ("distribution" if matching(names, _FOREIGN) else "nvidia"), flavour

    def layouts(self, request: Request, observed: Observed, branch: str, flavour: str) -> list[Layout]:
        """Return the layouts of a branch. Precompiled modules come first where only signed ones can be loaded."""
        if request.origin == "distribution":
            return []
        streams = self.streams()
        kernel = self.host.read("/proc/sys/kernel/osrelease") or ""
        built = dnf_catalog.precompiled_layouts(branch, flavour, kernel, observed.offered, streams)
        first = built if observed.secure_boot or streams.precompiled else []
        by_dkms = dnf_catalog.dkms_layout(branch, flavour, streams, self._extra(observed, kernel))
        layout = (first or [by_dkms])[0]
        if not observed.driver.present:
            if not request.wanted_branch and streams.enabled_branch not in (None, branch):
                return []
            self._assert_possible(request, layout, observed, streams, kernel)
        return [*first, by_dkms]

    def removal(self, observed: Observed) -> list[str]:
        """Return the packages of the driver, among them those of other packagers."""
        names = [package.name for package in observed.installed]
        parts = observed.parts(matching(names, _MODULES))
        return sorted({*parts, *(matching(names, _FOREIGN) if parts else ())})

    def pins(self, request: Request, version: str | None) -> dict[str, str | None]:
        """Return the list of the plugin versionlock, and the state of the module as it is.

        The state is there for the way back, which writes the former files. A transaction changes it by its streams.
        """
        names = {row.name: row.epoch for row in self._available if row.repository in self._nvidias}
        state = self.host.read(STATE)
        present = request.state == "present"
        return {
            STATE: None if state is None else f"{state}\n",
            **dnf_locks.pins(self.host, names, request if present else None, version, self._modular),
        }

    def simulate(self, transaction: Transaction) -> Outcome:
        """Ask dnf for the transaction, and answer no."""
        found = Outcome()
        specs = self._specs(transaction)
        if specs:
            output = self.host.run(self._install(transaction, specs, "--assumeno"), _QUERY_TIMEOUT_S)
            found = dnf_output.outcome(output.stdout)
            if not (output.ok or found.install or found.remove):
                return Outcome(error=dnf_output.refusal(output.stdout, output.stderr))
        left = [name for name in transaction.remove if name not in found.remove and name not in found.install]
        return Outcome(found.install, tuple(sorted({*found.remove, *left})), found.error)

    def keep(self, packages: t.Mapping[str, str]) -> list[str]:
        """Download the installed packages once more, for a way back that needs no repository."""
        wanted = {name: version for name, version in packages.items() if name not in self.kept({name: version})}
        if wanted:
            options = ["--assumeyes", "--quiet", "--downloadonly", f"--downloaddir={KEPT}", *self._options()]
            specs = [f"{name}-{version}" for name, version in wanted.items()]
            self.host.run(["dnf", *options, "reinstall", *specs], _TRANSACTION_TIMEOUT_S)
        kept = self.kept(packages)
        return [f"{name}={version}" for name, version in packages.items() if name not in kept]

    def kept(self, packages: t.Mapping[str, str]) -> dict[str, str]:
        """Return the downloaded files. A file's name has no epoch."""
        files = self.host.glob(f"{KEPT}/*.rpm")
        found = {}
        for name, version in packages.items():
            start = f"{KEPT}/{name}-{version.partition(':')[2] or version}."
            path = next((path for path in files if path.startswith(start)), None)
            if path:
                found[name] = path
        return found

    def unfinished(self) -> list[str]:
        """Return the packages that are there twice: rpm removes the former versions last."""
        return sorted({name for name, dummy in self._left_behind()})

    def apply(self, transaction: Transaction) -> None:
        """Complete what was cut off, then install and remove with the stream. If that fails, it is as before."""
        before = self.host.read(STATE)
        former = [full for dummy, full in self._left_behind()]
        if former:
            # Their dependencies are those of the packages that have taken their places.
            self._done(["rpm", "--erase", "--nodeps", *former], "removed")
        try:
            for stream in transaction.streams:
                self._enable(stream)
            specs = self._specs(transaction)
            if specs:
                self._done(self._install(transaction, specs, "--assumeyes"), "installed")
            self._remove(transaction.remove)
        except GpuOpsError:
            self._restore(before)
            raise
        # The plugin for locks may have come with the packages, with an empty list.
        for path, text in transaction.pins.items():
            self.host.remove(path) if text is None else self.host.write(path, text)
        self._forget()

    def streams(self) -> dnf_catalog.Streams:
        """Return the streams of NVIDIA's module. A repository without modules, as for EL 10, lacks them."""
        return dnf_output.streams(self._module_list, self.host.read(STATE))

    @functools.cached_property
    def _module_list(self) -> str:
        return self.host.run(["dnf", "--quiet", "module", "list", dnf_catalog.MODULE], _QUERY_TIMEOUT_S).stdout

    def _assert_possible(
        self, request: Request, layout: Layout, observed: Observed, streams: dnf_catalog.Streams, running: str
    ) -> None:
        """Refuse what would not work after the installation. A host that has a driver already may keep it."""
        other = dnf_catalog.other_stream(layout, streams)
        if other and not request.replace:
            raise GpuOpsError(
                f"The module stream {dnf_catalog.MODULE}:{other} is enabled, and the {layout.flavour} modules of "
                f"driver branch {layout.branch} need {layout.streams[0]}. Run dnf module reset {dnf_catalog.MODULE}, "
                "or permit the change.",
                reason="PackageManager",
            )
        headers = self._headers(running)
        if headers in layout.extra and not any(package.name == headers for package in observed.offered):
            raise GpuOpsError(self._no_headers(running, headers), reason="PackageManager")

    def _extra(self, observed: Observed, running: str) -> list[str]:
        """Return the headers that the kernels lack, and dnf's plugin for locks where it can be had."""
        offered = {package.name for package in observed.offered}
        lacking = [
            self._headers(kernel)
            for kernel in observed.kernels or (running,)
            if not self.host.exists(f"/lib/modules/{kernel}/build/Makefile")
        ]
        plugin = [dnf_catalog.LOCK_PLUGIN] if dnf_catalog.LOCK_PLUGIN in offered else []
        return [*dict.fromkeys(name for name in lacking if name), *plugin]

    def _no_headers(self, running: str, name: str) -> str:
        newest = installed_kernels(self.host)[-1:]
        remedy = "Update the kernel and reboot first"
        if newest and newest[0] != running:
            remedy = f"Reboot into the installed kernel {newest[0]} first"
        return (
            f"No enabled repository offers {name}, the headers of the running kernel, which the driver's modules are "
            f"built with. {remedy}."
        )

    def _headers(self, kernel: str) -> str | None:
        """Return the package of a kernel's headers with its version, by the package that owns the kernel's image."""
        for path in (f"/lib/modules/{kernel}/vmlinuz", f"/boot/vmlinuz-{kernel}"):
            query = ["rpm", "--query", "--file", "--queryformat=%{NAME}|%{VERSION}-%{RELEASE}.%{ARCH}\\n", path]
            output = self.host.run(query, _QUERY_TIMEOUT_S)
            if output.ok and "|" in output.stdout:
                name, dummy, version = output.stdout.splitlines()[0].partition("|")
                return f"{dnf_catalog.devel_of(name)}-{version}"
        return None

    def _owner(self, path: str) -> str | None:
        output = self.host.run(["rpm", "--query", "--file", "--queryformat=%{NAME}\\n", path], _QUERY_TIMEOUT_S)
        return output.stdout.splitlines()[0] if output.ok and output.stdout else None

    @functools.cached_property
    def _available(self) -> list[dnf_output.Available]:
        headers = [name for name in map(self._headers, installed_kernels(self.host)) if name]
        command = ["dnf", "--quiet", "repoquery", "--available", "--disable-modular-filtering"]
        command += ["--disableplugin=versionlock", f"--queryformat={dnf_output.QUERY_FORMAT}", *_NAMES, *headers]
        rows = dnf_output.available(self._asked(command, "The repositories cannot be queried").stdout)
        return [row for row in rows if row.arch in (self.host.machine(), "noarch")]

    @property
    def _nvidias(self) -> set[str]:
        """The repositories that have NVIDIA's driver."""
        return {row.repository for row in self._available if row.name in (*dnf_catalog.USER_SPACE, "nvidia-driver")}

    def _rpms(self) -> list[dnf_output.Available]:
        output = self._asked(["rpm", "--query", "--all", _RPM_FIELDS], "rpm cannot list the packages")
        return dnf_output.available(output.stdout)

    def _left_behind(self) -> list[tuple[str, str]]:
        """Return name and full name of each package that a transaction has replaced and, cut off, not removed."""
        rows = self._asked(["rpm", "--query", "--all", _RPM_TIMES], "rpm cannot list the packages").stdout.splitlines()
        found: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for name, arch, time, full in (row.split("|") for row in rows if row.count("|") == 3):
            if matching([name], _ONCE):
                found.setdefault((name, arch), []).append((int(time), full))
        return [(name, each[1]) for (name, dummy), same in found.items() for each in sorted(same)[:-1]]

    def _specs(self, transaction: Transaction) -> list[str]:
        """Return what dnf is asked to install. The name of headers has their version already."""
        install = transaction.install.items()
        return [*(f"{name}-{version}" if version else name for name, version in install), *transaction.local]

    def _options(self) -> list[str]:
        hotfixes = [f"--setopt={name}.module_hotfixes=1" for name in sorted(self._nvidias)] if self._modular else []
        return ["--disableplugin=versionlock", *hotfixes]

    @functools.cached_property
    def _modular(self) -> bool:
        return bool(self.streams().offered)

    def _install(self, transaction: Transaction, specs: t.Sequence[str], answer: str) -> list[str]:
        erasing = ["--allowerasing"] if transaction.remove or transaction.local else []
        return ["dnf", answer, *self._options(), *erasing, "install", *specs]

    def _remove(self, names: t.Sequence[str]) -> None:
        left = [name for name in names if name in {row.name for row in self._rpms()}]
        if left:
            self._done(["dnf", "--assumeyes", "--disableplugin=versionlock", "remove", *left], "removed")

    def _enable(self, stream: str) -> None:
        enabled = dnf_output.stream_enabled(self.host.read(STATE))
        if stream == f"{dnf_catalog.MODULE}:{enabled}":
            return
        if enabled:
            self._done(["dnf", "--assumeyes", "--quiet", "module", "reset", dnf_catalog.MODULE], "changed")
        self._done(["dnf", "--assumeyes", "--quiet", "module", "enable", stream], "changed")

    def _restore(self, state: str | None) -> None:
        if self.host.read(STATE) == state:
            return
        if state is None:
            self.host.remove(STATE)
        else:
            self.host.write(STATE, f"{state}\n")

    def _forget(self) -> None:
        for name in ("_available", "_module_list", "_modular"):
            self.__dict__.pop(name, None)

    def _asked(self, command: list[str], problem: str) -> Output:
        output = self.host.run(command, _QUERY_TIMEOUT_S)
        if not output.ok:
            raise GpuOpsError(f"{problem}: {dnf_output.refusal('', output.stderr) if output.stderr else output.error}.",
                              reason="PackageManager")  # fmt: skip
        return output

    def _done(self, command: list[str], verb: str) -> None:
        output = self.host.run(command, _TRANSACTION_TIMEOUT_S)
        if not output.ok:
            raise GpuOpsError(
                f"The packages could not be {verb}. {dnf_output.refusal(output.stdout, output.stderr)}.",
                reason="PackageManager",
            )


def _name(row: dnf_output.Available) -> str:
    """Return a package's name. Several versions of headers are installed at once, so theirs has the version."""
    headers = row.name.startswith("kernel") and row.name.endswith("-devel")
    return f"{row.name}-{row.version}-{row.release}.{row.arch}" if headers else row.name


def _is_nvidias(name: str) -> bool:
    return bool(matching([name], ("*nvidia*", "nvlsm", "libnvsdm*", "cuda-drivers*"))) and not matching(
        [name], _FOREIGN
    )
