# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What differs between machines that should be equal: the few that are unlike the many, or unlike what is pinned. Pure.

Machines are equal if they have the same number of the same GPU in the same chassis. Planned differences are left out:
nodes of different NVIDIADrivers, nodes that a user keeps from upgrades, and whatever a rollout has reached on some
nodes and not yet on others.
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import functools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec, Option
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LEAST = 3
"""With fewer machines or GPUs, it is unclear which one is odd."""

MINORITY = 3
"""A value is odd if at most one in so many has it, and most have another. A larger share is a pool of its own."""

NOT_SET = "not set"

OWN_ARGUMENTS = frozenset(
    {
        *("BOOT_IMAGE", "initrd", "root", "resume", "resume_offset", "vt.handoff", "ostree", "boot", "cryptdevice"),
        *("ip", "BOOTIF", "hostname", "systemd.hostname", "systemd.machine_id", "rd.luks.uuid", "rd.lvm.lv"),
        *("rd.md.uuid", "ignition.firstboot", "ignition.platform.id", "ds", "crashkernel", "console"),
    }
)
"""Arguments of the kernel that belong to one machine: its disks, its name, its addresses, its consoles."""

_SWITCH = {"true": "on", "yes": "on", "false": "off", "no": "off"}
"""What users write for a switch, which Ansible turns into text."""

_FROM_HOST, _FROM_LABELS, _FROM_NODE = "facts of the host", "labels of the node", "status of the node"
_MODEL_SUFFIX = re.compile(r"-(SHARED|MIG-.*)$")


@dataclasses.dataclass(frozen=True)
class ComparedMachine:
    """A GPU node or a host, with what is known of it."""

    node: str
    product: str
    kind: str
    """In words: ``8 x NVIDIA-H100-80GB-HBM3 in DGXH100``. Machines of one kind should be equal."""
    row: Json
    facts: Json
    layout: str
    pool: str
    held: bool
    upgrading: bool

    @property
    def gpus(self) -> list[Json]:
        """The GPUs that the host's facts name, without those that are lost."""
        return [gpu for gpu in self.facts.get("gpus") or [] if not gpu.get("lost")]


@dataclasses.dataclass(frozen=True)
class Reading:
    """A value on a machine. ``aspect`` is what it may be compared with, ``object`` the GPU that has it."""

    machine: ComparedMachine
    value: str
    source: str
    object: str = ""
    aspect: str = ""


@dataclasses.dataclass(frozen=True)
class Odd:
    """A reading that differs from what is usual among equal machines, or from what is pinned."""

    reading: Reading
    usual: str
    instead: str
    """In words: ``most machines with 8 x NVIDIA-H100-80GB-HBM3 have 580.95.05``."""
    counted: str
    """How many have what is usual: ``999 of 1000``."""


# ---- what is read of a machine --------------------------------------------------------------------------------------

Read = t.Callable[[t.Sequence[ComparedMachine]], t.Iterator[Reading]]


def _of_machine(
    machines: t.Sequence[ComparedMachine], *, host: t.Sequence[str], row: str, source: str
) -> t.Iterator[Reading]:
    """Yield a fact of each host, or what the cluster says of its node."""
    for machine in machines:
        known = functools.reduce(lambda facts, key: (facts or {}).get(key), host, t.cast(t.Any, machine.facts))
        value = known or machine.row.get(row)
        if value:
            yield Reading(machine, str(value), _FROM_HOST if known else source)


def _of_gpus(machines: t.Sequence[ComparedMachine], *, path: t.Sequence[str]) -> t.Iterator[Reading]:
    """Yield a fact of each GPU."""
    for machine in machines:
        for gpu in machine.gpus:
            value = functools.reduce(lambda facts, key: (facts or {}).get(key), path, t.cast(t.Any, gpu))
            if value is not None:
                yield Reading(machine, _words(value), _FROM_HOST, f"GPU {gpu.get('pci_address')}")


def _nics(machines: t.Sequence[ComparedMachine]) -> t.Iterator[Reading]:
    """Yield the firmware of each network adapter. Only that of the same board can be compared."""
    for machine in machines:
        for nic in machine.facts.get("nics") or []:
            if nic.get("firmware"):
                adapter = f"adapter {nic.get('name')}"
                yield Reading(machine, nic["firmware"], _FROM_HOST, adapter, str(nic.get("board") or nic.get("type")))


