# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Alerts about GPUs that are not in service, about the stack, and about GPUs that nobody uses."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import (
    DIAGNOSE,
    GPUS_OF_NODE,
    KUBE_STATE_METRICS,
    NODE_LABELS,
    NODE_STATUS,
    OPERATORS_METRICS,
    OUT_OF_SERVICE,
    Alert,
    Thresholds,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.promql import by_node, held_idle, of_pods

RESOURCES = 'resource=~"nvidia_com_(gpu|gpu_shared|mig_.*)"'
"""GPUs, as kube-state-metrics writes the names of resources."""
GPU_REQUESTS = f"kube_pod_container_resource_requests{{{RESOURCES}}}"
"""What containers ask for."""


def of_presence() -> tuple[Alert, ...]:
    """Return the alerts about GPUs that are away, not offered, or without metrics."""
    capacity = f"sum by (node) (kube_node_status_capacity{{{RESOURCES}}})"
    allocatable = f"sum by (node) (kube_node_status_allocatable{{{RESOURCES}}})"
    down = by_node('up{job=~".*dcgm-exporter.*"} == 0')
    running = '(kube_pod_status_phase{phase="Running"} == 1)'
    busy = f"sum by (node) ({GPU_REQUESTS} and on (namespace, pod) {running})"
    with_pods = by_node(of_pods("DCGM_FI_DEV_GPU_TEMP", "5m"))
    stuck = by_node("changes(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[15m])")
    return (
        Alert(
            "GpuLost",
            "critical",
            f"max_over_time({GPUS_OF_NODE}[1d]) - {GPUS_OF_NODE} > 0",
            "5m",
            "Node {{ $labels.node }} has lost {{ $value }} GPUs within the last day.",
            "A GPU fell off its bus, or the driver no longer starts it.",
            "`lspci -d 10de:` and `nvidia-smi` on the node, and its kernel log. " + DIAGNOSE,
            "Drain the node, and restart the machine. If the GPU stays away, have it and its slot checked.",
        ),
        Alert(
            "GpuNotAllocatable",
            "warning",
            f"{capacity} - {allocatable} > 0",
            "15m",
            "Node {{ $labels.node }} has {{ $value }} GPU resources that pods cannot get.",
            "The device plugin has declared GPUs unhealthy, or is away.",
            DIAGNOSE + " The log of the node's device plugin names the GPU and the Xid.",
            "Clear the error that the plugin names, and restart the plugin's pod.",
            needs=(KUBE_STATE_METRICS,),
        ),
        Alert(
            "GpuNotOffered",
            "critical",
            f"({GPUS_OF_NODE} > 0) and on () (count(kube_node_status_capacity) > 0) unless on (node) ({capacity} > 0)",
            "15m",
            "Node {{ $labels.node }} has {{ $value }} GPUs, and offers none to pods.",
            "The device plugin does not run on the node, or its configuration is wrong.",
            DIAGNOSE,
            "Follow the diagnosis. The device plugin's pod on the node names the cause in its log.",
            needs=(KUBE_STATE_METRICS,),
        ),
        Alert(
            "GpuDriverNotAnswering",
            "critical",
            "max by (node) (gpu_operator_node_driver_validation) == 0",
            "10m",
            "The driver of node {{ $labels.node }} does not answer.",
            "The node status exporter starts nvidia-smi each minute, and it fails.",
            "`nvidia-smi` on the node, and its kernel log. " + DIAGNOSE,
            "Drain the node, and restart the machine.",
            needs=(NODE_STATUS,),
        ),
        Alert(
            "GpuExporterDown",
            "warning",
            down + " == 0",
            "10m",
            "The metrics of the GPUs of node {{ $labels.node }} cannot be read.",
            "The DCGM exporter of the node does not answer Prometheus.",
            "The exporter's pod on the node: its state, its log, and network policies.",
            "Repair the exporter. A list of fields with an error stops the exporters of all nodes.",
        ),
        Alert(
            "GpuExporterSilent",
            "warning",
            f"({capacity} > 0) unless on (node) {GPUS_OF_NODE} unless on (node) {down}",
            "15m",
            "Node {{ $labels.node }} offers GPUs, and its exporter reports none.",
            "The exporter answers without a GPU, or Prometheus does not know its address.",
            "`gpuops.nvidia.dcgm_exporter_info` asks the exporter itself. Prometheus lists its targets.",
            "Restart the exporter's pod on the node. DCGM cannot find GPUs that came after it.",
            needs=(KUBE_STATE_METRICS,),
        ),
        Alert(
            "GpuExporterStuck",
            "warning",
            stuck + " == 0",
            "10m",
            "The exporter of node {{ $labels.node }} repeats old values.",
            "The energy that a GPU has used grows all the time. The exporter serves the same value again and again.",
            "The exporter's log on the node, and whether `nvidia-smi` answers there.",
            "Restart the exporter's pod on the node. If `nvidia-smi` hangs, too, drain and restart the machine.",
        ),
        Alert(
            "GpuMetricsWithoutPods",
            "warning",
            f"({busy} > 0 and on (node) {GPUS_OF_NODE}) unless on (node) {with_pods}",
            "15m",
            "Pods use GPUs on node {{ $labels.node }}, and its metrics do not name them.",
            "The exporter cannot ask the kubelet who holds which GPU, or a relabelling drops the answer.",
            "The exporter's log (pod resources), and `pod` and `exported_pod` of one of its series in Prometheus.",
            "Have the role monitoring set the scrape configuration.",
            needs=(KUBE_STATE_METRICS,),
        ),
    )


