# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of which the dashboards' queries are made.

A GPU has more than one series of a metric: one for each pod that shares it, and one for each of its MIG instances. So
every query first makes one value of each GPU (``each``), and only then adds or counts.
"""

from __future__ import annotations

import dataclasses

GPU = "cluster, node, gpu, UUID, modelName"
"""The labels of one GPU. A cluster is a label that Prometheus may lack, and then counts as empty everywhere."""
SLOT = f"{GPU}, GPU_I_ID, GPU_I_PROFILE"
"""The labels of what a pod can hold: a GPU, or a MIG instance."""

NAMESPACE, POD, CONTAINER = (f"${{prefix}}{label}" for label in ("namespace", "pod", "container"))
"""The labels of the workload. The dashboards' variable `prefix` is empty, or `exported_` where Prometheus keeps the
names without a prefix for the exporter's own pod (honorLabels: false)."""

PRESENT = "DCGM_FI_DEV_FB_USED"
"""The metric that every GPU and every MIG instance has, on guests with a vGPU too."""
ACTIVE, UTIL = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
"""How much of the time a GPU computes, as a part of 1; and in percent, where the profiling counters are missing."""
POWER = "DCGM_FI_DEV_POWER_USAGE"

SLICES = (1, 2, 3, 4, 7)
"""How many compute slices a MIG instance may have: the number with which its profile's name begins."""

DEVICES = 'resource=~"nvidia_com_(gpu|gpu_shared|mig_.+)"'
"""GPUs in the words of kube-state-metrics: whole ones, shares with a name of their own, and MIG instances."""

STATE_S = "10m"
"""How long a GPU's mean activity counts for whether its holder uses it."""


