#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_metrics_info
short_description: Report what each GPU does, which pods hold it, and which holders leave it idle
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Asks the DCGM exporters of all nodes directly, through the API server's port forwarding. This needs no Prometheus
    and no network path to the pods, and says what is true now.
  - With O(prometheus), asks a Prometheus instead, which also knows what was true over a time range. Thanos, Mimir and
    VictoriaMetrics have the same API.
  - A value that no exporter serves is null, and RV(unknown) says why.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.read_only
  - gpuops.nvidia.usage
options:
  namespace:
    description: Namespace of the exporters' pods.
    type: str
    default: gpu-operator
  label_selector:
    description: Labels of the exporters' pods.
    type: str
    default: app=nvidia-dcgm-exporter
  port:
    description: Port of the metrics in the pods.
    type: int
    default: 9400
  nodes:
    description:
      - Names of the nodes to report.
      - The default is every node that the operator deploys the exporter to, and every other node that runs an exporter
        or of which O(prometheus) has metrics.
    type: list
    elements: str
  parallel:
    description: How many exporters to ask at a time.
    type: int
    default: 20
  timeout:
    description: Seconds that one exporter may take to answer.
    type: int
    default: 15
  allocated:
    description:
      - Also read the pods that hold GPUs from the API server, and compare. Without this, a GPU whose pod the exporter
        does not name looks free. Exporters do not name pods by default where pods share a GPU or get it by a claim.
      - This reads all pods outside O(namespace), which takes a while in a cluster with many pods.
    type: bool
    default: true
