# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The kernels of a host's package manager: which it offers, by which names, and how one is installed."""

from __future__ import annotations

import abc
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel import installed_kernels
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import kernel_series
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel.kernel_choice import KernelNames, Seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import dnf_catalog
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.apt import Apt
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.driver_packages import family_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.family import Family
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import Transaction

_QUERY_TIMEOUT_S = 300.0
_IMAGE = "linux-image-"
_NO_KERNELS = ("unsigned-", "extra-", "uc-")
"""What follows linux-image- in names that are no image to boot, or that stand beside one."""
_DEEPEST = 3
"""How many metapackages lead to an image: linux-image-nvidia, linux-image-nvidia-hwe-24.04, and then the image."""


class Kernels(abc.ABC):
    """The kernels of one package manager."""

    def __init__(self, host: Host, family: Family) -> None:
        self.host, self.family = host, family

    def seen(self, wanted: str) -> Seen:
        """Return what the host has and could have. ``wanted`` is a release whose packages are asked for."""
        kernels = tuple(installed_kernels(self.host))
        releases, offered = self.offered(wanted)
        return Seen(
            running=self.host.read("/proc/sys/kernel/osrelease") or "",
            kernels=kernels,
            releases=tuple(releases),
            followed=tuple(self.followed()),
            offered=frozenset(offered),
            installed=frozenset(self.installed()),
            built_for=frozenset(each for each in kernels if self.host.exists(f"/lib/modules/{each}/build/Makefile")),
        )

    @abc.abstractmethod
    def offered(self, wanted: str) -> tuple[list[str], list[str]]:
        """Return the kernels that the repositories offer, and the names of their packages."""

    @abc.abstractmethod
    def followed(self) -> list[str]:
        """Return the kernels that the installed metapackages resolve to, by the package manager's own policy."""

    @abc.abstractmethod
    def installed(self) -> list[str]:
        """Return the names of the installed packages that belong to one kernel, with its release."""

    @abc.abstractmethod
    def names(self, release: str, seen: Seen) -> KernelNames:
        """Return the names of a kernel's packages, by those of the kernel that runs."""

    def simulate(self, packages: t.Sequence[str]) -> str | None:
        """Return why the package manager refuses these packages, or None."""
        return self.family.simulate(Transaction(install=dict.fromkeys(packages, ""))).error

    def install(self, packages: t.Sequence[str]) -> None:
        """Install these packages."""
        self.family.apply(Transaction(install=dict.fromkeys(packages, "")))

    def _lines(self, command: t.Sequence[str]) -> list[str]:
        output = self.host.run(command, _QUERY_TIMEOUT_S)
        if not output.ok and not output.stdout:
            raise GpuOpsError(f"The package manager does not answer: {output.error}.", reason="PackageManager")
        return [line.strip() for line in output.stdout.splitlines() if line.strip()]


class AptKernels(Kernels):
    """Debian and derivatives: each package of a kernel has the kernel's release at the end of its name."""

    def offered(self, wanted: str) -> tuple[list[str], list[str]]:
        known = self._lines(["apt-cache", "pkgnames", "linux-"])
        images = [name for name in known if name.startswith(_IMAGE) and _is_release(name[len(_IMAGE) :])]
        asked = sorted({*images, *(name for name in known if name.endswith(f"-{wanted}"))})
        # apt-cache also knows names that no repository offers, only other packages' dependencies.
        text = "\n".join(self._lines(["apt-cache", "show", "--no-all-versions", *asked])) if asked else ""
        shown = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Package: ")]
        return [name[len(_IMAGE) :] for name in shown if name in images], shown

    def followed(self) -> list[str]:
        found = [name for name in self.installed() if _is_meta(name)]
        for dummy in range(_DEEPEST):
            found = [name for meta in found for name in ([meta] if not _is_meta(meta) else self._images_of(meta))]
        return [name[len(_IMAGE) :] for name in found if not _is_meta(name)]

    def _images_of(self, meta: str) -> list[str]:
        """Return the images that a metapackage depends on in the version that apt would install."""
        stanzas = "\n".join(self._lines(["apt-cache", "show", "--no-all-versions", meta]))
        depends = re.search(r"^Depends: (.*)$", stanzas, re.MULTILINE)
        return re.findall(rf"(?:^|, )({_IMAGE}[\w.+-]+)", depends[1]) if depends else []

    def installed(self) -> list[str]:
        rows = self._lines(["dpkg-query", "--show", "--showformat=${Package}\t${db:Status-Status}\n"])
        pairs = (row.split("\t") for row in rows)
        return [name for name, status in pairs if status == "installed" and name.startswith("linux-")]

    def names(self, release: str, seen: Seen) -> KernelNames:
        end = f"-{seen.running}"
        mine = sorted(name for name in seen.installed if name.endswith(end))
        return KernelNames(
            image=f"{_IMAGE}{release}",
            headers=f"linux-headers-{release}",
            siblings=tuple(f"{name[: -len(end)]}-{release}" for name in mine if not name.startswith(_IMAGE)),
        )


