# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Node maintenance, the half that acts: cordon, evict, wait, give back. One thread decides, a few more carry its requests."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import socket
import time
import typing as t
import uuid

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import signals
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import plan as core
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pods import GpuClaims, requested_gpus
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import OUTAGE_S
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

T = t.TypeVar("T")
R = t.TypeVar("R")
Make = t.Callable[[Json], "Json | None"]
"""Says from a node as it is how to patch it, or that there is nothing to do."""

NODES = namespaced("v1", None, "nodes")
PODS = namespaced("v1", None, "pods")
REQUESTS = 16
"""How many requests are under way at once."""

POLL_S = 1.0
SETTLE_S = 1.0
"""How long a pod may still appear after the cordon: the scheduler may have chosen the node just before."""

RETRY_S = 5.0
"""How long to leave a pod alone after its eviction was asked for."""

PUT_BACK_S = 20.0
"""How long to try to put nodes back while the API server is away."""

CONFLICTS = 10
FEW_NODES = 20
"""Up to so many nodes, their pods are read node by node; beyond, all pods in pages."""


def stamp() -> str:
    """Return what marks the nodes that this run takes: since when, from where, and which run."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {socket.gethostname()} {uuid.uuid4().hex[:8]}"


@dataclasses.dataclass
class Outcome:
    """What came of one node."""

    node: str
    changed: bool = False
    unschedulable: bool = False
    purposes: list[str] = dataclasses.field(default_factory=list)
    evicted: list[str] = dataclasses.field(default_factory=list)
    left: dict[str, str] = dataclasses.field(default_factory=dict)
    """Pods that should have gone, and why they did not."""
    failed: bool = False
    reason: str = ""
    seconds: float = 0.0

    def describe(self, node: Json) -> None:
        """Take over a node's state."""
        hold = core.hold_of(node)
        self.unschedulable, self.purposes = hold.unschedulable, list(hold.purposes)