notes:
  - The ClusterRoles C(gpuops-usage) and C(gpuops-usage-namespace), which ship with the role
    P(gpuops.nvidia.preflight#role), have all permissions that the module needs. With O(allocated=false), it lists no
    pods outside O(namespace), and with O(prometheus), it forwards no port.
  - The pods of a GPU are those that its exporter names. For all pods that share GPUs by time-slicing, it needs
    C(KUBERNETES_VIRTUAL_GPUS), and for pods with claims C(KUBERNETES_ENABLE_DRA).
  - Both ways of scraping are understood, with the holder's name in the label C(pod) or in C(exported_pod).
seealso:
  - module: gpuops.nvidia.dcgm_exporter_info
  - module: gpuops.nvidia.gpu_stack_info
  - name: Prometheus' HTTP API
    description: The queries that O(prometheus) needs.
    link: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

EXAMPLES = r"""
- name: Read what the GPUs do now
  gpuops.nvidia.gpu_metrics_info:
  register: gpus

- name: Name the namespaces that hold idle GPUs
  ansible.builtin.debug:
    msg: "{{ item.namespace }} holds {{ item.gpus }} GPUs, of which {{ item.idle }} are idle."
  loop: "{{ gpus.namespaces | selectattr('idle') }}"

- name: Read who has left GPUs idle for a week, and what that has cost
  gpuops.nvidia.gpu_metrics_info:
    price_per_gpu_hour: 2.5
    prometheus:
      url: https://prometheus.example.com
      token: "{{ prometheus_token }}"
      range: 7d
      match: {cluster: production}
  register: week

- name: List GPUs that a pod has held idle for at least a day
  ansible.builtin.debug:
    msg: "{{ week.idle_holders | selectattr('hours', 'ge', 24) }}"
"""

RETURN = r"""
source:
  description: Where the metrics come from, V(exporters) or V(prometheus).
  returned: success
  type: str
  sample: prometheus
time_range:
  description: The time range that O(prometheus) was asked for, and the length of its steps. Null without it.
  returned: success
  type: dict
  sample: {begin: "2026-11-20T12:00:00Z", end: "2026-11-27T12:00:00Z", step_s: 10080}
gpus:
  description:
    - The GPUs, sorted by node and index. A GPU that MIG divides stands there as its instances, with C(power_w),
      C(temperature_c), C(last_xid) and C(throttling) of the whole GPU where the instances have none of their own.
    - A value that is unknown is null, and RV(unknown) says why.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0000
    gpu:
      description: Index of the GPU on its node, as nvidia-smi counts.
      type: int
      sample: 0
    uuid:
      description: UUID of the GPU, also of an instance's.
      type: str
      sample: GPU-58e8f5ea-13cc-013a-d88f-2bcf5ae8bc77
    mig_profile:
      description: Profile of the MIG instance, or null for a whole GPU.
      type: str
      sample: 1g.10gb
    mig_instance:
      description: Number of the GPU instance, or null for a whole GPU.
      type: int
      sample: 7
    model:
      description: Model of the GPU.
      type: str
      sample: NVIDIA H100 80GB HBM3
    pods:
      description:
        - The containers that hold it, as the exporter names them. An empty list says that nobody does.
        - Null if that is unknown, because the node has pods with GPUs that no series names (RV(unnamed_pods)).
      type: list
      elements: dict
      sample: [{namespace: training, pod: llm-0, container: main}]
    jobs:
      description:
        - The jobs that a workload manager such as Slurm has named for it, with
          O(gpuops.nvidia.gpu_monitoring#module:job_directory).
      type: list
      elements: str
      sample: ["4711"]
    utilisation:
      description: Percent of the time for which the GPU has been busy lately.
      type: float
      sample: 38.11
    utilisation_from:
      description:
        - The metric that RV(gpus[].utilisation) comes from.
        - V(DCGM_FI_PROF_GR_ENGINE_ACTIVE) where it is served, or else V(DCGM_FI_DEV_GPU_UTIL), which counts a GPU as
          busy that runs one small kernel.
      type: str
      sample: DCGM_FI_PROF_GR_ENGINE_ACTIVE
    memory_used_mib:
      description: Used memory.
      type: int
      sample: 61440
    memory_total_mib:
      description: All memory. Without the metric of reserved memory, it lacks that part.
      type: int
      sample: 81559
    power_w:
      description: Power draw of the whole GPU.
      type: float
      sample: 412.7
    temperature_c:
      description: Temperature of the whole GPU.
      type: float
      sample: 61
    last_xid:
      description: The last Xid since the exporter has started, or 0 if there was none. It stays until the next one.
      type: int
      sample: 0
    throttling:
      description:
        - What slows the GPU down, of V(power_cap), V(hw_slowdown), V(sw_thermal), V(hw_thermal), V(hw_power_brake).
        - A busy GPU at V(power_cap) is normal.
      type: list
      elements: str
      sample: [sw_thermal]
    throttling_from:
      description:
        - The metric that RV(gpus[].throttling) comes from. V(DCGM_EXP_CLOCK_EVENTS_COUNT) says what was seen within its
          window, five minutes by default.
      type: str
      sample: DCGM_FI_DEV_CLOCKS_EVENT_REASONS
    mean_utilisation:
      description:
        - Mean utilisation in percent over the part of the time range for which its pods hold it, or over all of it if
          nobody does. Null without O(prometheus).
      type: float
      sample: 12.5
    highest_utilisation:
      description: Highest utilisation in percent over the same time. Null without O(prometheus).
      type: float
      sample: 97.3
    held_hours:
      description: For how many hours of the time range its pods hold it, at least. Null without O(prometheus).
      type: float
      sample: 20.4
    idle:
      description:
        - Whether pods hold it and leave it idle. V(false) if nobody holds it.
        - With O(prometheus), whether the highest utilisation since they hold it is not above O(idle_below). Without it,
          whether the present one is not.
      type: bool
      sample: false
namespaces:
  description: What each namespace holds. A GPU that several namespaces share counts in each of them.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Name of the namespace.
      type: str
      sample: training
    gpus:
      description: How many whole GPUs its pods hold.
      type: int
      sample: 16
    mig_instances:
      description: How many MIG instances its pods hold.
      type: int
      sample: 0
    idle:
      description: How many of both are idle.
      type: int
      sample: 2
    mean_utilisation:
      description: Mean utilisation in percent of those that report it, over the time range or now, or null.
      type: float
      sample: 71.4
    idle_cost:
      description: What the idle ones have cost, or null without O(price_per_gpu_hour) or O(prometheus).
      type: float
      sample: 120.0
    unnamed_pods:
      description: How many of RV(unnamed_pods) are in it. Their GPUs are not counted.
      type: int
      sample: 0
idle_holders:
  description: The GPUs that their holders leave idle, those that were held for longest first.
  returned: success
  type: list
  elements: dict
  sample:
    - node: gpu-0000
      gpu: 3
      uuid: GPU-58e8f5ea-13cc-013a-d88f-2bcf5ae8bc77
      mig_profile: null
      mig_instance: null
      model: NVIDIA H100 80GB HBM3
      pods: [{namespace: notebooks, pod: jupyter-ada-0, container: notebook}]
      utilisation: 0.0
      hours: 24.0
      cost_per_hour: 2.5
      cost: 60.0
unnamed_pods:
  description: The pods that hold GPUs according to the API server and that no series names. Empty without O(allocated).
  returned: success
  type: list
  elements: dict
  sample: [{namespace: notebooks, name: jupyter-ada-0, node: gpu-0001, gpus: {nvidia.com/gpu: 1}}]
unknown:
  description: The fields of RV(gpus) that are null, of how many GPUs, and why.
  returned: success
  type: list
  elements: dict
  sample:
    - field: temperature_c
      gpus: 8
      reason: The exporters do not serve DCGM_FI_DEV_GPU_TEMP for these GPUs.
nodes:
  description:
    - Whether the metrics of each node are there and cover all its GPUs. The others are reported nevertheless.
    - C(unread_lines) counts lines of the exporter's answer that are not in Prometheus' format.
  returned: success
  type: list
  elements: dict
  sample:
    - node: gpu-0000
      ok: false
      reason: The exporter reports 7 GPUs, but the node has 8.
      pod: nvidia-dcgm-exporter-x7b2k
      gpus: 7
      expected_gpus: 8
      unread_lines: 0
summary:
  description:
    - The numbers of the fleet. C(held), C(free) and C(idle) count whole GPUs and MIG instances.
    - Sums and means are of the GPUs that report the value, and null if none does.
  returned: success
  type: dict
  sample:
    nodes: 4
    nodes_without_metrics: 0
    gpus: 32
    mig_instances: 0
    held: 24
    free: 8
    idle: 2
    mean_utilisation: 63.2
    power_w: 12840.5
    memory_used_mib: 1474560
    memory_total_mib: 2609888
    throttled: 1
    with_xid: 0
    idle_cost: null
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.metrics_info import metrics_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.metrics_request import OPTIONS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = OPTIONS.including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: metrics_info(Cluster(module.params), module.params), secrets=("prometheus",))


if __name__ == "__main__":
    main()
