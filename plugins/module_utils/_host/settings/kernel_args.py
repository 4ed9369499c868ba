# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Kernel arguments that have an owner: set, changed and taken away again without a look at anybody else's.

What an owner has set is written down on the host: on Debian and its kin it is the owner's drop-in of /etc/default/grub.d itself, on
the Red Hat family, where grubby edits every boot entry, a small record. Both say first what is about to happen, so that a run that was
killed in between is completed by the next.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel import (
    BLS_ENTRIES,
    GRUB_DEFAULTS,
    GRUB_DROP_INS,
    arguments_to_come,
    bootloader,
    grub_menu_entries,
    kernel,
    split_arguments,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners

Args = list[str]

GRUB_CONFIG = "/boot/grub/grub.cfg"
RECORDS = owners.records("kernel_args")
LOADER_TIMEOUT_S = 900.0
ROOM = 2**20
"""What must be free. update-grub writes its file in place, and on a full disk leaves half of it: a host that does not boot."""

# What neither a shell, nor GRUB, nor the kernel takes for more than a character.
_ARGUMENT = re.compile(r"[A-Za-z0-9][\w.\-]*(=[\w.,:/+@%*\[\]=\-]*)?")
_OF_THE_BOOT = ("BOOT_IMAGE", "initrd", "init", "root", "ro", "rw", "rd.lvm.lv", "rd.luks.uuid", "resume", "single")
_SIZES = {"2M", "16M", "32M", "64K", "512M", "1G", "2G", "16G"}
_SWITCH = {"0", "1"}
KNOWN_VALUES: dict[str, set[str]] = {
    "intel_iommu": {"on", "off", "igfx_off", "forcedac", "strict", "sp_off", "sm_on", "sm_off", "tboot_noforce"},
    "amd_iommu": {
        "off",
        "fullflush",
        "force_enable",
        "force_isolation",
        "pgtbl_v1",
        "pgtbl_v2",
        "irtcachedis",
        "nohugepages",
        "v2_pgsizes_only",
    },
    "iommu": {
        "off",
        "force",
        "noforce",
        "biomerge",
        "panic",
        "nopanic",
        "merge",
        "nomerge",
        "soft",
        "pt",
        "nopt",
        "memaper",
        "allowed",
        "noagp",
    },
    "iommu.passthrough": _SWITCH,
    "iommu.strict": _SWITCH,
    "init_on_alloc": _SWITCH,
    "init_on_free": _SWITCH,
    "numa_balancing": {"enable", "disable"},
    "nouveau.modeset": {"0", "1", "2", "-1"},
    "default_hugepagesz": _SIZES,
    "hugepagesz": _SIZES,
    "transparent_hugepage": {"always", "madvise", "never"},
}
"""Values that the kernel takes. It ignores any other without a word that anybody reads."""

_HINTS = {"amd_iommu=on": " The IOMMU of an AMD CPU is on by default; iommu=pt makes it pass through."}

IOMMU: dict[str, dict[str, Args]] = {
    "enabled": {"intel": ["intel_iommu=on"], "amd": [], "arm": []},
    "passthrough": {"intel": ["intel_iommu=on", "iommu=pt"], "amd": ["iommu=pt"], "arm": ["iommu.passthrough=1"]},
}
"""Arguments by mode and CPU. AMD's IOMMU and Arm's SMMU are on unless the firmware or an argument says otherwise."""


def name_of(argument: str) -> str:
    """Return an argument's name. The kernel takes dashes and underscores in it for the same."""
    return argument.partition("=")[0].replace("-", "_")


def problems(arguments: t.Sequence[str]) -> list[str]:
    """Say what is wrong with arguments, a sentence for each that is."""
    found = []
    for argument in arguments:
        name, _sign, value = argument.partition("=")
        wrong = set(value.split(",")) - KNOWN_VALUES[name] if name in KNOWN_VALUES else set()
        if not _ARGUMENT.fullmatch(argument):
            found.append(
                f"{argument!r} is not a kernel argument: write name or name=value, one in each item, without blanks, quotes and shell characters."
            )
        elif name in _OF_THE_BOOT:
            found.append(
                f"{argument} belongs to the boot loader or the installer, and a wrong one keeps the host from booting; it cannot be set here."
            )
        elif wrong:
            known = ", ".join(sorted(KNOWN_VALUES[name]))
            found.append(f"{argument} has no effect: {name} takes {known}.{_HINTS.get(argument, '')}")
        elif name == "hugepages" and not re.fullmatch(r"\d+|\d+:\d+(,\d+:\d+)*", value):
            found.append(f"{argument} has no effect: hugepages takes a number, or node:number for each NUMA node.")
    doubled = sorted(
        {argument for argument in arguments if list(arguments).count(argument) > 1 and name_of(argument) != "hugepages"}
    )
    return found + [f"{argument} is given twice." for argument in doubled]


def cpu_vendor(cpuinfo: str) -> str:
    """Return intel, amd or arm. What is neither of the first two gets the arguments that any IOMMU understands."""
    vendor = re.search(r"^vendor_id\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    return {"GenuineIntel": "intel", "AuthenticAMD": "amd", "HygonGenuine": "amd"}.get(
        vendor[1] if vendor else "", "arm"
    )


def without(arguments: t.Sequence[str], taken: t.Sequence[str]) -> Args:
    """Take each of some arguments away once, the last one that is there: an equal one before it is somebody else's."""
    left = list(reversed(arguments))
    for argument in taken:
        if argument in left:
            left.remove(argument)
    return left[::-1]


@dataclasses.dataclass(frozen=True)
class Record:
    """What an owner has set. ``pending`` tells that the boot entries may still be without it; ``replaced`` is what it displaced."""

    args: Args = dataclasses.field(default_factory=list)
    pending: bool = False
    replaced: Args = dataclasses.field(default_factory=list)
    was: Args = dataclasses.field(default_factory=list)
    """While pending: what the owner had set before, and boot entries may still carry."""

    @property
    def ever(self) -> Args:
        """Return all that boot entries may carry of the owner."""
        return list(dict.fromkeys([*self.args, *self.was]))


class Loader:
    """The boot entries, and an owner's part of them."""

    def __init__(self, host: Host, owner: str) -> None:
        self.host, self.owner = host, owner

    name: str | None = None
    folders: tuple[str, ...] = ()
    """What must be writable before anything is touched."""

    @property
    def path(self) -> str:
        """Return the file that holds what the owner has set."""
        raise NotImplementedError

    def record(self) -> Record:
        """Return what the owner has set so far."""
        raise NotImplementedError

    def entries(self) -> list[Args]:
        """Return the arguments of every boot entry."""
        raise NotImplementedError

    def predict(self, arguments: t.Sequence[str], old: t.Sequence[str], new: t.Sequence[str]) -> Args:
        """Return what becomes of one entry's arguments."""
        raise NotImplementedError

    def apply(self, before: Record, wanted: Args) -> None:
        """Bring every boot entry there, or put everything back and raise."""
        raise NotImplementedError

    def lacking(self, wanted: t.Sequence[str]) -> list[str]:
        """Return the arguments that some boot entry does not have."""
        entries = self.entries()
        return [argument for argument in wanted if any(argument not in entry for entry in entries)]

    def assert_able(self, wanted: t.Sequence[str]) -> None:
        """Raise when a change could only be half done."""
        for folder in self.folders:
            self.host.assert_writable(folder, "kernel arguments")
            if self.host.exists(folder) and self.host.free_bytes(folder) < ROOM:
                raise GpuOpsError(
                    f"{folder} is on a file system that is full, so the kernel arguments are left as they are. Make room: "
                    "remove kernels that are no longer used.",
                    reason="NoSpace",
                )


class GrubDropIn(Loader):
    """Debian and its kin: a drop-in that grub-mkconfig reads, and update-grub. The name sorts last, and the kernel goes by the last argument."""

    name = "grub"
    folders = (GRUB_DROP_INS, "/boot/grub")
    _PENDING = "# update-grub has not run since this was changed from: "

    @property
    def path(self) -> str:
        """The owner's drop-in."""
        return f"{GRUB_DROP_INS}/zz-{self.owner}.cfg"

    def record(self) -> Record:
        text = self.host.read(self.path) or ""
        found = re.search(r'^GRUB_CMDLINE_LINUX_DEFAULT="\$GRUB_CMDLINE_LINUX_DEFAULT (.*)"$', text, re.MULTILINE)
        pending = re.search(f"^{re.escape(self._PENDING)}(.*)$", text, re.MULTILINE)
        return Record(
            args=split_arguments(found[1]) if found else [],
            pending=pending is not None,
            was=split_arguments(pending[1]) if pending else [],
        )

    def entries(self) -> list[Args]:
        return [entry.arguments for entry in grub_menu_entries(self.host.read(GRUB_CONFIG) or "", GRUB_CONFIG)]

    def predict(self, arguments: t.Sequence[str], old: t.Sequence[str], new: t.Sequence[str]) -> Args:
        return without(arguments, old) + list(new)

    def apply(self, before: Record, wanted: Args) -> None:
        previous = self.host.read(self.path)
        self.host.write(self.path, self._text(wanted, before.ever))
        try:
            output = self.host.run(["update-grub"], LOADER_TIMEOUT_S)
            if not output.ok:
                raise GpuOpsError(
                    f"update-grub failed, and the kernel arguments are left as they were: {output.error}.",
                    reason="BootLoader",
                )
            lacking = self.lacking(wanted)
            if lacking:
                raise GpuOpsError(
                    f"update-grub ran, and {GRUB_CONFIG} is still without {' '.join(lacking)}, so the kernel arguments are left as they were. "
                    f"Something after {self.path} sets GRUB_CMDLINE_LINUX_DEFAULT anew, or /etc/grub.d does not use it.",
                    reason="BootLoader",
                )
        except GpuOpsError:
            self._restore(previous)
            raise
        if wanted:
            self.host.write(self.path, self._text(wanted))
        else:
            self.host.remove(self.path)

    def _restore(self, previous: str | None) -> None:
        if previous is None:
            self.host.remove(self.path)
        else:
            self.host.write(self.path, f"{previous}\n")

    def _text(self, arguments: Args, was: Args | None = None) -> str:
        lines = [] if was is None else [f"{self._PENDING}{' '.join(was)}"]
        lines += (
            [f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {" ".join(arguments)}"'] if arguments else []
        )
        return owners.header("kernel_args", "arguments") + "".join(f"{line}\n" for line in lines)


class Grubby(Loader):
    """The Red Hat family: grubby edits every boot entry and the defaults of the next kernel. It knows no owners, so a record does."""

    name = "grubby"
    folders = (RECORDS, BLS_ENTRIES)

    @property
    def path(self) -> str:
        """The owner's record."""
        return f"{RECORDS}/{self.owner}.json"

    def assert_able(self, wanted: t.Sequence[str]) -> None:
        names = [name_of(argument) for argument in wanted]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise GpuOpsError(
                f"grubby keeps one value for each name, so {' and '.join(doubled)} cannot be given more than once here. "
                "Reserve huge pages of one size by argument, and those of 2M by the sysctl vm.nr_hugepages.",
                reason="Unsupported",
            )
        super().assert_able(wanted)

    def record(self) -> Record:
        try:
            return Record(**json.loads(self.host.read(self.path) or "{}"))
        except (ValueError, TypeError) as e:
            raise GpuOpsError(
                f"{self.path} is damaged: {e}. Remove it, and remove the arguments with grubby.", reason="Invalid"
            ) from e

    def entries(self) -> list[Args]:
        output = self.host.run(["grubby", "--info=ALL"], LOADER_TIMEOUT_S)
        if not output.ok:
            raise GpuOpsError(f"The boot entries cannot be read: {output.error}.", reason="BootLoader")
        return grubby_entries(output.stdout)

    def predict(self, arguments: t.Sequence[str], old: t.Sequence[str], new: t.Sequence[str]) -> Args:
        names = {name_of(argument) for argument in (*old, *new)}
        back = [
            argument
            for argument in self._replaced(self.record(), new)
            if name_of(argument) not in set(map(name_of, new))
        ]
        return [argument for argument in arguments if name_of(argument) not in names] + back + list(new)

    def apply(self, before: Record, wanted: Args) -> None:
        owned = before.ever
        replaced = self._replaced(before, wanted)
        names = set(map(name_of, wanted))
        back = [argument for argument in replaced if name_of(argument) not in names]
        # Whole arguments, not names: some versions of grubby also hit names that end in the one to remove.
        ours = names | set(map(name_of, owned))
        gone = sorted({argument for entry in self.entries() for argument in entry if name_of(argument) in ours})
        self._write(Record(args=wanted, pending=True, replaced=replaced, was=owned))
        command = ["grubby", "--update-kernel=ALL"]
        command += [f"--remove-args={' '.join(gone)}"] if gone else []
        command += [f"--args={' '.join([*back, *wanted])}"] if back or wanted else []
        output = self.host.run(command, LOADER_TIMEOUT_S)
        if not output.ok:
            # The entries are files of their own, so some may be done: the record stays pending, and the next run completes it.
            raise GpuOpsError(
                f"grubby failed: {output.error}. The next run sets the arguments again on every boot entry.",
                reason="BootLoader",
            )
        lacking = self.lacking(wanted)
        if lacking:
            raise GpuOpsError(
                f"grubby ran, and a boot entry is still without {' '.join(lacking)}.", reason="BootLoader"
            )
        if wanted:
            self._write(Record(args=wanted, replaced=[argument for argument in replaced if name_of(argument) in names]))
        else:
            self.host.remove(self.path)

    def _replaced(self, before: Record, wanted: t.Sequence[str]) -> Args:
        """Return other people's arguments that the owner's displaced, also the ones that it is about to displace."""
        mine = set(map(name_of, before.ever))
        first = next(iter(self.entries()), [])
        return [
            *before.replaced,
            *(argument for argument in first if name_of(argument) in set(map(name_of, wanted)) - mine),
        ]

    def _write(self, record: Record) -> None:
        self.host.write(self.path, json.dumps(dataclasses.asdict(record), indent=2) + "\n")


def grubby_entries(text: str) -> list[Args]:
    """Return the arguments of every entry that ``grubby --info=ALL`` shows, but for rescue entries."""
    entries = []
    for block in re.split(r"^index=", text, flags=re.MULTILINE)[1:]:
        found = re.search(r'^args="(.*)"$', block, re.MULTILINE)
        if found and not re.search(r"^kernel=.*rescue", block, re.MULTILINE):
            entries.append(split_arguments(found[1]))
    return entries


class Unknown(Loader):
    """A boot loader that is not changed here. Nobody owns arguments in it."""

    def __init__(self, host: Host, owner: str, why: str) -> None:
        super().__init__(host, owner)
        self.why = why

    @property
    def path(self) -> str:
        return "/proc/cmdline"

    def record(self) -> Record:
        raise GpuOpsError(self.why, reason="Unsupported")


def loader_of(host: Host, owner: str) -> Loader:
    """Return the door to the host's boot entries."""
    if bootloader(host) == "systemd-boot":
        return Unknown(
            host,
            owner,
            "This host boots with systemd-boot, which this module does not change. Set the arguments in /etc/kernel/cmdline, and run "
            "kernel-install add-all (or dracut and bootctl, as your distribution has it).",
        )
    if host.which("grubby"):
        return Grubby(host, owner)
    if host.which("update-grub") and host.exists(GRUB_DEFAULTS):
        return GrubDropIn(host, owner)
    return Unknown(
        host,
        owner,
        "No boot loader was found that this module can change: GRUB with update-grub (Debian, Ubuntu), or grubby (the Red Hat family).",
    )


def wanted_arguments(host: Host, options: t.Mapping[str, t.Any]) -> Args:
    """Return the owner's arguments, those of the IOMMU for this host's CPU first."""
    owners.assert_valid(options["owner"])
    if options["state"] == "absent":
        return []
    iommu = IOMMU[options["iommu"]][cpu_vendor(host.read("/proc/cpuinfo") or "")] if options["iommu"] else []
    pages = [
        argument
        for size, count in options["hugepages"].items()
        for argument in (f"hugepagesz={size}", f"hugepages={count}")
    ]
    arguments = [*(argument for argument in iommu if argument not in options["args"]), *pages, *options["args"]]
    wrong = problems(arguments)
    if wrong:
        raise GpuOpsError(" ".join(wrong), reason="Invalid")
    return arguments


def set_arguments(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Give the owner its arguments, in check mode only say what would come of it."""
    wanted = wanted_arguments(host, options)
    loader = loader_of(host, options["owner"])
    if isinstance(loader, Unknown) and not wanted:
        facts = kernel(host).facts
        return _result(Record(), wanted, loader, facts, facts["cmdline_configured"] or [])
    before = loader.record()
    changed = before.args != wanted or before.pending or bool(loader.lacking(wanted))
    facts = kernel(host).facts
    configured = facts["cmdline_configured"] or []
    others = without(configured, before.args)
    if changed:
        loader.assert_able(wanted)
        if check_mode:
            configured = loader.predict(configured, before.ever, wanted)
        else:
            loader.apply(before, wanted)
            facts = kernel(host).facts
            configured = facts["cmdline_configured"] or []
    names = set(map(name_of, wanted))
    elsewhere = [argument for argument in others if name_of(argument) in names and argument not in wanted]
    return {**_result(before, wanted, loader, facts, configured), "changed": changed, "elsewhere": elsewhere}


def _result(
    before: Record, wanted: Args, loader: Loader, facts: dict[str, t.Any], configured: Args
) -> dict[str, t.Any]:
    added, dropped = arguments_to_come(facts["cmdline"], configured, facts["cmdline_source"])
    return {
        "changed": False,
        "bootloader": loader.name,
        "configured": configured,
        "running": facts["cmdline"],
        "reboot_required": bool(added or dropped),
        "elsewhere": [],
        "diff": {
            "before": _lines(before.args),
            "after": _lines(wanted),
            "before_header": loader.path,
            "after_header": loader.path,
        },
    }


def _lines(arguments: Args) -> str:
    return "".join(f"{argument}\n" for argument in arguments)
