# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Divides the GPUs of a host into MIG instances: what the module mig_partition does."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import forked
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig import (
    apply,
    mig_request,
    obstacles,
    plan,
    restore,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver import instances, library
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import Gpu
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class GpuPlan:
    """What is to be done with one GPU. ``pending`` says that its mode will only change with a reset."""

    gpu: Gpu
    wish: mig_request.GpuRequest
    targets: tuple[plan.InstanceTarget, ...]
    steps: tuple[plan.Step, ...]
    held_by: tuple[Json, ...] = ()
    pending: bool = False

    @property
    def after(self) -> Gpu:
        """The GPU as the plan leaves it."""
        return plan.after(self.gpu, self.wish, self.targets, self.pending)


def partition(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Bring the GPUs to their layouts, and return the module's result. In check mode, predict the result."""
    obstacles.assert_ours(host, options["allow_kubernetes_node"])
    obstacles.assert_driver(host, options["driver_root"])
    if check_mode:
        return _partition(host, options, check_mode)
    with host.locked():
        return _partition(host, options, check_mode)


def _partition(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    before = gpus(options["timeout"])
    plans = _plans(host, options["layout"], before)
    in_the_way = [(each.gpu, process) for each in plans for process in obstacles.processes(each.gpu, each.steps)]
    if not (check_mode and options["after_drain"]):
        obstacles.assert_idle(host, in_the_way)
    unit = restore.unit(host, _lines(host, options, before, plans))
    steps = [step for each in plans for step in each.steps]
    reasons: dict[int, str] = {}
    if check_mode:
        by_index = {each.gpu.index: each.after for each in plans}
        now = [by_index.get(gpu.index, gpu) for gpu in before]
    else:
        if unit.differs:
            host.assert_writable(restore.UNIT, "GPUs and the unit that restores their layout")
        reasons = _apply(before, steps, options["timeout"])
        now = gpus(options["timeout"]) if steps else before
    return _result(host, before, now, plans, reasons, unit, check_mode)


def _result(
    host: Host,
    before: t.Sequence[Gpu],
    now: t.Sequence[Gpu],
    plans: t.Sequence[GpuPlan],
    reasons: dict[int, str],
    unit: restore.RestoreUnit,
    check_mode: bool,
) -> Json:
    diff = [plan.diff(before, now), unit.diff()]
    differs = unit.differs
    pending = _pending(now, plans, reasons)
    if differs and not check_mode:
        unit.write()
        if not pending:
            unit.prove()
    return {
        "changed": differs or diff[0]["before"] != diff[0]["after"],
        "gpus": [_shown(gpu) for gpu in now],
        "steps": [step.text for each in plans for step in each.steps],
        "pending": pending,
        "reboot_required": bool(pending),
        "diff": diff,
    }


def gpus(timeout_s: float) -> list[Gpu]:
    """Return the GPUs as the driver reports them now."""

    def ask() -> t.Iterator[Json]:
        try:
            for gpu in library.Driver().gpus():
                yield {"gpu": dataclasses.asdict(gpu)}
            yield {"end": True}
        except (OSError, library.DriverError) as e:
            yield {"error": str(e)}

    messages = _answer(forked.Child(ask), timeout_s, "while it was asked for its GPUs")
    errors = [message["error"] for message in messages if "error" in message]
    if errors:
        raise GpuOpsError(
            f"The driver's library NVML cannot be asked: {errors[0]}. Reboot if the driver was updated, and look for "
            "Xid errors in the kernel log.",
            reason="DriverRefused",
        )
    return [instances.of_json(message["gpu"]) for message in messages if "gpu" in message]


def _answer(child: forked.Child, timeout_s: float, when: str) -> list[Json]:
    answer = child.read(time.monotonic() + timeout_s)
    messages = answer.messages()
    if not messages or not ({"end", "error"} & set(messages[-1])):
        how = f"did not answer within {timeout_s:g} s" if answer.timed_out else "ended the process"
        raise GpuOpsError(
            f"The driver {how} {_doing(messages) or when}. Look for Xid errors in the kernel log, and reboot the host.",
            reason="TimedOut" if answer.timed_out else "DriverRefused",
        )
    return messages


def _doing(messages: t.Sequence[Json]) -> str | None:
    steps = [message["step"] for message in messages if "step" in message]
    return f'at the step "{steps[-1]}"' if steps else None


def _plans(host: Host, layout: t.Sequence[Json], before: t.Sequence[Gpu]) -> list[GpuPlan]:
    by_index = {gpu.index: gpu for gpu in before}
    return [_plan(host, by_index[index], wish) for index, wish in mig_request.read(layout, before).items()]


def _plan(host: Host, gpu: Gpu, wish: mig_request.GpuRequest) -> GpuPlan:
    targets = plan.targets(gpu, wish)
    steps = tuple(plan.steps(gpu, wish, targets))
    # Only an Ampere GPU needs a reset for its mode, for which it must be free.
    if not gpu.ampere or wish.mode is gpu.mode:
        return GpuPlan(gpu, wish, targets, steps)
    held_by = tuple(obstacles.holders(host, gpu))
    if held_by:
        steps = tuple(step for step in steps if step.action.startswith("destroy") or step.action == "mode")
    if held_by and gpu.pending is wish.mode:
        steps = ()
    return GpuPlan(gpu, wish, targets, steps, held_by, pending=bool(held_by))


def _apply(before: t.Sequence[Gpu], steps: t.Sequence[plan.Step], timeout_s: float) -> dict[int, str]:
    """Do the steps, and return why modes take effect later only, by the index of the GPU."""
    if not steps:
        return {}

    def work() -> t.Iterator[Json]:
        try:
            for message in apply.Work(library.Driver(), before).run(steps):
                yield {**message, "step": steps[message["doing"]].text} if "doing" in message else message
        except (OSError, library.DriverError) as e:
            yield {"failed": 0, "error": str(e)}
            yield {"end": True}

    messages = _answer(forked.Child(work), timeout_s, "before the first change")
    failed = next((message for message in messages if "failed" in message), None)
    if failed:
        _report(steps[failed["failed"]].text, failed["error"], [each for each in messages if "stuck" in each])
    return {message["waits"]: message["reason"] for message in messages if "waits" in message}


def _report(step: str, error: str, stuck: t.Sequence[Json]) -> t.NoReturn:
    if stuck:
        left = first_few([f"{each['stuck']} ({each['error']})" for each in stuck], separator="; ")
        end = f"These steps back failed, too: {left}."
    else:
        end = "Everything before it was undone."
    raise GpuOpsError(f'The driver refused the step "{step}": {error}. {end}', reason="DriverRefused", undone=not stuck)


def _lines(
    host: Host, options: t.Mapping[str, t.Any], before: t.Sequence[Gpu], plans: t.Sequence[GpuPlan]
) -> restore.Lines:
    """Return what the unit restores: what it did so far, but for the GPUs that this layout names."""
    lines = restore.read(host)
    if any(mig_request.ALL in entry["gpus"] for entry in options["layout"]):
        there = {gpu.uuid for gpu in before}
        lines = {uuid: words for uuid, words in lines.items() if uuid in there}
    for each in plans:
        lines.pop(each.gpu.uuid, None)
        if each.wish.mode and options["persistent"]:
            lines[each.gpu.uuid] = restore.line(each.targets)
    return lines


def _pending(now: t.Sequence[Gpu], plans: t.Sequence[GpuPlan], reasons: dict[int, str]) -> list[Json]:
    """Return the GPUs whose mode takes effect at a reset only, each with the reason and the processes that hold it."""
    by_index = {each.gpu.index: each for each in plans}
    found = []
    for gpu in now:
        if gpu.index in by_index and gpu.mode != gpu.pending:
            held_by = by_index[gpu.index].held_by
            reason = reasons.get(gpu.index) or "Processes hold the GPU open"
            identity = {"gpu": gpu.index, "uuid": gpu.uuid}
            text = _waiting(gpu, reason, held_by)
            found.append({**identity, "reason": reason, "held_by": list(held_by), "text": text})
    return found


def _waiting(gpu: Gpu, reason: str, held_by: t.Sequence[Json]) -> str:
    holders = first_few([f"{each['pid']} ({each['name']}, {each['user']})" for each in held_by])
    held = f" Processes hold it: {holders}." if holders else ""
    return (
        f"{gpu.name} takes the MIG mode {'on' if gpu.pending else 'off'} with a reset: {reason}.{held} "
        "Stop what holds it and run this again, or reboot."
    )


def _shown(gpu: Gpu) -> Json:
    identity = {"index": gpu.index, "uuid": gpu.uuid, "pci_address": gpu.address, "product": gpu.product}
    return {**identity, "mig": instances.facts(gpu), "layout": plan.lines(gpu)[1:]}