def of_stack(limits: Thresholds) -> tuple[Alert, ...]:
    """Return the alerts about the operator and its drivers."""
    in_progress, done = "gpu_operator_nodes_upgrades_in_progress", "gpu_operator_nodes_upgrades_done"
    span = limits.upgrade_stuck_after
    # GPU Feature Discovery writes the strategy if the configuration has replicas for the node's GPUs
    # (NVIDIA/k8s-device-plugin 1b826acc, internal/lm/resource.go). The capacity is the plugin's own word.
    shared = 'kube_node_labels{label_nvidia_com_gpu_sharing_strategy=~"time-slicing|mps"}'
    whole = 'sum by (node) (kube_node_status_capacity{resource=~"nvidia_com_gpu(_shared)?"})'
    nobody_out = f"unless on () (count({OUT_OF_SERVICE} == 1) > 0)"
    return (
        Alert(
            "GpuOperatorNotReady",
            "warning",
            f"(min(gpu_operator_reconciliation_status) < 1) {nobody_out}",
            limits.not_ready_after,
            "The GPU Operator is not ready, and no node is in maintenance.",
            "An operand does not become ready on a node, or the operator cannot read its ClusterPolicy.",
            DIAGNOSE,
            "Follow the diagnosis.",
            is_silent_in_maintenance=False,
            needs=(OPERATORS_METRICS, KUBE_STATE_METRICS),
        ),
        Alert(
            "GpuDriverUpgradeFailed",
            "critical",
            "max(gpu_operator_nodes_upgrades_failed) > 0",
            "15m",
            "The driver's upgrade has failed on {{ $value }} nodes.",
            "The operator gave up on a node. The node stays cordoned.",
            "`playbooks/upgrade_driver.yml --check` names the nodes and the cause of each.",
            "Remove the cause, and run `playbooks/upgrade_driver.yml` again. It continues with these nodes.",
            is_silent_in_maintenance=False,
            needs=(OPERATORS_METRICS,),
        ),
        Alert(
            "GpuDriverUpgradeStuck",
            "warning",
            f"(max(min_over_time({in_progress}[{span}])) > 0) and on () (max(changes({done}[{span}])) == 0)",
            "10m",
            f"The driver's upgrade has finished no node for {span}.",
            "A node waits for pods that do not end, or for a driver that does not start.",
            "`playbooks/upgrade_driver.yml --check` names what each node waits for.",
            "Follow what it says. A PodDisruptionBudget that allows no eviction is the usual cause.",
            is_silent_in_maintenance=False,
            needs=(OPERATORS_METRICS,),
        ),
        Alert(
            "GpuMigChangeFailed",
            "warning",
            'max by (node) (kube_node_labels{label_nvidia_com_mig_config_state="failed"}) == 1',
            "5m",
            "The MIG manager could not divide the GPUs of node {{ $labels.node }}.",
            "The layout does not fit the GPUs, or a program holds one of them.",
            "The log of the node's MIG manager. " + DIAGNOSE,
            "Run `playbooks/mig.yml`, which drains the node and tries again.",
            needs=(NODE_LABELS,),
        ),
        Alert(
            "GpuSharingNotInEffect",
            "warning",
            f"({whole} > 0 <= on (node) {GPUS_OF_NODE}) and on (node) {shared}",
            "15m",
            "GPUs of node {{ $labels.node }} are to be shared, and it offers only {{ $value }} of them.",
            "Feature discovery has read that the GPUs are shared, and the device plugin still runs with a former "
            "configuration.",
            "`gpuops.nvidia.gpu_stack_info`, and the log of the node's device plugin.",
            "Run `playbooks/sharing.yml`, which names what keeps the sharing from its effect.",
            needs=(NODE_LABELS, KUBE_STATE_METRICS),
        ),
    )


def of_use(limits: Thresholds) -> tuple[Alert, ...]:
    """Return the alerts about GPUs that nobody uses, and pods that wait."""
    pending = f'{GPU_REQUESTS} and on (namespace, pod) (kube_pod_status_phase{{phase="Pending"}} == 1)'
    # Each pod by itself: in a busy fleet some pod waits at every moment, and none for long.
    waiting = f"sum by (namespace, pod) ({pending})"
    running = f'{GPU_REQUESTS} and on (namespace, pod) (kube_pod_status_phase{{phase="Running"}} == 1)'
    free = f"(sum(kube_node_status_allocatable{{{RESOURCES}}}) - (sum({running}) or vector(0)))"
    return (
        Alert(
            "GpuHeldIdle",
            "info",
            held_idle("10m", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"),
            limits.idle_after,
            "Pod {{ $labels.namespace }}/{{ $labels.pod }} has held a GPU of node {{ $labels.node }} for "
            f"{limits.idle_after} without using it.",
            "The program waits, or was forgotten.",
            "`gpuops.nvidia.gpu_metrics_info` lists idle holders with their hours.",
            "Ask the owner of the namespace whether the pod is still needed.",
        ),
        Alert(
            "GpuPodsWaitWhileGpusAreFree",
            "info",
            f"({waiting} > 0) <= on () group_left () {free}",
            limits.waiting_after,
            "Pod {{ $labels.namespace }}/{{ $labels.pod }} waits for {{ $value }} GPUs, and as many are free, on "
            "several nodes or out of its reach.",
            "Free GPUs are spread over nodes, or taints, selectors and quotas keep the pod away from them.",
            "The events of the pod say what the scheduler found on each node.",
            "Move small pods together, or change what keeps the pod away.",
            is_silent_in_maintenance=False,
            needs=(KUBE_STATE_METRICS,),
        ),
    )
