# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The series of a healthy fleet, minute by minute: jobs, upgrades, restarts, MIG changes, scrapes that fail.

Each node has two GPUs. What happens, and how long it takes, is made up: there is no public recording of a fleet with
its maintenance. The order of what is seen during a maintenance is that of the lab's operator and kubelet.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import random
import typing as t

from tests.support.prometheus import named

HOUR, DAY = 60, 24 * 60
GPUS = 2
INSTANCES = 7
"""MIG devices of a divided GPU."""

Minutes = list["State | None"]
Runs = list[tuple["State | None", int]]
"""States, each with the number of minutes for which it lasts."""
Series = dict[str, str]


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """What a node shows for some minutes. ``job`` is the pod that holds its GPUs."""

    job: str = ""
    running: bool = True
    util: int = 0
    reasons: int = 1
    margin: int = 40
    exporter: t.Literal["up", "down", "gone"] = "up"
    """``down``: Prometheus gets no answer. ``gone``: there is no pod, so Prometheus asks nobody."""
    cordoned: bool = False
    offered: bool = True
    registered: bool = True
    """Whether the node's capacity names GPUs."""
    mig: bool = False
    mig_state: str = "success"
    boots: bool = False
    """The counters of the driver begin again."""


FREE = State()


class Node:
    """A node, and what it shows in each minute. None: the cluster does not know it."""

    def __init__(self, name: str, minutes: int, chance: random.Random) -> None:
        self.name, self._chance = name, chance
        self.minutes: Minutes = []
        while len(self.minutes) < minutes:
            self._live()
        del self.minutes[minutes:]

    def _show(self, minutes: float, **state: t.Any) -> None:
        self.minutes += [State(**state)] * max(1, round(minutes))

    def _live(self) -> None:
        """Wait for work, and do it."""
        chance = self._chance
        is_night = not 7 <= (len(self.minutes) % DAY) / HOUR < 22
        self._show(chance.uniform(2, 9) * HOUR if is_night else chance.uniform(0.1, 4) * HOUR)
        job = f"job-{self.name}-{len(self.minutes)}"
        self._show(chance.uniform(0.5, 25), job=job, running=False)
        self._show(chance.uniform(2, 40), job=job)
        for dummy in range(chance.randint(2, 12)):
            self._show(chance.uniform(20, 240), job=job, util=97, reasons=4, margin=chance.randint(8, 25))
            self._show(chance.uniform(1, 4), job=job, util=90, reasons=68, margin=chance.randint(2, 5))
            self._show(chance.uniform(1, 25), job=job, util=0)

    def happens(self, start: int, *states: tuple[float, State | None]) -> int:
        """Let something happen, which ends the job. Return the minute after it."""
        place = start
        for minutes, state in states:
            end = min(place + max(1, round(minutes)), len(self.minutes))
            self.minutes[place:end] = [state] * (end - place)
            place = end
        after = place
        before = self.minutes[start - 1] if start else None
        while place < len(self.minutes) and before is not None and before.job and self._is_of(place, before.job):
            self.minutes[place] = dataclasses.replace(FREE, mig=before.mig)
            place += 1
        return after

    def _is_of(self, place: int, job: str) -> bool:
        state = self.minutes[place]
        return state is not None and state.job == job

    def divide(self, start: int, end: int) -> None:
        """Show MIG devices that nobody holds, from one minute to another."""
        state = State(mig=True)
        for place in range(start, end):
            if self.minutes[place] is not None and not self.minutes[place].cordoned:  # type: ignore[union-attr]
                self.minutes[place] = state

    # ---- what happens ----------------------------------------------------------------------------------------------

    def upgrade_driver(self, start: int) -> int:
        """Upgrade the driver as the operator does: the operands leave, and come back before the uncordon."""
        between = self._chance.uniform
        away = State(cordoned=True, offered=False, exporter="gone")
        back = State(cordoned=True, boots=True)
        return self.happens(
            start, (between(1, 6), State(cordoned=True)), (between(3, 9), away), (1, back), (between(1, 3), FREE)
        )

    def restart(self, start: int, *, planned: bool) -> int:
        """Restart the machine, after a cordon or without one."""
        between = self._chance.uniform
        silent = State(exporter="down", cordoned=planned)
        booted = State(exporter="gone", offered=False, boots=True, cordoned=planned)
        unknown = State(exporter="gone", offered=False, registered=False, cordoned=planned)
        begin = [(between(1, 4), State(cordoned=True))] if planned else []
        rest = [(between(2, 5), silent), (between(1, 3), booted), (1, unknown), (between(2, 4), booted)]
        return self.happens(start, *begin, *rest, (2, State(cordoned=planned)))

    def change_mig(self, start: int, length: int) -> None:
        """Divide the GPUs for some hours, and join them again."""
        for begin, after in ((start, True), (start + length, False)):
            changing = State(cordoned=True, offered=False, exporter="gone", mig_state="pending", mig=after)
            end = self.happens(
                begin,
                (self._chance.uniform(1, 3), State(cordoned=True, mig_state="pending", mig=not after)),
                (self._chance.uniform(3, 8), changing),
                (2, State(cordoned=True, mig=after)),
            )
            if after:
                self.divide(end, start + length)

    def lose_scrapes(self, start: int, minutes: int, exporter: t.Literal["down", "gone"]) -> None:
        """Restart the exporter alone."""
        for place in range(start, min(start + minutes, len(self.minutes))):
            state = self.minutes[place]
            if state is not None:
                self.minutes[place] = dataclasses.replace(state, exporter=exporter)

    def restart_kubelet(self, start: int) -> None:
        """Take the GPUs from the node's offer for two minutes."""
        for place in range(start, start + 2):
            state = self.minutes[place]
            if state is not None:
                self.minutes[place] = dataclasses.replace(state, offered=False)


