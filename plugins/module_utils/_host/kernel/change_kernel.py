# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Give a host another kernel: install its packages, and make it the one of the next boot. The former kernel stays."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel import installed_kernels
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import default_boot, kernel_choice, managers
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel.kernel_choice import (
    KernelChoice,
    KernelNames,
    Seen,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

FREE_BYTES = 100 * 2**20
"""Room for an initramfs beside its successor in /boot, if the running kernel's files do not say how much it takes."""


def ensure(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Bring the host to the wanted kernel as far as that works without a reboot; return the module's result."""
    with host.locked():
        return _ensure(host, options, check_mode)


def _ensure(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    kernels = managers.kernels_of(host, float(options["lock_timeout"]))
    seen, names, chosen = _chosen(kernels, options)
    chosen = _checked(host, kernels, seen, chosen)
    upcoming = default_boot.boots(host)
    boots = upcoming != chosen.release
    result = _result(seen, chosen, upcoming, boots)
    if chosen.refused:
        if not check_mode:
            raise GpuOpsError(chosen.refused, reason="KernelRefused", **_details(result))
        return {**result, "changed": False}
    if not check_mode:
        _carry_out(host, kernels, chosen, names)
        result["next_boot"] = default_boot.boots(host)
    return result


def _chosen(kernels: managers.Kernels, options: t.Mapping[str, t.Any]) -> tuple[Seen, KernelNames, KernelChoice]:
    """Return what the host has, and the kernel that it is to get. The lists of packages are brought up to date first.

    A way back to a kernel that is there depends on no repository.
    """
    wanted = str(options["release"])
    if wanted not in installed_kernels(kernels.host):
        kernels.family.refresh()
    seen = kernels.seen(wanted)
    release = kernel_choice.release_of(wanted, seen)
    if release != wanted:
        # The packages beside the image are asked for by the release, which was not known before.
        seen = kernels.seen(release)
    if not release:
        return seen, KernelNames("", ""), KernelChoice("", refused=kernel_choice.nothing_fits(seen))
    names = kernels.names(release, seen)
    return seen, names, kernel_choice.choose(release, names, seen, options["headers"])


def _checked(host: Host, kernels: managers.Kernels, seen: Seen, chosen: KernelChoice) -> KernelChoice:
    """Refuse what the package manager or the boot loader would refuse halfway."""
    if chosen.refused:
        return chosen
    try:
        if default_boot.boots(host) != chosen.release:
            default_boot.assert_possible(host)
    except GpuOpsError as e:
        return dataclasses.replace(chosen, refused=e.msg)
    if not chosen.install:
        return chosen
    needed = _room(host, seen.running)
    if chosen.release not in seen.kernels and host.free_bytes("/boot") < needed:
        message = (
            f"/boot has less than {needed // 2**20} MiB left, which another kernel needs. Remove one that is not used."
        )
        return dataclasses.replace(chosen, refused=message)
    error = kernels.simulate(chosen.install)
    return dataclasses.replace(chosen, refused=f"The package manager refuses it: {error}.") if error else chosen


def _room(host: Host, running: str) -> int:
    """Return how many bytes another kernel takes: twice its initramfs, which is made beside the former one."""
    files = [path for path in host.glob("/boot/*") if path.endswith((f"-{running}", f"-{running}.img"))]
    return max(2 * sum(map(host.size, files)), FREE_BYTES)


def _carry_out(host: Host, kernels: managers.Kernels, chosen: KernelChoice, names: KernelNames) -> None:
    if chosen.install:
        kernels.install(chosen.install)
        left = [name for name in chosen.install if name not in kernels.installed()]
        if left or chosen.release not in installed_kernels(host):
            missing = ", ".join(left) or f"/boot/vmlinuz-{chosen.release}"
            raise GpuOpsError(
                f"The package manager ended without an error, but {missing} is not there.", reason="PackageManager"
            )
    default_boot.choose(host, chosen.release)


def _result(seen: Seen, chosen: KernelChoice, upcoming: str | None, boots: bool) -> Json:
    return {
        "changed": bool(chosen.install) or boots,
        "release": chosen.release,
        "running": seen.running,
        "next_boot": chosen.release if not chosen.refused else upcoming,
        "installs": list(chosen.install),
        "headers": chosen.headers,
        "way_back": kernel_choice.kept(seen, chosen.release),
        "reboot_required": not chosen.refused and seen.running != chosen.release,
        "refused": chosen.refused,
        "diff": {
            "before": f"kernel of the next boot: {upcoming}\n",
            "after": "".join(f"install {name}\n" for name in chosen.install)
            + f"kernel of the next boot: {upcoming if chosen.refused else chosen.release}\n",
        },
    }


def _details(result: Json) -> Json:
    return {key: result[key] for key in ("release", "running", "headers", "way_back")}
