#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: clusterpolicy
short_description: Set the ClusterPolicy of NVIDIA's GPU Operator and wait until the GPUs can be used
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Writes the ClusterPolicy with server-side apply and strict field validation, so that a misspelled field is an error
    instead of a setting without effect. It changes only the given fields. All others stay as they are, whoever has set
    them, unless O(purge=true).
  - Recognises a change that interrupts GPU workloads, because it makes the operator replace the driver, evict pods or
    restart container runtimes. Such a change needs O(allow_disruption=true) if GPU pods run on the nodes concerned.
  - Refuses settings that the API server accepts but the operator ignores or fails on, and names the right field.
  - Rolls out new settings of the container toolkit node by node, each proved by a new pod of the operator's validator
    before the next node begins (O(toolkit_rollout)). The operator alone restarts the container runtime of one node
    after the other without a proof, so that a wrong setting keeps all new GPU pods of a fleet from starting.
  - Waits for more than the status field. The stack is ready when every operand runs its newest revision on every node
    that should have it, and when the GPUs are allocatable. If waiting cannot help, the module fails at once
    and names the operand, pod and node that cause the problem.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details:
      - The prediction comes from the API server (a dry run). Before the CRD is installed, it is the given spec.
      - A change that interrupts GPU workloads without permission fails, unless O(check_refusal=warn). With permission
        it is a warning. RV(disruption) names it.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details:
      - Shows the spec, the labels, the annotations and the fields that this collection owns, without the status.
      - Secrets in environment variables and credentials in URLs are hidden.
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.check_refusal
  - gpuops.nvidia.gpu_stack_object
  - gpuops.nvidia.progress
  - gpuops.nvidia.tolerance
