#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_monitoring
short_description: Collect the metrics of GPUs that alerts and dashboards need, and hand them to Prometheus and Grafana
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Derives the list of DCGM fields from what is switched on (presets, alerts, dashboards, and fields of your own), so
    that each alert has the metrics that it asks for. The list of an unchanged installation lacks most of them.
  - Publishes the list for the DCGM exporters in a ConfigMap whose name carries a digest of the list. The exporter reads
    its list once, when it starts, so an edited one would never be read.
  - Checks each field of your own against the names that the exporter of the installed operator knows. One wrong name
    stops the exporter of each node.
  - Makes a ServiceMonitor with which series name the node of each GPU (C(node)) and the pod that holds it (C(pod),
    C(namespace), C(container)). The operator's own ServiceMonitor has the exporter's pod there. It is switched off if
    Prometheus takes it, too, and on again where it is the only one.
  - Makes a PrometheusRule with the alerts, a ServiceMonitor each for the operator's own metrics and for its node status
    exporter, and a ConfigMap for each dashboard, all in the operator's namespace. Without the Prometheus operator,
    RV(rules) has the alerts for a file.
  - Reads from the Prometheus object which labels it asks for, and stops if it would ignore the objects all the same.
  - Changes no object that it has not made. Its mark is the label C(gpuops.nvidia/monitoring). The ClusterPolicy owns
    the objects, so that they go with it.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.progress
options:
  state:
    description:
      - V(present) sets all of it up. V(absent) removes it, and the exporters collect the fields of the chart again.
    type: str
    choices: [present, absent]
    default: present
  policy_name:
    description: Name of the ClusterPolicy. Without it, the one that the cluster has.
    type: str
    default: ""
  namespace:
    description: Namespace of the operator. Without it, the one that the ClusterPolicy names.
    type: str
    default: ""
  presets:
    description:
      - Groups of fields to collect. V(default) is what the exporter collects by itself. V(health) has errors, memory
        rows, links and reasons for low clocks. V(profiling) has the use of the GPU's parts.
    type: list
    elements: str
    choices: [default, health, profiling]
    default: [default, health]
  fields:
    description: Fields of your own to collect, too. They replace fields of the same name.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the field, as DCGM has it.
        type: str
        required: true
      type:
        description: Type of the metric. V(label) makes the value a label of all series of the GPU.
        type: str
        choices: [gauge, counter, label]
        required: true
      help:
        description: One line that says what the value means, with its unit.
        type: str
        required: true
  alerts:
    description: Whether to set up the alerts.
    type: bool
    default: true
  alerts_off:
    description: Names of alerts to leave out, such as V(GpuHeldIdle).
    type: list
    elements: str
    default: []
  alert_labels:
    description: Labels to add to each alert, such as the team that gets it.
    type: dict
    default: {}
  thresholds:
    description: Where values become alerts. Times are durations of Prometheus, such as V(2h).
    type: dict
    suboptions:
      temperature_margin:
        description: Degrees Celsius that are left until the GPU slows down by its own limit. The default is V(3).
        type: int
      idle_after:
        description: How long a pod may hold a GPU without using it. The default is V(2h).
        type: str
      waiting_after:
        description: How long a pod may wait while enough GPUs are free in sum. The default is V(30m).
        type: str
      upgrade_stuck_after:
        description: How long an upgrade of drivers may go without a finished node. The default is V(2h).
        type: str
      not_ready_after:
        description: How long the operator may not be ready. The default is V(30m).
        type: str
      grace:
        description: How long a node that came back from a cordon is not judged. The default is V(15m).
        type: str
  dashboards:
    description:
      - Dashboards of Grafana as JSON, by name. The role monitoring has some.
      - The sidecar of Grafana's chart finds them by the label C(grafana_dashboard).
    type: dict
    default: {}
  scrape:
    description: Whether to set up the ServiceMonitors, if the cluster has that kind.
    type: bool
    default: true
  interval:
    description: How often Prometheus reads the exporters. They have new values every 30 seconds.
    type: str
    default: 30s
  prometheus:
    description: Name of the Prometheus object, or C(namespace/name), if the cluster has several.
    type: str
    default: ""
  labels:
    description: Labels to add to the ServiceMonitors and the PrometheusRule, beside those that the Prometheus asks for.
    type: dict
    default: {}
  job_directory:
    description:
      - Folder on the nodes in which a workload manager such as Slurm says which jobs use which GPU. With it, each
        metric of a GPU has the label C(hpc_job), once for each job of the GPU.
      - The exporter reads one file for each GPU, whose name is the GPU's index (C(0)), or that and the id of the MIG
        instance (C(0.7)). Each line is the name of a job. Empty a file instead of deleting it, and write it beside its
        place and rename it, since a file that vanishes in the middle of a scrape costs the node all its metrics.
      - An empty string gives up what this module has set. It needs GPU Operator v25.10.1 or later.
    type: str
    default: ""
  wait:
    description:
      - Whether to wait until every exporter has the list. The operator replaces their pods one node after the other,
        and no GPU workload is interrupted.
      - Without a wait, the former list stays in the cluster until the next call that waits.
    type: bool
    default: true
  wait_timeout:
    description: How many seconds to wait at most.
    type: int
    default: 600
