# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The steps from what exists on a GPU to what is wanted: only the difference, in an order that always fits.

All unwanted instances are destroyed before the first is created, and the mode changes when the GPU is empty.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import (
    NEW,
    ComputeInstance,
    Gpu,
    Instance,
    by_start,
    compute_name,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.mig_request import GpuRequest, InstanceRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import placement
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Profile
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Action = t.Literal["mode", "create", "destroy", "create_compute", "destroy_compute"]
INVERSE: dict[Action, Action] = {
    "mode": "mode",
    "create": "destroy",
    "destroy": "create",
    "create_compute": "destroy_compute",
    "destroy_compute": "create_compute",
}


@dataclasses.dataclass(frozen=True)
class Step:
    """One call to the driver. A GPU instance is named by its ``start``, since its number changes when it is created
    again.

    ``number`` is NVML's number of the profile. Of a compute instance, ``slices`` is the size, ``place`` its first slice
    and ``compute`` its number.
    """

    gpu: int
    uuid: str
    action: Action
    on: bool = False
    start: int = 0
    size: int = 0
    number: int = 0
    profile: str = ""
    slices: int = 0
    place: int = 0
    compute: int | None = None

    def inverse(self) -> Step:
        """Return the step that undoes this one."""
        return dataclasses.replace(self, action=INVERSE[self.action], on=not self.on)

    @property
    def text(self) -> str:
        """What the step does, for people."""
        if self.action == "mode":
            return f"GPU {self.gpu}: turn MIG {'on' if self.on else 'off'}"
        verb = "create" if self.action.startswith("create") else "destroy"
        if self.slices:
            return f"GPU {self.gpu}: {verb} the compute instance {self.slices}c in {self.profile} at {self.start}"
        return f"GPU {self.gpu}: {verb} {self.profile} at {self.start}"


@dataclasses.dataclass(frozen=True)
class InstanceTarget:
    """A GPU instance as it is to be: one that exists and stays, or a new one."""

    profile: Profile
    start: int
    shape: tuple[int, ...]
    existing: Instance | None = None

    @property
    def compute(self) -> list[tuple[int, int]]:
        """The place and the size of each compute instance, in the order of the places."""
        places = placement.compute_places(self.shape, self.profile.compute) or ()
        return sorted(zip(places, self.shape))


def targets(gpu: Gpu, wish: GpuRequest) -> tuple[InstanceTarget, ...]:
    """Return the instances as they are to be, in the order of their places. What exists stays where it can."""
    if not wish.mode:
        return ()
    if wish.instances is None:
        kept = [InstanceTarget(_profile(gpu, each), each.start, each.shape(), each) for each in gpu.instances]
        return tuple(kept)
    found = _fixed(gpu, wish.instances) if _has_places(wish.instances) else _free(gpu, wish.instances)
    return tuple(sorted(found, key=lambda target: target.start))


def _has_places(wanted: t.Sequence[InstanceRequest]) -> bool:
    return any(each.start is not None for each in wanted)


def _profile(gpu: Gpu, instance: Instance) -> Profile:
    return next(each for each in gpu.profiles if each.name == instance.profile)


def _fixed(gpu: Gpu, wanted: t.Sequence[InstanceRequest]) -> list[InstanceTarget]:
    """Return the targets of a layout that says where each instance is."""
    placed = [placement.Placed(each.profile, each.start or 0) for each in wanted]
    if placement.place_instances(gpu.model, [], placed) is None:
        _refuse(gpu, {}, placed)
    there = {(each.profile, each.start): each for each in gpu.instances}
    return [
        InstanceTarget(each.profile, each.start or 0, each.shape, there.get((each.profile.name, each.start or 0)))
        for each in wanted
    ]


def _free(gpu: Gpu, wanted: t.Sequence[InstanceRequest]) -> list[InstanceTarget]:
    """Return the targets of a layout that only counts. Instances that processes use are the last to go."""
    busy = {process.gpu_instance for process in gpu.processes}
    shapes = [(each.profile.name, each.shape) for each in wanted]
    existing = sorted(
        gpu.instances, key=lambda each: (each.id not in busy, (each.profile, each.shape()) not in shapes, each.start)
    )
    placed = [placement.Placed(_profile(gpu, each), each.start) for each in existing]
    counts: dict[str, int] = {}
    for each in wanted:
        counts[each.profile.name] = counts.get(each.profile.name, 0) + 1
    change = placement.change(gpu.model, placed, counts)
    if change is None:
        _refuse(gpu, counts, [])
    kept = [each for number, each in enumerate(existing) if number not in change.destroy]
    return _matched(gpu, list(wanted), kept, change.create)


def _refuse(gpu: Gpu, counts: dict[str, int], placed: t.Sequence[placement.Placed]) -> t.NoReturn:
    reason = placement.why_not(gpu.model, counts, placed) or "its instances are too many together"
    raise GpuOpsError(
        f"The layout does not fit on {gpu.name}: {reason}. Ask for fewer or smaller instances.", reason="Invalid"
    )


def _matched(
    gpu: Gpu, wanted: list[InstanceRequest], kept: t.Sequence[Instance], created: t.Sequence[placement.Placed]
) -> list[InstanceTarget]:
    """Give each instance that stays, and then each new one, the compute instances of one that is wanted."""
    found: list[InstanceTarget] = []
    # Those that already have the right compute instances choose first.
    for exact in (True, False):
        for instance in kept:
            fitting = [
                each
                for each in wanted
                if each.profile.name == instance.profile and (not exact or each.shape == instance.shape())
            ]
            if fitting and instance not in [target.existing for target in found]:
                wanted.remove(fitting[0])
                found.append(InstanceTarget(fitting[0].profile, instance.start, fitting[0].shape, instance))
    for place in created:
        chosen = next(each for each in wanted if each.profile == place.profile)
        wanted.remove(chosen)
        found.append(InstanceTarget(chosen.profile, place.start, chosen.shape))
    return found


def steps(gpu: Gpu, wish: GpuRequest, wanted: t.Sequence[InstanceTarget]) -> list[Step]:
    """Return the steps for one GPU."""
    found = list(_destroying(gpu, wanted))
    if wish.mode is not gpu.mode or wish.mode is not gpu.pending:
        found.append(Step(gpu.index, gpu.uuid, "mode", on=wish.mode))
    return [*found, *_creating(gpu, wanted)]


def _destroying(gpu: Gpu, wanted: t.Sequence[InstanceTarget]) -> t.Iterator[Step]:
    staying = {target.existing.id: target for target in wanted if target.existing}
    for instance in gpu.instances:
        target = staying.get(instance.id)
        if target is None or target.shape != instance.shape():
            for compute in instance.compute:
                yield _compute_step(gpu, instance, compute)
        if target is None:
            yield _step(gpu, "destroy", _profile(gpu, instance), instance.start)


def _creating(gpu: Gpu, wanted: t.Sequence[InstanceTarget]) -> t.Iterator[Step]:
    for target in wanted:
        if target.existing is None:
            yield _step(gpu, "create", target.profile, target.start)
        if target.existing is None or target.existing.shape() != target.shape:
            for place, slices in target.compute:
                yield _step(gpu, "create_compute", target.profile, target.start, slices, place)


def _step(gpu: Gpu, action: Action, profile: Profile, start: int, slices: int = 0, place: int = 0) -> Step:
    return Step(
        gpu.index,
        gpu.uuid,
        action,
        start=start,
        size=profile.slots,
        number=profile.gi,
        profile=profile.name,
        slices=slices,
        place=place,
    )


def _compute_step(gpu: Gpu, instance: Instance, compute: ComputeInstance) -> Step:
    step = _step(gpu, "destroy_compute", _profile(gpu, instance), instance.start, compute.slices, compute.start)
    return dataclasses.replace(step, compute=compute.id)


# ---- showing --------------------------------------------------------------------------------------------------------


def after(gpu: Gpu, wish: GpuRequest, wanted: t.Sequence[InstanceTarget], pending: bool) -> Gpu:
    """Return the GPU as the steps leave it. What the driver will only then decide, such as UUIDs, is None.

    With ``pending``, the new mode takes effect at a later reset, and the instances are created then.
    """
    if pending:
        return dataclasses.replace(gpu, pending=wish.mode, instances=gpu.instances if wish.mode else ())
    made = [target.existing if _stays(target) else _made(target) for target in wanted]
    return dataclasses.replace(
        gpu, mode=wish.mode, pending=wish.mode, instances=by_start(each for each in made if each is not None)
    )


def _stays(target: InstanceTarget) -> bool:
    return target.existing is not None and target.existing.shape() == target.shape


def _made(target: InstanceTarget) -> Instance:
    compute = [ComputeInstance(number, slices, place) for number, (place, slices) in enumerate(target.compute)]
    profile = target.profile
    number = target.existing.id if target.existing else NEW
    return Instance(number, profile.name, profile.compute, target.start, profile.slots, tuple(compute))


def lines(gpu: Gpu) -> list[str]:
    """Return a GPU's layout as text, without anything that changes from one run to the next."""
    if gpu.mode is None:
        return [f"{gpu.name}: no MIG"]
    mode = "on" if gpu.mode else "off"
    later = "" if gpu.mode == gpu.pending else f", {'on' if gpu.pending else 'off'} after a reset"
    return [f"{gpu.name}: MIG {mode}{later}", *map(_line, gpu.instances)]


def _line(instance: Instance) -> str:
    names = [compute_name(instance.profile, size, instance.slices) for size in instance.shape()]
    inside = "" if names == [instance.profile] else f" ({', '.join(names) or 'no compute instance'})"
    place = f"{instance.start}-{instance.start + instance.size - 1}" if instance.size > 1 else str(instance.start)
    return f"  {place}: {instance.profile}{inside}"


def diff(before: t.Sequence[Gpu], later: t.Sequence[Gpu]) -> Json:
    """Return the layouts before and after, for ``--diff``."""
    texts = ["".join(f"{line}\n" for gpu in gpus for line in lines(gpu)) for gpus in (before, later)]
    return {"before": texts[0], "after": texts[1], "before_header": "MIG layout", "after_header": "MIG layout"}