class Fleet:
    """Nodes with their maintenance, and what the cluster says of itself."""

    def __init__(self, nodes: int, days: int, seed: int) -> None:
        self.minutes = days * DAY
        self._chance = random.Random(seed)
        self.nodes = [Node(f"n{seed}-{number}", self.minutes, self._chance) for number in range(nodes)]
        self._unready = [False] * self.minutes
        self._upgrades: list[tuple[int, int]] = [(0, nodes)] * self.minutes
        """How many nodes are being upgraded, and are done."""
        self.gaps: list[range] = []
        """Minutes without an answer of kube-state-metrics."""
        self._plan(days)

    def _plan(self, days: int) -> None:
        chance = self._chance
        for node in self.nodes:
            for dummy in range(max(1, days // 10)):
                node.lose_scrapes(chance.randrange(self.minutes), chance.randint(1, 6), chance.choice(("down", "gone")))
                node.restart_kubelet(chance.randrange(self.minutes - 2))
            if days >= 3:
                begin = chance.randrange(DAY, self.minutes - DAY)
                node.restart(begin, planned=False)
                self._not_ready(begin, 15)
        for day in range(2, days, 10):
            self._each_in_turn(day * DAY + 9 * HOUR, Node.upgrade_driver, counted=True)
        for day in range(5, days, 14):
            self._each_in_turn(day * DAY + 9 * HOUR, lambda node, start: node.restart(start, planned=True))
        for node in self.nodes[::8] if days >= 3 else []:
            node.change_mig(chance.randrange(self.minutes // 2), chance.randrange(6 * HOUR, DAY))
        for dummy in range(days):
            self._not_ready(chance.randrange(self.minutes), chance.randint(1, 12))
        self.gaps += [range(start, start + 3) for start in chance.sample(range(self.minutes), max(1, days // 5))]
        if days > 15:
            self._come_and_go(days)

    def _come_and_go(self, days: int) -> None:
        """Let one node join, and another leave."""
        joins, leaves = self.nodes[1], self.nodes[2]
        start = days // 3 * DAY
        joins.minutes[:start] = [None] * start
        fresh = State(exporter="gone", offered=False, registered=False)
        joins.happens(start, (9, fresh), (2, dataclasses.replace(fresh, exporter="up")), (10, FREE))
        end = days // 2 * DAY
        leaves.happens(end, (40, State(cordoned=True)), (self.minutes, None))

    def _each_in_turn(self, start: int, what: t.Callable[[Node, int], int], *, counted: bool = False) -> None:
        """Do something with all nodes, one after the other, with a pause between them."""
        first = start
        for done, node in enumerate(self.nodes):
            end = what(node, start) if node.minutes[min(start, self.minutes - 1)] else start
            if counted:
                self._upgrades[start:end] = [(1, done)] * (end - start)
                self._upgrades[end : end + 2] = [(1, done + 1)] * 2
            start = min(end + 2, self.minutes - 1)
        self._not_ready(first, start - first)
        # A pod of kube-state-metrics runs on one of these nodes.
        self.gaps.append(range(first + 8, first + 12))

    def _not_ready(self, start: int, minutes: int) -> None:
        for place in range(start, min(start + minutes, self.minutes)):
            self._unready[place] = True

    def between(self, begin: int, end: int) -> Fleet:
        """Return what happened from one minute to another, as a fleet of its own."""
        part = copy.copy(self)
        part.minutes = end - begin
        part.nodes = [copy.copy(node) for node in self.nodes]
        for node in part.nodes:
            node.minutes = node.minutes[begin:end]
        part._unready, part._upgrades = self._unready[begin:end], self._upgrades[begin:end]
        part.gaps = [range(max(gap.start - begin, 0), gap.stop - begin) for gap in self.gaps if gap.stop > begin]
        return part

    # ---- the series -------------------------------------------------------------------------------------------------

    def series(self) -> Series:
        """Return the series in promtool's notation, by their names with labels."""
        known: Series = {}
        kube = self._without(self.gaps)
        for node in self.nodes:
            _write_node(known, node, kube)
        operator = {
            "gpu_operator_reconciliation_status": [0 if unready else 1 for unready in self._unready],
            "gpu_operator_nodes_upgrades_failed": [0] * self.minutes,
            "gpu_operator_nodes_upgrades_in_progress": [begun for begun, done in self._upgrades],
            "gpu_operator_nodes_upgrades_done": [done for begun, done in self._upgrades],
        }
        for name, values in operator.items():
            known[name] = " ".join(f"{value}x{len(list(group)) - 1}" for value, group in itertools.groupby(values))
        return known

    def _without(self, gaps: list[range]) -> list[bool]:
        there = [True] * self.minutes
        for gap in gaps:
            for place in gap:
                if place < self.minutes:
                    there[place] = False
        return there


def _write_node(known: Series, node: Node, kube: list[bool]) -> None:
    exporter = {"job": "nvidia-dcgm-exporter", "instance": f"{node.name}:9400", "node": node.name}
    runs = _runs(node.minutes)
    known[named("up", exporter)] = _each(
        _if(runs, lambda state: state.exporter != "gone"), lambda state: int(state.exporter == "up")
    )
    for gpu in range(GPUS):
        labels = {"gpu": str(gpu), "UUID": f"GPU-{node.name}-{gpu}", "modelName": "NVIDIA H100 80GB HBM3"}
        _write_gpu(known, runs, exporter | labels | {"hostname": node.name})
    whole = _runs([state if there else None for state, there in zip(node.minutes, kube, strict=True)])
    on = {"node": node.name}
    known[named("kube_node_spec_unschedulable", on)] = _each(whole, lambda s: int(s.cordoned))
    for mig_state in ("success", "pending"):
        _write_mig_state(known, whole, on, mig_state)
    _write_resource(known, whole, on | {"resource": "nvidia_com_gpu"}, of_mig=False, number=GPUS)
    _write_resource(known, whole, on | {"resource": "nvidia_com_mig_1g_10gb"}, of_mig=True, number=INSTANCES * GPUS)
    for job in sorted({state.job for state, dummy in whole if state and state.job}):
        _write_pod(known, whole, on, job)


def _write_mig_state(known: Series, whole: Runs, on: dict[str, str], mig_state: str) -> None:
    labels = on | {"label_nvidia_com_mig_config_state": mig_state}
    known[named("kube_node_labels", labels)] = _each(_if(whole, lambda s: s.mig_state == mig_state), lambda s: 1)


def _write_resource(known: Series, whole: Runs, of: dict[str, str], *, of_mig: bool, number: int) -> None:
    """Write what a node has of a resource, and what it offers."""
    has = _each(whole, lambda s: number if s.mig is of_mig and s.registered else 0)
    offers = _each(whole, lambda s: number if s.mig is of_mig and s.offered else 0)
    known[named("kube_node_status_capacity", of)] = has
    known[named("kube_node_status_allocatable", of)] = offers


def _write_pod(known: Series, whole: Runs, on: dict[str, str], job: str) -> None:
    own = _if(whole, lambda state: state.job == job)
    pod = {"namespace": "team", "pod": job}
    asks = {**pod, **on, "container": "main", "resource": "nvidia_com_gpu"}
    known[named("kube_pod_container_resource_requests", asks)] = _each(own, lambda s: GPUS)
    known[named("kube_pod_status_phase", pod | {"phase": "Running"})] = _each(own, lambda s: int(s.running))
    known[named("kube_pod_status_phase", pod | {"phase": "Pending"})] = _each(own, lambda s: int(not s.running))


def _write_gpu(known: Series, runs: Runs, labels: dict[str, str]) -> None:
    shown = _if(runs, lambda state: state.exporter == "up")
    values: dict[str, t.Callable[[State], int]] = {
        "GPU_TEMP": lambda state: 90 - state.margin,
        "GPU_UTIL": lambda state: state.util,
        "CLOCKS_EVENT_REASONS": lambda state: state.reasons,
        "GPU_TEMP_LIMIT": lambda state: state.margin,
        "ROW_REMAP_FAILURE": lambda state: 0,
        "ROW_REMAP_PENDING": lambda state: 0,
        "GET_GPU_RECOVERY_ACTION": lambda state: 0,
        "ECC_DBE_VOL_TOTAL": lambda state: 0,
        "NVLINK_RECOVERY_ERROR_COUNT_TOTAL": lambda state: 0,
    }
    holders = sorted({state.job for state, dummy in shown if state and state.running})
    whole = _if(shown, lambda s: not s.mig)
    of_holder = {job: _held_by(whole, job) for job in holders}
    divided = _if(shown, lambda s: s.mig)
    kinds: list[tuple[dict[str, str], Runs]] = [
        (labels | ({"namespace": "team", "pod": job, "container": "main"} if job else {}), states)
        for job, states in of_holder.items()
    ]
    kinds += [
        (labels | {"GPU_I_ID": str(instance), "GPU_I_PROFILE": "1g.10gb"}, divided)
        for instance in range(INSTANCES if any(state for state, dummy in divided) else 0)
    ]
    for more, states in kinds:
        for field, value in values.items():
            known[named(f"DCGM_FI_DEV_{field}", more)] = _each(states, value)
        known[named("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", more)] = _energy(runs, states)


def _held_by(runs: Runs, job: str) -> Runs:
    """Return the states in which the exporter names this pod, or none for an empty name."""
    return _if(runs, lambda state: (state.job if state.running else "") == job)


def _runs(minutes: Minutes) -> Runs:
    return [(state, sum(1 for dummy in group)) for state, group in itertools.groupby(minutes)]


def _if(runs: Runs, shows: t.Callable[[State], bool]) -> Runs:
    """Return the states that show something, and None for the others."""
    return [(state if state and shows(state) else None, length) for state, length in runs]


def _each(runs: Runs, value: t.Callable[[State], int]) -> str:
    """Return a value of each state in promtool's notation: ``5x2`` is three fives, ``_x2`` two minutes of nothing."""
    values = [(None if state is None else value(state), length) for state, length in runs]
    joined = [(each, sum(length for dummy, length in group)) for each, group in itertools.groupby(values, _value_of)]
    return " ".join(f"_x{length}" if each is None else f"{each}x{length - 1}" for each, length in joined)


def _value_of(run: tuple[int | None, int]) -> int | None:
    return run[0]


def _energy(runs: Runs, shown: Runs) -> str:
    """Return a counter that grows with the load, and begins again when the driver does."""
    total, gap, parts, was_booting = 0, 0, [], False
    for (state, length), (own, dummy) in zip(runs, shown, strict=True):
        boots = bool(state and state.boots)
        total = 0 if boots and not was_booting else total
        was_booting = boots
        step = 70 + (6 * state.util if state else 0)
        if own:
            parts += [f"_x{gap}"] if gap else []
            parts.append(f"{total}+{step}x{length - 1}")
        gap = 0 if own else gap + length
        total += step * length
    return " ".join(parts)