def _words(value: t.Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _arguments(machines: t.Sequence[ComparedMachine]) -> t.Iterator[Reading]:
    """Yield each argument of each running kernel, also where it is not set."""
    given = [(machine, _by_name(_cmdline(machine))) for machine in machines if _cmdline(machine)]
    for name in sorted({name for machine, arguments in given for name in arguments}):
        for machine, arguments in given:
            yield Reading(machine, arguments.get(name, f"{name} {NOT_SET}"), _FROM_HOST, aspect=name)


def _cmdline(machine: ComparedMachine) -> list[str]:
    return (machine.facts.get("kernel") or {}).get("cmdline") or []


def _by_name(arguments: t.Sequence[str]) -> dict[str, str]:
    """Return the arguments by name. One that is given several times is one text."""
    found: dict[str, list[str]] = {}
    for argument in arguments:
        name = argument.partition("=")[0]
        if name not in OWN_ARGUMENTS:
            found.setdefault(name, []).append(argument)
    return {name: " ".join(sorted(given)) for name, given in found.items()}


# ---- what is compared -----------------------------------------------------------------------------------------------


def _of_pool(machine: ComparedMachine) -> str:
    return machine.pool


def _of_system(machine: ComparedMachine) -> str:
    return str(machine.row.get("os") or "")


def _of_layout(machine: ComparedMachine) -> str:
    return machine.layout


def _alike(machine: ComparedMachine) -> str:
    return ""


@dataclasses.dataclass(frozen=True)
class Trait:
    """Something in which equal machines should not differ."""

    key: str
    """Its name in a pinned set."""
    read: Read
    within: t.Callable[[ComparedMachine], str] = _alike
    """Machines are compared only if this is the same, too."""
    rolls: t.Callable[[ComparedMachine], bool] = lambda machine: False
    """Whether a rollout is just changing it on a machine. Then its whole group is not compared."""


def _upgrades(machine: ComparedMachine) -> bool:
    return machine.upgrading


def _is_held(machine: ComparedMachine) -> bool:
    return machine.held


def _mig_changes(machine: ComparedMachine) -> bool:
    return (machine.row.get("mig") or {}).get("state") in names.MIG_CHANGING


_DRIVER = functools.partial(_of_machine, host=("driver", "version"), row="driver", source=_FROM_LABELS)
_KERNEL = functools.partial(_of_machine, host=("kernel", "running"), row="kernel", source=_FROM_NODE)


def _gpu(*path: str) -> Read:
    return functools.partial(_of_gpus, path=path)


TRAITS = (
    Trait("driver", _DRIVER, _of_pool, _upgrades),
    Trait("kernel", _KERNEL, _of_system, _is_held),
    Trait("kernel_args", _arguments, _of_system, _is_held),
    Trait("vbios", _gpu("vbios")),
    Trait("inforom", _gpu("inforom")),
    Trait("gsp", _gpu("gsp"), _of_pool, _upgrades),
    Trait("ecc", _gpu("ecc", "enabled"), rolls=_is_held),
    Trait("power_limit_w", _gpu("power_limit_w")),
    Trait("graphics_clock_mhz", _gpu("clocks", "graphics_max")),
    Trait("memory_clock_mhz", _gpu("clocks", "memory_max")),
    Trait("application_clock_mhz", _gpu("clocks", "graphics_application")),
    Trait("bar1_mib", _gpu("bar1_mib")),
    Trait("nic_firmware", _nics),
    Trait("persistence_mode", _gpu("persistence_mode"), _of_pool, _upgrades),
    Trait("mig_mode", _gpu("mig", "mode"), _of_layout, _mig_changes),
)
"""All that is compared, by its name."""

PINNED_OPTIONS = ArgumentSpec(
    {
        "product": {"type": "str"},
        **{trait.key: Option(type="str") for trait in TRAITS if trait.read not in (_arguments, _nics)},
    }
)
"""The options of an element of ``pinned``: a pattern of GPU models, and the values that they must have."""


def odd(view: View, key: str) -> t.Iterator[Odd]:
    """Yield what differs in one trait."""
    (trait,) = (trait for trait in TRAITS if trait.key == key)
    groups: dict[tuple[str, str], list[ComparedMachine]] = {}
    for machine in view.once(machines):
        groups.setdefault((machine.kind, trait.within(machine)), []).append(machine)
    for group in groups.values():
        if not any(map(trait.rolls, group)):
            yield from _odd_in(group, trait, _pin(view.evidence.pinned, group[0].product, key))


def _odd_in(group: t.Sequence[ComparedMachine], trait: Trait, pin: str | None) -> t.Iterator[Odd]:
    aspects: dict[str, list[Reading]] = {}
    for reading in trait.read(group):
        aspects.setdefault(reading.aspect, []).append(reading)
    for readings in aspects.values():
        yield from _unlike(readings, pin) if pin is not None else _few(readings)


def _unlike(readings: t.Sequence[Reading], pin: str) -> t.Iterator[Odd]:
    """Yield the readings that differ from what is pinned."""
    for reading in readings:
        if reading.value != pin:
            yield Odd(reading, pin, f"{pin} is pinned for {reading.machine.product}", "pinned")


def _few(readings: t.Sequence[Reading]) -> t.Iterator[Odd]:
    """Yield the readings that few have, while most have another."""
    counts, total = collections.Counter(reading.value for reading in readings), len(readings)
    usual, most = counts.most_common(1)[0]
    if total < LEAST or most * 2 <= total:
        return
    kind = readings[0].object.partition(" ")[0]
    things = f"{kind}s in machines" if kind else "machines"
    for reading in readings:
        if reading.value != usual and counts[reading.value] * MINORITY <= total:
            instead = f"most {things} with {reading.machine.kind} have {usual}"
            yield Odd(reading, usual, instead, f"{most} of {total}")


def _pin(pinned: t.Sequence[Json], product: str, key: str) -> str | None:
    """Return the value that is pinned for a product, by the first entry that has one."""
    for entry in pinned:
        if fnmatch.fnmatchcase(product, entry.get("product") or "*") and entry.get(key) is not None:
            text = _words(entry[key])
            is_number = re.fullmatch(r"\d+\.0", text) and key.endswith("_w")
            return text.removesuffix(".0") if is_number else _SWITCH.get(text.lower(), text)
    return None


# ---- machines -------------------------------------------------------------------------------------------------------


def machines(view: View) -> list[ComparedMachine]:
    """Return all machines of which the GPU model is known."""
    owned = pools.owners(view.evidence.objects.get("nvidiadrivers") or [], list(view.nodes.values())).of
    found = (_machine(view, name, owned.get(name, "")) for name in view.names)
    return [machine for machine in found if machine]


def _machine(view: View, name: str, owner: str) -> ComparedMachine | None:
    row, facts, node = view.rows.get(name) or {}, view.facts(name), view.nodes.get(name) or {"metadata": {}}
    labels = objects.labels_of(node)
    gpus = [gpu for gpu in facts.get("gpus") or [] if gpu.get("product")]
    product = _model(row.get("product") or (gpus[0]["product"] if gpus else ""))
    count = row.get("gpus") or len(gpus)
    if not product or not count:
        return None
    chassis = labels.get(names.GPU_MACHINE)
    return ComparedMachine(
        node=name,
        product=product,
        kind=f"{count} x {product}" + (f" in {chassis}" if chassis else ""),
        row=row,
        facts=facts,
        layout=str((row.get("mig") or {}).get("config") or ""),
        pool=" ".join((labels.get(names.DRIVER_OWNER) or owner, labels.get(names.UPGRADE_SKIP) or "")),
        held=bool(hold.hold_of(node).purposes),
        upgrading=(row.get("upgrade_state") or "") not in names.UPGRADE_ENDED,
    )


def _model(product: str) -> str:
    """Return a product as GPU Feature Discovery writes it, without what it adds for shared and divided GPUs."""
    return _MODEL_SUFFIX.sub("", re.sub(r"\s+", "-", product.strip()))
