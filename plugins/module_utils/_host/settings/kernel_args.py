# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Kernel arguments that belong to an owner. They are set, changed and removed without touching anybody else's."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import kernel
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import boot_entries
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import argument_rules, owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.argument_rules import Args
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.boot_loader import (
    BootLoader,
    missing_arguments,
    remove_arguments,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.grub import GrubDropIn
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.grubby import Grubby
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def set_arguments(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Set an owner's arguments and return the module's result. In check mode, predict the result."""
    with host.locked():
        result = _set_arguments(host, options, check_mode)
    return {**result, "warnings": list(_warnings(result))}


def _set_arguments(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    wanted = wanted_arguments(host, options)
    facts = kernel.kernel(host).facts
    configured: Args | None = facts["cmdline_configured"]
    try:
        loader = boot_loader(host, options["owner"])
    except GpuOpsError:
        if wanted:
            raise
        return {**_unchanged(), **_boot(facts, configured, [], [])}
    record, entries = loader.record(), loader.entries()
    others = remove_arguments(configured or [], record.args)
    effective = loader.merged(record, entries, wanted)
    changed = record.args != wanted or record.pending or bool(missing_arguments(entries, effective))
    if changed:
        loader.assert_possible(record, entries, wanted)
        if check_mode and configured is not None:
            configured = loader.predict(configured, record, entries, wanted)
        if not check_mode:
            loader.apply(record, entries, wanted)
            facts = kernel.kernel(host).facts
            configured = facts["cmdline_configured"]
    return {
        "changed": changed,
        "bootloader": loader.name,
        "elsewhere": _set_elsewhere(others, effective),
        "entries_without": loader.foreign_entries_without(wanted),
        "diff": _diff(loader.path, record.args, wanted),
        **_boot(facts, configured, effective, remove_arguments(record.args, wanted)),
    }


def _warnings(result: Json) -> t.Iterator[str]:
    if result["elsewhere"]:
        others = " ".join(result["elsewhere"])
        yield f"{others} is also set elsewhere. The kernel uses the last value, which is the one set here."
    if result["entries_without"]:
        titles = ", ".join(result["entries_without"])
        yield f"The boot entries {titles} were written by hand and lack the arguments. Add them there."


def boot_loader(host: Host, owner: str) -> BootLoader:
    """Return the host's boot loader, or raise if its entries cannot be changed."""
    if boot_entries.bootloader(host) == "systemd-boot":
        raise GpuOpsError(
            "This host boots with systemd-boot, which this module does not change. Set the arguments in "
            "/etc/kernel/cmdline, and run kernel-install add-all (or dracut and bootctl on your distribution).",
            reason="Unsupported",
        )
    if host.which("grubby"):
        return Grubby(host, owner)
    if host.which("update-grub") and host.exists(boot_entries.GRUB_DEFAULTS):
        return GrubDropIn(host, owner)
    raise GpuOpsError(
        "No boot loader was found that this module can change: "
        "GRUB with update-grub (Debian, Ubuntu), or grubby (the Red Hat family).",
        reason="Unsupported",
    )


def wanted_arguments(host: Host, options: t.Mapping[str, t.Any]) -> Args:
    """Return the arguments that the owner wants. Those for the IOMMU of this host's CPU come first."""
    owners.assert_valid(options["owner"])
    if options["state"] == "absent":
        return []
    iommu: Args = []
    if options["iommu"]:
        iommu = argument_rules.IOMMU[options["iommu"]][argument_rules.cpu_vendor(host.read("/proc/cpuinfo") or "")]
    pages: Args = []
    for size, count in options["hugepages"].items():
        pages += [f"hugepagesz={size}", f"hugepages={count}"]
    arguments = [*(argument for argument in iommu if argument not in options["args"]), *pages, *options["args"]]
    problems = argument_rules.problems(arguments)
    if problems:
        raise GpuOpsError(" ".join(problems), reason="Invalid")
    return argument_rules.merge_lists(arguments)


def _set_elsewhere(others: Args, wanted: Args) -> Args:
    """Return the arguments of others that have the name of a wanted argument, but another value, and do not count."""
    names = {name for name in argument_rules.argument_names(wanted) if not argument_rules.all_count(name)}
    named = [argument for argument in others if argument_rules.argument_name(argument) in names]
    return [argument for argument in named if argument not in wanted]


def _boot(facts: Json, configured: Args | None, wanted: Args, given_up: Args) -> Json:
    """Return the part of the result that compares the running kernel with the next boot.

    If the arguments of the next boot are not known, the owner's are compared.
    """
    running = facts["cmdline"]
    if configured is None:
        added = [argument for argument in wanted if argument not in running]
        dropped = [argument for argument in given_up if argument in running]
    else:
        added, dropped = kernel.changed_arguments(running, configured, facts["cmdline_fallback"])
    reasons = [f"The kernel runs without the configured arguments {' '.join(added)}"] if added else []
    if dropped:
        reasons.append(f"The kernel runs with the arguments {' '.join(dropped)}, which are no longer configured")
    return {
        "configured": configured,
        "running": running,
        "reboot_required": bool(reasons),
        "reboot_reasons": reasons,
    }


def _unchanged() -> Json:
    """Return the part of the result for a boot loader that cannot be changed, so it has no arguments of the owner."""
    nothing: Json = {"changed": False, "bootloader": None, "elsewhere": [], "entries_without": []}
    return {**nothing, "diff": _diff("/proc/cmdline", [], [])}


def _diff(path: str, before: Args, after: Args) -> Json:
    texts = ["".join(f"{argument}\n" for argument in arguments) for arguments in (before, after)]
    return {"before": texts[0], "after": texts[1], "before_header": path, "after_header": path}