def _is_meta(name: str) -> bool:
    """Return whether a package only depends on the newest image of its flavour: linux-image-generic-hwe-24.04."""
    rest = name[len(_IMAGE) :]
    return name.startswith(_IMAGE) and rest[:1].isalpha() and not rest.startswith(_NO_KERNELS)


def _is_release(text: str) -> bool:
    return text[:1].isdigit() and not text.endswith(("-dbg", "-dbgsym", "-unsigned"))


class DnfKernels(Kernels):
    """The Red Hat family: the packages of a kernel have its release as their version."""

    def offered(self, wanted: str) -> tuple[list[str], list[str]]:
        command = ["dnf", "--quiet", "repoquery", "--available", "--disableplugin=versionlock"]
        command += ["--queryformat=%{name}-%{version}-%{release}.%{arch}\\n", "kernel*", "kmod-nvidia-*"]
        shown = sorted(set(self._lines(command)))
        releases = [found[1] for found in map(kernel_series.red_hat_release, shown) if found]
        return [each for each in dict.fromkeys(releases) if f".{self.host.machine()}" in each], shown

    def followed(self) -> list[str]:
        """Return nothing: dnf has no metapackages for one series. It offers a series in its enabled repositories."""
        return []

    def installed(self) -> list[str]:
        fields = "--queryformat=%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}\\n"
        return self._lines(["rpm", "--query", "--all", fields, "kernel*", "kmod-nvidia-*"])

    def names(self, release: str, seen: Seen) -> KernelNames:
        version, dummy, variant = release.partition("+")
        running = seen.running.partition("+")[0]
        mine = [name[: -len(running) - 1] for name in sorted(seen.installed) if name.endswith(f"-{running}")]
        image = _image(release, {*seen.offered, *seen.installed}) or "-".join(filter(None, ("kernel", variant, "core")))
        base = image.partition("-core")[0]
        siblings = [name for name in mine if _stands_beside(name, base)]
        return KernelNames(
            image=f"{image}-{version}",
            headers=f"{dnf_catalog.devel_of(image)}-{version}",
            siblings=tuple(f"{name}-{version}" for name in siblings if name != image and not name.endswith("-devel")),
        )


def _image(release: str, packages: t.Iterable[str]) -> str | None:
    """Return the name of the package with a kernel. A package kernel beside kernel-core only depends on it."""
    found = filter(None, map(kernel_series.red_hat_release, packages))
    return max((name for name, kernel in found if kernel == release), key=len, default=None)


def _stands_beside(name: str, base: str) -> bool:
    """Return whether a package belongs to the kernels of a variant: kernel-64k-modules to kernel-64k."""
    if not name.startswith("kernel"):
        return True
    other = kernel_series.red_hat_variant(name)
    return name.startswith(base) and other == kernel_series.red_hat_variant(base)


def kernels_of(host: Host, lock_timeout_s: float) -> Kernels:
    """Return the kernels of the host's package manager."""
    family = family_of(host, lock_timeout_s)
    return AptKernels(host, family) if isinstance(family, Apt) else DnfKernels(host, family)