options:
  name:
    description: Name of the ClusterPolicy. The operator acts on only one ClusterPolicy in a cluster.
    type: str
    default: cluster-policy
  state:
    description:
      - V(absent) deletes the ClusterPolicy. Kubernetes then removes every operand that it owns, the drivers included.
    type: str
    choices: [present, absent]
    default: present
  driver:
    description: The driver container. If the driver is pre-installed on the nodes, set O(driver.enabled=false).
    type: dict
    suboptions:
      enabled:
        description: Whether the operator installs the driver.
        type: bool
      repository:
        description: Registry and path of the image.
        type: str
      image:
        description: Name of the image.
        type: str
      version:
        description: Driver version, or the branch alone (for example V(595)) with O(driver.use_precompiled=true).
        type: str
      kernel_module_type:
        description:
          - Flavour of the kernel modules, V(open) or V(proprietary). V(auto) chooses by GPU generation.
          - For precompiled drivers, see O(driver.use_precompiled).
        type: str
      use_precompiled:
        description: Use driver images with precompiled modules for each kernel.
        type: bool
      use_nvidia_driver_crd:
        description:
          - Leave the driver to NVIDIADriver objects.
          - Clusters with several operating systems or driver versions need this.
        type: bool
      upgrade_policy:
        description:
          - How the operator replaces driver pods.
          - With O(driver.upgrade_policy.auto_upgrade=true), also set O(driver.upgrade_policy.wait_for_completion),
            O(driver.upgrade_policy.pod_deletion) and O(driver.upgrade_policy.drain). Without them, an upgrade stops and
            leaves a node cordoned.
        type: dict
        suboptions:
          auto_upgrade:
            description: Let the operator upgrade node by node.
            type: bool
          max_parallel_upgrades:
            description: How many nodes are upgraded at a time. V(0) means no limit.
            type: int
          max_unavailable:
            description: Number or percentage of nodes that may be unavailable at a time, for example V(25%).
            type: str
          wait_for_completion:
            description: Which pods to wait for, in the API's spelling (C(podSelector), C(timeoutSeconds)).
            type: dict
          pod_deletion:
            description:
              - How GPU pods are evicted, in the API's spelling (C(force), C(timeoutSeconds), C(deleteEmptyDir)).
            type: dict
          drain:
            description:
              - The drain that follows if evictions fail, in the API's spelling (C(enable), C(force), C(podSelector),
                C(timeoutSeconds)).
            type: dict
  toolkit:
    description: The container toolkit.
    type: dict
    suboptions: &component
      enabled:
        description: Whether the operator deploys it.
        type: bool
      repository:
        description: Registry and path of the image.
        type: str
      image:
        description: Name of the image.
        type: str
      version:
        description: Tag or digest of the image.
        type: str
      env:
        description: Environment variables of its container, each with C(name) and C(value).
        type: list
        elements: dict
  device_plugin:
    description: The device plugin, which makes GPUs allocatable.
    type: dict
    suboptions:
      <<: *component
      config:
        description: ConfigMap with sharing settings. C(name) is the ConfigMap, C(default) one of its keys.
        type: dict
  gfd:
    description: GPU Feature Discovery, which labels nodes with the properties of their GPUs.
    type: dict
    suboptions: *component
  mig_manager:
    description: The MIG manager.
    type: dict
    suboptions: *component
  node_status_exporter:
    description: The exporter of each node's validation results.
    type: dict
    suboptions: *component
  gds:
    description: GPUDirect Storage.
    type: dict
    suboptions: *component
  gdrcopy:
    description: GDRCopy.
    type: dict
    suboptions: *component
  mig:
    description: How MIG devices are exposed to Kubernetes.
    type: dict
    suboptions:
      strategy:
        description: One resource name for all devices (V(single)), one for each profile (V(mixed)), or whole GPUs.
        type: str
        choices: [none, single, mixed]
  cdi:
    description: The Container Device Interface.
    type: dict
    suboptions:
      enabled:
        description: Whether containers get their GPUs through CDI.
        type: bool
      nri_plugin_enabled:
        description:
          - Whether containers get their GPUs through an NRI plugin instead of a runtime class. This needs CDI and the
            toolkit.
        type: bool
  purge:
    description:
      - Reset every field, label and annotation that this collection has set before and that the task leaves out.
      - Use it where one task describes the whole ClusterPolicy. Fields that others have set stay as they are.
      - A field that another manager owns too cannot be reset. A warning names the field and the manager.
    type: bool
    default: false
  adopt:
    description:
      - Take the ClusterPolicy over from Helm. This moves the ownership of Helm's fields to this collection, so that
        fields that a later task leaves out are removed, and deletes Helm's marks on the object.
      - Use it after the Helm release no longer contains the ClusterPolicy (C(clusterPolicy.deployCR=false)). It acts
        only once, and only on Helm's fields.
    type: bool
    default: false
  schema:
    description:
      - Schema of the CRD that will be installed before the run (C(openAPIV3Schema)), for check mode. The prediction
        then follows this schema instead of that of the installed CRD. Without check mode, it has no effect.
      - M(gpuops.nvidia.operator_crds) returns it.
    type: dict
  operator_version:
    description:
      - Version of the operator that will act on the change, if it differs from the running one. An operator older than
        v26.7 evicts GPU pods for changes that a newer one makes in place.
    type: str
  wait_timeout:
    description: How many seconds to wait. Building the driver on a node takes minutes.
    type: int
    default: 1800
  allow_disruption:
    description:
      - Allow a change that interrupts running GPU pods, or the deletion of the ClusterPolicy while pods use GPUs.
      - Only changes on nodes with GPU pods need it. A change that starts the MIG managers again needs it only if one of
        these nodes has the label C(nvidia.com/mig.config) and its layout is not in place, because its manager then
        divides the GPUs without a drain.
    type: bool
    default: false
  toolkit_rollout:
    description:
      - How a change of the container toolkit's settings reaches the nodes. Each node is cordoned, gets the toolkit's
        new pod, is proved by a new pod of the operator's validator, which asks the container runtime for GPUs, and goes
        back to service. Pods that run stay.
      - A node that is not proved stays cordoned, and the other nodes keep the former settings. Correct the settings and
        run the task again. It begins with the nodes that are held.
      - Until the last node is done, the ClusterPolicy has O(daemonsets.update_strategy=OnDelete), and an annotation of
        this collection says so.
      - It needs O(wait=true), and the rights to patch nodes and to delete pods of the operator's namespace. Without
        them, or if another manager owns C(daemonsets.updateStrategy), Kubernetes replaces the pods one after the other,
        and a warning says so.
    type: dict
    default: {}
    suboptions:
      canary:
        description: The nodes that change first, as a number, a percentage, or a list of names.
        type: raw
        default: 0
      waves:
        description: How many nodes belong to each wave after the canaries, as numbers or percentages of all nodes.
        type: list
        elements: str
        default: []
      soak:
        description: For how many seconds the nodes of a wave must be well before the next wave begins.
        type: int
        default: 0
      max_unavailable:
        description: How many nodes may change at a time. A number, or a percentage of the nodes that change.
        type: str
        default: "1"
      max_failed:
        description: How many nodes may fail before the module stops beginning others. A number, or a percentage.
        type: str
        default: "0"
      group_by:
        description: A label of the nodes. Only nodes with the same value change at the same time.
        type: str
      windows:
        description:
          - When nodes may be begun, such as V(22:00-04:00) or V(sat,sun 08:00-18:00). Without windows, at any time.
          - When the last window is closed, the task ends without an error, and C(finished) in RV(toolkit_rollout) is
            false.
        type: list
        elements: str
        default: []
      time_zone:
        description: The time zone of O(toolkit_rollout.windows), such as V(Europe/Berlin).
        type: str
        default: UTC
      timeout:
        description: For how many seconds a node may wait for its new pods, or for other maintainers.
        type: int
        default: 600
      allow_shared:
        description: Also change nodes with another active maintainer, such as a reboot by kured.
        type: bool
        default: false
      lease:
        description: For how many seconds a hold by another machine is respected.
        type: int
        default: 3600
      take_over:
        description: Resume a call of another machine before O(toolkit_rollout.lease) is over.
        type: bool
        default: false
      pause_nvsentinel:
        description: Keep NVSentinel away from the nodes while they are held.
        type: bool
        default: false
  assume_held:
    description:
      - In check mode, judge as if all nodes kept their driver, as M(gpuops.nvidia.driver_hold) ensures in a real run.
      - It only has an effect in check mode. In a real run, the labels of the nodes decide.
    type: bool
    default: false
  assume_removed:
    description:
      - In check mode, judge as if a GPUCluster were removed, as the role P(gpuops.nvidia.stack_move#role) ensures in a
        real run.
    type: bool
    default: false
seealso:
  - module: gpuops.nvidia.clusterpolicy_info
"""

EXAMPLES = r"""
- name: Use the driver and the validator from a private registry, and wait until the GPUs can be used
  gpuops.nvidia.clusterpolicy:
    driver:
      repository: registry.example.com/nvidia
      image: driver
      version: 595.91.07
      upgrade_policy:
        auto_upgrade: true
        max_parallel_upgrades: 2
        wait_for_completion: {}
        pod_deletion: {}
        drain: {}
    mig:
      strategy: mixed
    spec:
      validator:
        repository: registry.example.com/nvidia
        image: gpu-operator
        version: v26.7.0

- name: Set one field, and leave all others as they are
  gpuops.nvidia.clusterpolicy:
    dcgm_exporter:
      env:
        - name: DCGM_EXPORTER_INTERVAL
          value: "15000"

- name: Set the whole ClusterPolicy, and reset what an earlier run has set and this one does not
  gpuops.nvidia.clusterpolicy:
    spec: "{{ chart.clusterpolicy.spec }}"
    purge: true

- name: Reset a field to its default
  gpuops.nvidia.clusterpolicy:
    spec:
      dcgmExporter:
        env: null

- name: Change the driver, although the operator evicts GPU pods for that
  gpuops.nvidia.clusterpolicy:
    driver:
      version: 595.91.07
    allow_disruption: true

- name: Change the toolkit on one node first, and on the others ten minutes later
  gpuops.nvidia.clusterpolicy:
    toolkit:
      env:
        - name: CONTAINERD_CONFIG
          value: /etc/containerd/config.toml
    allow_disruption: true
    toolkit_rollout:
      canary: 1
      soak: 600
      max_unavailable: "10%"

- name: Remove the stack although pods use GPUs
  gpuops.nvidia.clusterpolicy:
    state: absent
    allow_disruption: true
"""

RETURN = r"""
clusterpolicy:
  description:
    - The object as it is now, or as it would be (check mode), without C(managedFields). Empty with O(state=absent).
  returned: success
  type: dict
  sample:
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata:
      name: cluster-policy
    spec:
      driver:
        version: 595.91.07
verdict:
  description: Whether the stack is ready, and the reasons if it is not.
  returned: with O(state=present), not in check mode
  type: dict
  sample:
    state: ready
    message: "The GPU stack is ready: 4 of 4 GPU nodes have allocatable GPUs."
    reasons: []
    nodes_ready: 4
    nodes_total: 4
operands:
  description: Rollout of each operand's DaemonSet, in numbers of nodes.
  returned: with O(state=present), not in check mode
  type: list
  elements: dict
  sample:
    - operand: driver
      daemonset: nvidia-driver-daemonset
      state: ready
      expected: 4
      desired: 4
      updated: 4
      available: 4
      images: ["nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"]
disruption:
  description:
    - What interrupts running GPU pods, with at most 20 of these pods and of their nodes by name.
    - C(pods_total) is null if this user may not list pods.
  returned: with O(state=present)
  type: dict
  sample:
    changes:
      - field: driver.version
        before: 580.126.20
        after: 595.91.07
        effect: the operator evicts GPU pods and replaces the driver, node by node
        operand: driver
    pods: [ml/train-0]
    pods_total: 1
    nodes: [gpu-0000]
    nodes_total: 1
toolkit_rollout:
  description:
    - The fields that change the toolkit, and what happens to each node that runs it. Null if no such field changes.
    - C(state) is C(unchanged), C(pending), C(changing), C(done) or C(failed). C(finished) is false while nodes wait for
      a maintenance window.
  returned: with O(state=present), and with an error about nodes
  type: dict
  sample:
    fields: [toolkit.env]
    finished: true
    nodes:
      - node: gpu-0000
        state: done
        wave: 1
        changed: true
        failed: false
        reason: ""
        waits_for: ""
        unschedulable: false
        notes: []
        seconds: 21.4
conflicts:
  description: The fields that other managers own with other values, each with its manager.
  returned: if O(force=true) would be needed
  type: list
  elements: dict
  sample:
    - field: spec.driver.version
      manager: kubectl-edit
gpu_pods:
  description: Number of running pods that use a GPU. Null if this user may not list pods.
  returned: with O(state=absent), if the ClusterPolicy existed
  type: int
  sample: 0
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import CHECK_REFUSAL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import apply, spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit import toolkit_options
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "name": {"type": "str", "default": "cluster-policy"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "namespace": {"type": "str", "default": "gpu-operator"},
        "spec": {"type": "dict", "default": {}},
        "labels": {"type": "dict", "default": {}},
        "annotations": {"type": "dict", "default": {}},
        "purge": {"type": "bool", "default": False},
        "adopt": {"type": "bool", "default": False},
        "schema": {"type": "dict"},
        "operator_version": {"type": "str"},
        "force": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 1800},
        "allow_disruption": {"type": "bool", "default": False},
        "assume_held": {"type": "bool", "default": False},
        "assume_removed": {"type": "bool", "default": False},
    },
).including(CONNECTION, CHECK_REFUSAL, spec.BLOCK_OPTIONS, PROGRESS, tolerance.SPEC, toolkit_options.TOOLKIT_ROLLOUT)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: apply.ensure(
            Cluster(module.params, module.check_mode),
            module.params,
            module.warn,
            toolkit_options.stage_of(module.params),
        ),
        secrets=SPEC.options,
    )


if __name__ == "__main__":
    main()