class Fleet:
    """The requests of node maintenance, several at a time where that helps."""

    def __init__(self, cluster: Cluster, options: t.Mapping[str, t.Any]) -> None:
        self._cluster = cluster
        self.options = options
        self._claims = GpuClaims(cluster)
        self._pool = concurrent.futures.ThreadPoolExecutor(REQUESTS)

    def each(self, ask: t.Callable[[T], R], items: t.Iterable[T]) -> list[R]:
        """Do the same for each item, in parallel."""
        return list(self._pool.map(ask, items))

    @property
    def now(self) -> float:
        """The API server's clock."""
        return self._cluster.now()

    def nodes(self) -> list[Json]:
        """Return all nodes as they are now, and not as a cache remembers them."""
        return list((self._cluster.get(NODES) or {}).get("items") or [])

    def node(self, name: str) -> Json | None:
        """Return one node, or None."""
        return self._cluster.get(f"{NODES}/{name}")

    def pods(self, nodes: list[Json]) -> dict[str, list[Json]]:
        """Return the pods that must go from each of these nodes."""
        names = [name_of(node) for node in nodes] if self.options["state"] == "drained" else []
        if len(names) <= FEW_NODES:
            return dict(zip(names, self.each(self.pods_on, names)))
        found: dict[str, list[Json]] = {name: [] for name in names}
        for pod in self._cluster.pages(
            PODS, fieldSelector="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        ):
            node = pod["spec"].get("nodeName")
            if node in found and self._must_go(pod):
                found[node].append(pod)
        return found

    def pods_on(self, node: str) -> list[Json]:
        """Return the pods that must go from a node. What a cache says is believed only as long as it shows some."""
        query = {"fieldSelector": f"spec.nodeName={node}"}
        return self._select({**query, "resourceVersion": "0"}) or self._select(query)

    def _select(self, query: dict[str, str]) -> list[Json]:
        listed = (self._cluster.get(PODS, query) or {}).get("items") or []
        return [pod for pod in listed if self._must_go(pod)]

    def _must_go(self, pod: Json) -> bool:
        if not core.is_movable(pod):
            return False
        return self.options["evict"] == "all" or bool(requested_gpus(pod["spec"])) or self._claims.held_by(pod)

    def patch(self, name: str, make: Make) -> tuple[Json, bool]:
        """Change a node by what ``make`` says to its newest version; return it, and whether there was anything to change."""
        for dummy in range(CONFLICTS):
            node = self.node(name)
            if node is None:
                raise GpuOpsError(f"Node {name} was deleted meanwhile.", reason="NodeDeleted")
            body = make(node)
            if body is None:
                return node, False
            try:
                return self._cluster.merge(f"{NODES}/{name}", body), True
            except GpuOpsError as e:
                if e.reason != "Conflict":
                    raise
        raise GpuOpsError(f"Node {name} changes faster than it can be patched. Run it again.", reason="Conflict")

    def evict(self, pod: Json) -> str | None:
        """Ask for a pod's eviction; return an empty string when it is granted, why it is refused, or None when it needs none."""
        meta = pod["metadata"]
        try:
            self._cluster.evict(meta["namespace"], meta["name"], core.uid_of(pod), self.options["grace_period"])
        except GpuOpsError as e:
            return core.judge_refusal(e, meta["namespace"])
        return ""

    def finish(self) -> None:
        """Wait for the requests that are under way; an interruption does not end those."""
        self._pool.shutdown(cancel_futures=True)
        self._pool = concurrent.futures.ThreadPoolExecutor(REQUESTS)


@dataclasses.dataclass
class _Active:
    """A node that is being drained."""

    outcome: Outcome
    since: float
    settled: float
    """From when on no more pods can be on their way to it."""
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    retry_at: dict[str, float] = dataclasses.field(default_factory=dict)
    pods: list[Json] = dataclasses.field(default_factory=list)
    """Those that the last look has found."""

    @property
    def name(self) -> str:
        return self.outcome.node

    @property
    def left(self) -> dict[str, str]:
        """The pods that are still there, each with the API's refusal of its eviction or an empty string."""
        return {
            core.ref(pod): "" if core.is_ending(pod) else self.refused.get(core.uid_of(pod), "") for pod in self.pods
        }


def change(fleet: Fleet, changes: t.Mapping[str, Make]) -> tuple[dict[str, tuple[Json, bool]], dict[str, GpuOpsError]]:
    """Patch nodes, again and again while the API server is away. Return the nodes with whether they changed, and what went wrong."""
    deadline = time.monotonic() + PUT_BACK_S
    done: dict[str, tuple[Json, bool]] = {}

    def one(name: str) -> GpuOpsError | None:
        try:
            done[name] = fleet.patch(name, changes[name])
        except GpuOpsError as e:
            return e
        return None

    left = list(changes)
    failed: dict[str, GpuOpsError] = {}
    while True:
        answers = dict(zip(left, fleet.each(one, left)))
        failed = {name: error for name, error in {**failed, **answers}.items() if error}
        left = [name for name, error in failed.items() if error.reason in AWAY]
        if not left or time.monotonic() > deadline:
            return done, failed
        time.sleep(POLL_S)


class Run:
    """Taking nodes: cordoned all at once, drained ``parallel`` at a time, and given back when it fails."""

    def __init__(self, fleet: Fleet, plans: list[core.Plan]) -> None:
        self._fleet = fleet
        self._options = fleet.options
        self._plans = {each.name: each for each in plans}
        self._waiting: dict[str, Outcome] = {}
        self._cordoned: collections.deque[_Active] = collections.deque()
        self._active: dict[str, _Active] = {}
        self._told = ""
        self.outcomes: dict[str, Outcome] = {}
        self.not_put_back: dict[str, str] = {}
        """Nodes that are still in maintenance although they should not be, and why."""

    @property
    def failed(self) -> list[Outcome]:
        """What went wrong with nodes."""
        return [outcome for outcome in self.outcomes.values() if outcome.failed]

    def take(self) -> None:
        """Cordon the nodes and, to drain them, evict their pods. Raises, or leaves `failed`; in both cases what it took is put back."""
        self.outcomes = {name: Outcome(name) for name in self._plans}
        self._waiting = dict(self.outcomes)
        whole = False
        with signals.as_exceptions():
            try:
                self._work()
                whole = not self.failed
            finally:
                if not whole and self._options["restore_on_failure"]:
                    with signals.ignored():
                        self._put_back()

    def _work(self) -> None:
        reached = time.monotonic()
        while self._waiting or self._cordoned or self._active:
            try:
                self._step()
                reached = time.monotonic()
                self._tell(
                    core.progress(
                        len(self.outcomes), self._drained, {name: item.left for name, item in self._active.items()}
                    )
                )
            except GpuOpsError as e:
                patience = min([reached + OUTAGE_S, *(self._deadline(item) for item in self._active.values())])
                if e.reason not in AWAY or time.monotonic() > patience:
                    raise
                self._tell(e.msg)
                time.sleep(POLL_S)
            if self.failed and self._options["restore_on_failure"]:
                return
            time.sleep(POLL_S if self._active else 0)

    @property
    def _drained(self) -> int:
        return len(self.outcomes) - len(self._waiting) - len(self._cordoned) - len(self._active) - len(self.failed)

    def _tell(self, line: str) -> None:
        """Write down how far it is, when that has changed, for whoever watches. That nobody can read it is no reason to stop."""
        path = self._options["progress_path"]
        if path and line != self._told:
            self._told = line
            with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def _deadline(self, item: _Active) -> float:
        return item.since + float(self._options["timeout"])

    def _step(self) -> None:
        """Cordon all nodes, so that no pod moves to one that is next; then look at those in turn, evict what is due, and conclude what is over."""
        self._fleet.each(self._cordon, list(self._waiting.values()))
        while self._cordoned and len(self._active) < self._options["parallel"]:
            item = self._cordoned.popleft()
            item.since = time.monotonic()
            self._active[item.name] = item
        items = list(self._active.values())
        looks = list(zip(items, self._fleet.each(self._look, items)))
        self._evict([(item, pod) for item, pods in looks for pod in pods])
        for item, pods in looks:
            self._conclude(item, pods)

    def _cordon(self, outcome: Outcome) -> None:
        """Cordon a node. This runs in a thread of its own, so that an interruption does not tear the request from its answer."""
        try:
            node, changed = self._fleet.patch(outcome.node, self._plans[outcome.node].make)
        except GpuOpsError as e:
            if e.reason != "NodeDeleted":
                raise
            outcome.failed, outcome.reason = True, e.msg
        else:
            outcome.describe(node)
            # An answer may have been lost: the node is ours also when a second look finds our mark there.
            outcome.changed = changed or self._plans[outcome.node].is_ours(node)
            if self._options["state"] == "drained":
                now = time.monotonic()
                self._cordoned.append(_Active(outcome, now, now + (SETTLE_S if outcome.changed else 0)))
        del self._waiting[outcome.node]

    def _look(self, item: _Active) -> list[Json]:
        item.pods = self._fleet.pods_on(item.name)
        return item.pods

    def _evict(self, pairs: list[tuple[_Active, Json]]) -> None:
        now = time.monotonic()
        due = [
            (item, pod)
            for item, pod in pairs
            if not core.is_ending(pod) and now >= item.retry_at.get(core.uid_of(pod), 0)
        ]
        for item, pod in due:
            found = core.obstacles([pod], self._options)
            if found:  # it came after the plan was made
                self._fail(item, core.refuse(found).msg)
        self._fleet.each(self._ask, [(item, pod) for item, pod in due if not item.outcome.failed])

    def _ask(self, pair: tuple[_Active, Json]) -> None:
        item, pod = pair
        answer = self._fleet.evict(pod)
        item.retry_at[core.uid_of(pod)] = time.monotonic() + RETRY_S
        if answer:
            item.refused[core.uid_of(pod)] = answer
        elif answer is not None:
            item.outcome.changed = True
            item.outcome.evicted.append(core.ref(pod))

    def _conclude(self, item: _Active, pods: list[Json]) -> None:
        now = time.monotonic()
        if item.outcome.failed:
            return
        if not pods and now >= item.settled:
            item.outcome.seconds = round(now - item.since, 1)
            del self._active[item.name]
        elif pods and now >= self._deadline(item):
            node = self._fleet.node(item.name)
            item.outcome.left = {
                core.ref(pod): core.why_left(pod, node, item.refused.get(core.uid_of(pod)), self._fleet.now)
                for pod in pods
            }
            self._fail(item, core.explain_left(item.outcome.left, self._options["timeout"]))

    def _fail(self, item: _Active, why: str) -> None:
        item.outcome.failed, item.outcome.reason = True, why
        item.outcome.seconds = round(time.monotonic() - item.since, 1)
        self._active.pop(item.name, None)

    def _put_back(self) -> None:
        """Release every node that carries this run's mark."""
        self._fleet.finish()
        done, errors = change(self._fleet, {each.name: each.undo for each in self._plans.values()})
        self.not_put_back = {name: error.msg for name, error in errors.items() if error.reason != "NodeDeleted"}
        for name, (node, dummy) in done.items():
            outcome = self.outcomes[name]
            outcome.describe(node)
            outcome.changed = bool(outcome.evicted)
            outcome.reason = outcome.reason or "The call failed elsewhere, and what it took here was put back."
        for name, why in self.not_put_back.items():
            outcome = self.outcomes[name]
            outcome.failed, outcome.reason = True, f"{outcome.reason} It could not be put back: {why}".lstrip()

    @property
    def ending(self) -> str:
        """Say in what state a failed call left the nodes."""
        if not self._options["restore_on_failure"]:
            return (
                "What it took stays in maintenance (restore_on_failure is false): run it again, or with state=restored."
            )
        if self.not_put_back:
            left = [f"{name} ({why})" for name, why in self.not_put_back.items()]
            return f"These nodes could not be put back and stay in maintenance: {core.some(left)} Run it with state=restored."
        kept = [outcome.node for outcome in self.outcomes.values() if self._options["purpose"] in outcome.purposes]
        earlier = f" Nodes that an earlier call took stay in maintenance: {core.some(kept)}." if kept else ""
        return f"What this call took is put back.{earlier}"


# ---- what a module calls --------------------------------------------------------------------------------------------------------


def predict(fleet: Fleet, plans: list[core.Plan]) -> list[Outcome]:
    """Ask the API server by dry run for everything that the plans say, and return what would come of it."""
    dummy, errors = change(fleet, {each.name: each.make for each in plans if each.patch})
    if errors:
        raise next(iter(errors.values()))
    return [_predicted(each, fleet.each(fleet.evict, each.evictions)) for each in plans]


def _predicted(plan: core.Plan, answers: list[str | None]) -> Outcome:
    outcome = Outcome(plan.name, changed=plan.changed, evicted=sorted(map(core.ref, plan.evictions)))
    outcome.describe(plan.node_after)
    outcome.left = {core.ref(pod): answer for pod, answer in zip(plan.evictions, answers) if answer}
    return outcome


def apply(fleet: Fleet, plans: list[core.Plan]) -> list[Outcome]:
    """Do what the plans say. A failure carries what came of each node."""
    if fleet.options["state"] == "restored":
        return _restore(fleet, plans)
    run = Run(fleet, plans)
    try:
        run.take()
    except GpuOpsError as e:
        raise GpuOpsError(f"{e.msg} {run.ending}", **{**e.details, **report(list(run.outcomes.values()))}) from e
    except KeyboardInterrupt as e:
        raise GpuOpsError(
            f"The call was interrupted. {run.ending}", reason="Interrupted", **report(list(run.outcomes.values()))
        ) from e
    if run.failed:
        raise _failure(list(run.outcomes.values()), run.ending)
    return list(run.outcomes.values())


def _restore(fleet: Fleet, plans: list[core.Plan]) -> list[Outcome]:
    done, errors = change(fleet, {each.name: each.make for each in plans})
    outcomes = [Outcome(each.name) for each in plans]
    for outcome in outcomes:
        if outcome.node in errors:
            outcome.failed, outcome.reason = True, errors[outcome.node].msg
        else:
            node, outcome.changed = done[outcome.node]
            outcome.describe(node)
    if errors:
        raise _failure(outcomes, "Run it again: what is done is not done twice.")
    return outcomes


def _failure(outcomes: list[Outcome], ending: str) -> GpuOpsError:
    bad = [f"{outcome.node}: {outcome.reason}" for outcome in outcomes if outcome.failed]
    return GpuOpsError(f"{core.some(bad, ' ')} {ending}", reason="NodesFailed", **report(outcomes))


def report(outcomes: list[Outcome]) -> Json:
    """Return a module's result."""
    rows = [{**dataclasses.asdict(outcome), "evicted": sorted(set(outcome.evicted))} for outcome in outcomes]
    counts = {
        "nodes": len(rows),
        "changed": sum(row["changed"] for row in rows),
        "failed": sum(row["failed"] for row in rows),
        "evicted": sum(len(row["evicted"]) for row in rows),
    }
    return {"changed": counts["changed"] > 0, "nodes": rows, "summary": counts}