notes:
  - The fields of the ClusterPolicy have field managers of their own (V(gpuops.nvidia-counters), V(gpuops.nvidia-scrape)
    and V(gpuops.nvidia-jobs)), so that the role operator leaves them as they are.
seealso:
  - module: gpuops.nvidia.dcgm_exporter_info
"""

EXAMPLES = r"""
- name: Give the fleet metrics and alerts
  gpuops.nvidia.gpu_monitoring:
    alert_labels: {team: gpu}

- name: Collect what profiling shows, and a field of your own
  gpuops.nvidia.gpu_monitoring:
    presets: [default, health, profiling]
    fields:
      - {name: DCGM_FI_DEV_PCIE_LINK_WIDTH, type: gauge, help: Lanes of the PCIe link.}

- name: Write the alerts to a file, for a Prometheus without its operator
  block:
    - name: Set up the metrics
      gpuops.nvidia.gpu_monitoring:
      register: monitoring

    - name: Write the alerts
      ansible.builtin.copy:
        content: "{{ monitoring.rules }}"
        dest: /etc/prometheus/rules/gpu.yml
        mode: "0644"
"""

RETURN = r"""
config_map:
  description: Namespace and name of the ConfigMap with the list of fields, or an empty string with V(absent).
  returned: success
  type: str
  sample: gpu-operator/gpuops-dcgm-fields-3f2a91bc
fields:
  description: Names of the fields that the exporters collect.
  returned: success
  type: list
  elements: str
  sample: [DCGM_FI_DEV_GPU_TEMP, DCGM_FI_DEV_POWER_USAGE]
metrics:
  description: Names of the fields that become metrics, which are all but labels.
  returned: success
  type: list
  elements: str
  sample: [DCGM_FI_DEV_GPU_TEMP, DCGM_FI_DEV_POWER_USAGE]
alerts:
  description: Names of the alerts that are switched on, and that the installed operator has the metrics for.
  returned: success
  type: list
  elements: str
  sample: [GpuXidReboot, GpuLost]
rules:
  description: The recordings and alerts as the text of a rule file of Prometheus, or an empty string without alerts.
  returned: success
  type: str
  sample: "groups: []"
scrape_config:
  description:
    - The scrape configuration for a Prometheus that runs in the cluster without its operator, as the text of a file, or
      an empty string with V(absent).
  returned: success
  type: str
  sample: "scrape_configs: []"
alertmanager_config:
  description:
    - What to add to the configuration of an Alertmanager, as the text of a file, or an empty string without alerts. It
      has a route below C(route.routes), which uses the receiver of the route above it, and C(inhibit_rules), so that
      one cause is one message.
  returned: success
  type: str
  sample: "inhibit_rules: []"
objects:
  description: Kinds and names of the objects that the cluster has for it.
  returned: success
  type: list
  elements: str
  sample: [ConfigMap gpu-operator/gpuops-dcgm-fields-3f2a91bc, PrometheusRule gpu-operator/gpuops-gpu-rules]
removed:
  description: Kinds and names of the objects that were removed.
  returned: success
  type: list
  elements: str
  sample: [ConfigMap gpu-operator/gpuops-dcgm-fields-0a1b2c3d]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitor import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

_FIELD = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "type": {"type": "str", "choices": ["gauge", "counter", "label"], "required": True},
        "help": {"type": "str", "required": True},
    }
)
_THRESHOLDS = ArgumentSpec(
    {
        "temperature_margin": {"type": "int"},
        "idle_after": {"type": "str"},
        "waiting_after": {"type": "str"},
        "upgrade_stuck_after": {"type": "str"},
        "not_ready_after": {"type": "str"},
        "grace": {"type": "str"},
    }
)
_PRESETS = ["default", "health", "profiling"]
SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "policy_name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
        "presets": {"type": "list", "elements": "str", "choices": _PRESETS, "default": ["default", "health"]},
        "fields": {**_FIELD.as_list(), "default": []},
        "alerts": {"type": "bool", "default": True},
        "alerts_off": {"type": "list", "elements": "str", "default": []},
        "alert_labels": {"type": "dict", "default": {}},
        "thresholds": _THRESHOLDS.as_dict(),
        "dashboards": {"type": "dict", "default": {}},
        "scrape": {"type": "bool", "default": True},
        "interval": {"type": "str", "default": "30s"},
        "prometheus": {"type": "str", "default": ""},
        "labels": {"type": "dict", "default": {}},
        "job_directory": {"type": "str", "default": ""},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 600},
    },
).including(CONNECTION, PROGRESS)


def main() -> t.NoReturn:
    run(SPEC, lambda module: ensure(Cluster(module.params, module.check_mode), module.params, module.warn))


if __name__ == "__main__":
    main()