@dataclasses.dataclass(frozen=True)
class Scope:
    """What a dashboard's variables select: of the exporter's series, of those of kube-state-metrics, and of holders."""

    gpus: str
    kube: str
    holders: str = f'{POD}!=""'

    def series(self, metric: str, *more: str) -> str:
        """Return the selector of the exporter's series."""
        return f"{metric}{{{', '.join([self.gpus, *more])}}}"

    def each(self, metric: str, *more: str, by: str = GPU) -> str:
        """Return the query for one value of each GPU, or of each instance or holder."""
        return f"max by ({by}) ({self.series(metric, *more)})"

    def rate(self, metric: str, *, window: str = "$__rate_interval") -> str:
        """Return the query for how fast a counter grows, per second, on each GPU."""
        return f"max by ({GPU}) (rate({self.series(metric)}[{window}]))"

    def about(self, metric: str, *more: str) -> str:
        """Return the selector of series that know of no GPU: those of kube-state-metrics, or about nodes."""
        return f"{metric}{{{', '.join([self.kube, *more])}}}"

    # ---- GPUs -----------------------------------------------------------------------------------------------------

    def present(self, *more: str, by: str = GPU) -> str:
        """Return the query that is 1 for each GPU that reports, or for each instance or holder."""
        return f"group by ({by}) ({self.series(PRESENT, *more)})"

    def activity(self, *, window: str = "", by: str = GPU) -> str:
        """Return the query for the activity of each GPU, from 0 to 1: of a divided one, its most active instance's."""
        metrics = [self.series(metric) for metric in (ACTIVE, UTIL)]
        active, util = (f"avg_over_time({each}[{window}])" if window else each for each in metrics)
        return f"(max by ({by}) ({active}) or max by ({by}) ({util}) / 100)"

    def used(self) -> str:
        """Return the query for GPUs that a pod holds, whole or in part, and that are active."""
        return f"({self.activity(window=STATE_S)} >= $idle and on (cluster, UUID) {self._held()})"

    def idle(self) -> str:
        """Return the query for GPUs that are held, and known to be idle."""
        return f"({self.activity(window=STATE_S)} < $idle and on (cluster, UUID) {self._held()})"

    def unknown(self) -> str:
        """Return the query for GPUs that are held, and whose activity nothing reports."""
        silent = " ".join(f"unless on (cluster, UUID) {self.series(metric)}" for metric in (ACTIVE, UTIL))
        return f"({self.held()} {silent})"

    def held(self) -> str:
        return self.present(self.holders)

    def free(self) -> str:
        return f"({self.present()} unless on (cluster, UUID) {self._held()})"

    def _held(self) -> str:
        """Return the selector of what pods hold, to look up whether a GPU is among it."""
        return self.series(PRESENT, self.holders)

    def lost(self) -> str:
        """Return the query for GPUs that reported a day ago and are silent now."""
        return f"(group by ({GPU}) ({self.series(PRESENT)} offset 1d) unless on (cluster, UUID) {self.series(PRESENT)})"

    def memory(self, part: str) -> str:
        """Return the query for the memory of each GPU, in MiB: the sum of its instances."""
        return f"sum by ({GPU}) ({self.each(f'DCGM_FI_DEV_FB_{part}', by=SLOT)})"

    def count(self, gpus: str, by: str = "") -> str:
        """Return the query for the number of these GPUs: 0 where there is none, and nothing where none reports."""
        grouped = f" by ({by})" if by else ""
        return f"count{grouped} ({gpus}) or {self.none(by)}"

    def none(self, by: str = "") -> str:
        """Return the query that is 0 as long as any GPU reports."""
        return f"0 * max by ({by}) ({self.series(PRESENT)})" if by else f"0 * max({self.series(PRESENT)})"

    # ---- holders --------------------------------------------------------------------------------------------------

    def shares(self) -> str:
        """Return the query for the part of a GPU that each pod holds.

        The parts of a GPU add up to 1 at most: pods that share it have equal parts, and a MIG instance has the part
        of its compute slices among those of all instances on its GPU.
        """
        whole, divided, anybody = 'GPU_I_ID=""', 'GPU_I_ID!=""', f'{POD}!=""'
        of_gpu, of_slot = "cluster, UUID", "cluster, UUID, GPU_I_ID"
        by_pod = f"cluster, node, UUID, {NAMESPACE}, {POD}"
        pods = f"count by ({of_gpu}) ({self.present(whole, anybody, by=by_pod)})"
        of_gpus = f"{self.present(whole, self.holders, by=by_pod)} / on ({of_gpu}) group_left () {pods}"
        by_pod = f"cluster, node, UUID, GPU_I_ID, {NAMESPACE}, {POD}"
        pods = f"count by ({of_slot}) ({self.present(divided, anybody, by=by_pod)})"
        slices = " or ".join(
            f"{number} * {self.present(profile, by=of_slot)}"
            for number in SLICES
            for profile in [f'GPU_I_PROFILE=~"{number}g.+"']
        )
        part = f"({slices}) / on ({of_gpu}) group_left () sum by ({of_gpu}) ({slices}) / on ({of_slot}) {pods}"
        of_instances = f"{self.present(divided, self.holders, by=by_pod)} * on ({of_slot}) group_left () ({part})"
        return f"({of_gpus} or {of_instances})"

    def shares_that(self, comparison: str, *, window: str = "") -> str:
        """Return the query for the parts of GPUs whose holder's GPU or instance has such an activity."""
        active = self.activity(window=window, by="cluster, UUID, GPU_I_ID")
        return f"({self.shares()} and on (cluster, UUID, GPU_I_ID) {active} {comparison})"

    # ---- Kubernetes -----------------------------------------------------------------------------------------------

    def devices(self, metric: str) -> str:
        """Return the query for the devices of each node with GPUs of the selected models."""
        had = f"group by (cluster, node) ({self.series(PRESENT)} or {self.series(PRESENT)} offset 1h)"
        return f"(sum by (cluster, node) ({self.about(metric, DEVICES)}) and on (cluster, node) {had})"

    def requested(self, by: str) -> str:
        """Return the query for the devices that pods on nodes request, and have until they end."""
        wanted = self.about("kube_pod_container_resource_requests", DEVICES, 'node!=""')
        return f"sum by ({by}) ({wanted} * on (cluster, namespace, pod) group_left () {alive('Pending|Running')})"


def alive(phases: str) -> str:
    """Return the query that is 1 for each pod in one of these phases."""
    states = f'kube_pod_status_phase{{cluster=~"$cluster", phase=~"{phases}"}}'
    return f"(max by (cluster, namespace, pod) ({states}) == 1)"


def hours(amount: str) -> str:
    """Return the query for an amount of GPUs, summed up over the dashboard's time range, in hours."""
    return f"sum_over_time(({amount})[$__range:$__interval]) * $__interval_ms / 3600000"


_NODE = 'cluster=~"$cluster", node="$node"'
FLEET = Scope('cluster=~"$cluster", node=~"$node", modelName=~"$model"', 'cluster=~"$cluster", node=~"$node"')
ONE_NODE = Scope(_NODE, _NODE)
ONE_GPU = Scope(f'{_NODE}, gpu="$gpu"', _NODE)
TENANTS = Scope(
    'cluster=~"$cluster", modelName=~"$model"',
    'cluster=~"$cluster", namespace=~"$namespace"',
    f'{POD}!="", {NAMESPACE}=~"$namespace"',
)
"""Of the namespaces only the holders: others with which they share a GPU still count as sharers."""
