#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_container
short_description: Declare the drivers that NVIDIA's GPU Operator installs, and roll them out
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Writes a driver's settings to the ClusterPolicy or, for pools of nodes with different systems or drivers, to
    NVIDIADriver objects. All other settings of these objects stay as they are.
  - Checks before it writes. It works out the exact image of each operating system and kernel, and asks its registry
    whether it exists. It compares the driver with the GPUs, the kernel modules and the kernels of the nodes, and names
    what will block the change, such as pods that cannot be evicted, nodes that are out of service, and missing
    operands. O(skip) leaves checks out.
  - Moves drivers from the ClusterPolicy to NVIDIADrivers, with all of their settings, and back. Driver pods stay until
    their node is upgraded.
  - Then upgrades the nodes, canaries and waves first, and proves the new driver on each of them. All state is kept on
    the nodes, so the next run continues one that was killed.
  - A change that interrupts GPU pods needs O(allow_disruption=true). In check mode, the result says which nodes replace
    or restart their driver, and which GPU pods would be evicted.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details:
      - The prediction comes from the API server (a dry run). Registries are asked as in a run.
      - A finding that would stop a run, or a missing permission, fails, unless O(check_refusal=warn).
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details:
      - Shows the specs of the objects and the fields that this module owns. Secrets are hidden.
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.check_refusal
  - gpuops.nvidia.driver_rollout
  - gpuops.nvidia.progress
  - gpuops.nvidia.registry
options:
  state:
    description:
      - V(present) declares the drivers and rolls them out. If the declaration is unchanged, it continues a rollout that
        was interrupted or paused.
      - V(paused) stops starting nodes. An active call ends after the nodes that have started.
      - V(recovered) names the cause of each failed upgrade, cleans up what upgrades have left behind (paused operands,
        cordons, notes about cordons), and tries failed nodes again once their cause is gone. The declaration stays as
        it is.
    type: str
    choices: [present, paused, recovered]
    default: present
  resource:
    description:
      - The kind of object that has the driver's settings. The default is V(NVIDIADriver) with O(pools), and otherwise
        the kind that has them now.
      - Another kind moves the drivers, which needs an operator from v26.7 on.
    type: str
    choices: [ClusterPolicy, NVIDIADriver]
  version:
    description:
      - Version of the driver (V(595.91.07)), or the digest of its image (V(sha256:...)).
      - Precompiled drivers have O(branch) instead.
    type: str
  branch:
    description: Branch of a precompiled driver, for example V(595). Only with O(use_precompiled=true).
    type: str
  repository: &repository
    description: Registry and path of the image.
    type: str
  image: &image
    description: Name of the image.
    type: str
  image_pull_policy: &image_pull_policy
    description: When nodes pull the image.
    type: str
    choices: [Always, IfNotPresent, Never]
  image_pull_secrets: &image_pull_secrets
    description: Names of the Secrets to pull the image with, in the operator's namespace.
    type: list
    elements: str
  kernel_module_type: &kernel_module_type
    description: Type of the kernel modules, V(open) or V(proprietary). V(auto) chooses by GPU generation.
    type: str
  use_precompiled: &use_precompiled
    description: Use images with precompiled modules for each kernel.
    type: bool
  rdma: &rdma
    description: GPUDirect RDMA.
    type: dict
    suboptions:
      enabled:
        description: Whether the driver loads C(nvidia-peermem).
        type: bool
      use_host_mofed:
        description: Whether the network's driver is installed on the hosts.
        type: bool
  gds: &gds
    description: GPUDirect Storage.
    type: dict
    suboptions: &modules
      enabled:
        description: Whether it is installed.
        type: bool
      repository:
        description: Registry and path of the image.
        type: str
      image:
        description: Name of the image.
        type: str
      version:
        description: Tag of the image without the operating system, or its digest.
        type: str
  gdrcopy: &gdrcopy
    description: GDRCopy.
    type: dict
    suboptions: *modules
  licensing: &licensing
    description: Licence of a vGPU driver.
    type: dict
    suboptions:
      secret_name:
        description: Name of the Secret with C(gridd.conf) and the client configuration token.
        type: str
      config_map:
        description: Name of a ConfigMap with them. A Secret is the better place.
        type: str
      nls_enabled:
        description: Whether the licence comes from the NVIDIA License System.
        type: bool
  repo_config: &repo_config
    description: Name of the ConfigMap with package repositories for the build of the driver.
    type: str
  cert_config: &cert_config
    description: Name of the ConfigMap with certificates of these repositories.
    type: str
  kernel_module_config: &kernel_module_config
    description: Name of the ConfigMap with parameters of the kernel modules.
    type: str
  virtual_topology: &virtual_topology
    description: Name of the ConfigMap with the topology daemon's settings for vGPU.
    type: str
  secret_env: &secret_env
    description: Name of the Secret whose keys become environment variables of the driver.
    type: str
  env: &env
    description: Environment variables of the driver, each with C(name) and C(value).
    type: list
    elements: dict
  args: &args
    description: Arguments of the driver's container.
    type: list
    elements: str
  manager: &manager
    description: Image of the driver manager, which unloads the old driver.
    type: dict
    suboptions:
      repository:
        description: Registry and path of the image.
        type: str
      image:
        description: Name of the image.
        type: str
      version:
        description: Tag or digest of the image.
        type: str
  upgrade_policy: &upgrade_policy
    description:
      - How the operator replaces driver pods. It applies together with the pace that this module sets.
      - With O(upgrade_policy.auto_upgrade=true) in a ClusterPolicy, also set O(upgrade_policy.wait_for_completion),
        O(upgrade_policy.pod_deletion) and O(upgrade_policy.drain). Without them, an upgrade stops with a node cordoned.
    type: dict
    suboptions:
      auto_upgrade:
        description: Let the operator upgrade nodes. Otherwise, this module drains nodes and replaces their driver pods.
        type: bool
      max_parallel_upgrades:
        description: How many nodes the operator upgrades at a time. V(0) means no limit.
        type: int
      max_unavailable:
        description: Number or percentage of nodes that may be unavailable at a time, for example V(25%).
        type: str
      wait_for_completion:
        description: Which pods to wait for, in the API's spelling (C(podSelector), C(timeoutSeconds)).
        type: dict
      pod_deletion:
        description: How GPU pods are evicted, in the API's spelling (C(force), C(timeoutSeconds), C(deleteEmptyDir)).
        type: dict
      drain:
        description: >-
          The drain that follows if evictions fail, in the API's spelling (C(enable), C(force), C(podSelector),
          C(timeoutSeconds)).
        type: dict
  spec: &spec
    description:
      - Other fields in the API's spelling. They are those of C(spec.driver) of a ClusterPolicy, or those of C(spec) of
        an NVIDIADriver.
    type: dict
  pools:
    description:
      - Pools of nodes, each with an NVIDIADriver of its own. The options above are the defaults of each pool's
        settings.
      - Each GPU node must belong to exactly one pool. The operator stops all NVIDIADrivers as soon as two of them
        select the same node, or two are the default.
      - Other NVIDIADrivers stay as they are, unless O(purge=true).
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the NVIDIADriver.
        type: str
        required: true
      default:
        description: Whether the pool has the nodes that are left over by the others. It must then leave out
          O(pools[].node_selector).
        type: bool
      node_selector:
        description: Labels of the pool's nodes. Without them, a pool that is not the default has all GPU nodes.
        type: dict
      version:
        description: As in O(version).
        type: str
      branch:
        description: As in O(branch).
        type: str
      repository: *repository
      image: *image
      image_pull_policy: *image_pull_policy
      image_pull_secrets: *image_pull_secrets
      kernel_module_type: *kernel_module_type
      use_precompiled: *use_precompiled
      rdma: *rdma
      gds: *gds
      gdrcopy: *gdrcopy
      licensing: *licensing
      repo_config: *repo_config
      cert_config: *cert_config
      kernel_module_config: *kernel_module_config
      virtual_topology: *virtual_topology
      secret_env: *secret_env
      env: *env
      args: *args
      manager: *manager
      upgrade_policy: *upgrade_policy
      spec: *spec
  purge:
    description:
      - Delete the NVIDIADrivers that O(pools) does not name. Their driver pods are removed at once, and the nodes get
        those of their new pool.
    type: bool
    default: false
  skip:
    description: Checks to leave out.
    type: list
    elements: str
    choices:
      - image
      - version
      - pools
      - move
      - gpus
      - operating_system
      - kernel
      - settings
      - upgrade_policy
      - gpu_pods
      - nodes
      - limits
      - operands
      - validators
    default: []
  force_conflicts:
    description:
      - Take over fields that another manager, such as Helm or kubectl, has set to another value. Fields that the role
        P(gpuops.nvidia.operator#role) has set are always taken over.
    type: bool
    default: false
  allow_disruption:
    description:
      - Allow a change that interrupts running GPU pods. Only changes on nodes with GPU pods need it.
      - Nodes that an earlier call has left without their driver need it, too, until their upgrade has begun.
    type: bool
    default: false
  policy_name:
    description: Name of the ClusterPolicy. Without it, the only one.
    type: str
    default: ""
  namespace:
    description: Namespace of the operator. Without it, the one that the ClusterPolicy names.
    type: str
    default: ""
notes:
  - The fields have a field manager of their own (V(gpuops.nvidia-driver)), so that M(gpuops.nvidia.clusterpolicy) and
    the role P(gpuops.nvidia.operator#role) leave them as they are, whatever value they have for them.
  - Registries are asked from the machine that runs the module. Credentials are sent only to the registry and the token
    service that it names. Results leave them out.
seealso:
  - module: gpuops.nvidia.clusterpolicy
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Upgrade the driver of all nodes
  gpuops.nvidia.driver_container:
    version: 595.91.07
    allow_disruption: true

- name: Show which nodes would replace their driver, and which GPU pods would be evicted
  gpuops.nvidia.driver_container:
    version: 595.91.07
  check_mode: true
  register: plan

- name: Give two operating systems their own pools, and move the drivers there from the ClusterPolicy
  gpuops.nvidia.driver_container:
    version: 595.91.07
    pools:
      - name: default
        default: true
      - name: rhel
        node_selector:
          feature.node.kubernetes.io/system-os_release.ID: rhel
        kernel_module_type: open
    allow_disruption: true

- name: Use precompiled drivers of a private registry whose pull secret is in the cluster
  gpuops.nvidia.driver_container:
    use_precompiled: true
    branch: "595"
    repository: registry.example.com/nvidia
    image: driver
    image_pull_secrets: [registry-example]
    registry:
      ca_path: /etc/pki/example.pem
    allow_disruption: true

- name: Upgrade a canary, then a tenth of the nodes, then the others, at night and five at a time
  gpuops.nvidia.driver_container:
    version: 595.91.07
    canary: 1
    waves: [10%, 100%]
    soak: 600
    max_unavailable: "5"
    windows: ["22:00-04:00"]
    time_zone: Europe/Berlin
    allow_disruption: true

- name: Put in order what upgrades have left behind, and try failed nodes again
  gpuops.nvidia.driver_container:
    state: recovered

- name: Move the drivers back to the ClusterPolicy
  gpuops.nvidia.driver_container:
    resource: ClusterPolicy
    allow_disruption: true
"""

RETURN = r"""
resource:
  description: The kind of object that has the driver's settings now.
  returned: with O(state=present)
  type: str
  sample: ClusterPolicy
move:
  description: Where the drivers move, C(to NVIDIADriver) or C(to ClusterPolicy), or an empty string.
  returned: with O(state=present)
  type: str
  sample: ""
objects:
  description:
    - The objects of the declaration, and what was done with each (C(create), C(change), C(delete), C(nothing)).
    - C(taken_from) has the fields that were taken over, each with the manager that had it.
  returned: with O(state=present)
  type: list
  elements: dict
  sample:
    - kind: ClusterPolicy
      name: cluster-policy
      action: change
      taken_from: ["spec.driver.version (gpuops.nvidia)"]
pools:
  description:
    - The pools of nodes that need the same image. A precompiled driver has a pool for each kernel.
    - C(images) are the images that were asked for, at the registry or its mirror, and C(exists), C(missing),
      C(refused), C(unreachable) or C(unasked). It is empty if the declaration was unchanged.
  returned: with O(state=present), unless the rollout fails
  type: list
  elements: dict
  sample:
    - source: ClusterPolicy cluster-policy
      system: ubuntu24.04
      kernel: ""
      nodes: 2
      examples: [gpu-0000, gpu-0001]
      image: nvcr.io/nvidia/driver:595.91.07-ubuntu24.04
      images:
        - image: nvcr.io/nvidia/driver:595.91.07-ubuntu24.04
          asked: nvcr.io/nvidia/driver:595.91.07-ubuntu24.04
          state: exists
findings:
  description: >-
    The findings of all checks, failures first. It is empty if the declaration was unchanged. After a failure, it has
    only failures and warnings.
  returned: with O(state=present)
  type: list
  elements: dict
  sample:
    - check: image
      level: ok
      message: "ClusterPolicy cluster-policy (ubuntu24.04): nvcr.io/nvidia/driver:595.91.07-ubuntu24.04 exists."
      remedy: ""
      nodes: [gpu-0000, gpu-0001]
      count: 2
checks:
  description: Number of findings at each level.
  returned: with O(state=present)
  type: dict
  sample: {failures: 0, warnings: 0, ok: 9}
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
plan:
  description:
    - What the declaration does to each node with a driver container.
    - C(action) is C(replace) (another driver is loaded), C(restart) (only the pod restarts), C(remove) (the node loses
      its driver) or C(nothing). C(pods) are the GPU pods that are evicted.
  returned: with O(state=present), unless the rollout fails
  type: list
  elements: dict
  sample:
    - node: gpu-0000
      action: replace
      why: driver.version changes
      source: ClusterPolicy cluster-policy
      image: nvcr.io/nvidia/driver:595.91.07-ubuntu24.04
      pods: [ml/train-0]
nodes:
  description:
    - The rollout on each node; in check mode, how it would begin. After a failure, the nodes that are not done.
    - C(step) is C(waiting), C(upgrade), C(done), C(failed) or C(left out), C(state) is that
      of the operator's upgrade, and C(waits_for) is what the node waits for, since C(since).
    - C(before) and C(after) are the driver's versions that GPU Feature Discovery reported.
    - C(degraded) is what a node waits for on which nothing is to be changed. Such a node, for example one that has
      just joined, is left out, is no failure, and is told as a warning.
  returned: with O(wait=true) and O(state=present), or with O(state=recovered) outside of check mode
  type: list
  elements: dict
  sample:
    - node: gpu-0000
      step: done
      action: upgrade
      state: upgrade-done
      waits_for: ""
      since: ""
      wave: 1
      daemonset: nvidia-driver-daemonset
      before: 580.126.20
      after: 595.91.07
      evicted: [ml/train-0]
      unschedulable: false
      kept_back: false
      changed: true
      failed: false
      reason: ""
      degraded: ""
      notes: []
      seconds: 312.4
summary:
  description: How many nodes there are, how many were upgraded, failed, wait, and so on.
  returned: with O(wait=true) and O(state=present), or with O(state=recovered) outside of check mode
  type: dict
  sample:
    {nodes: 2, upgraded: 2, current: 0, failed: 0, waiting: 0, upgrading: 0, left_out: 0, cordoned: 0, kept_back: 0}
finished:
  description: Whether every node has its driver. If not, make the same call again later.
  returned: with O(wait=true)
  type: bool
  sample: true
recovered:
  description: What upgrades had left behind on each node, and what was cleaned up.
  returned: with O(state=recovered)
  type: list
  elements: dict
  sample:
    - node: gpu-0001
      problems: ["An upgrade has left nvidia.com/gpu.deploy.device-plugin paused."]
      cause: ""
      repairs: ["nvidia.com/gpu.deploy.device-plugin was set to true"]
paused:
  description: The nodes that are held back from their upgrade.
  returned: with O(state=paused)
  type: list
  elements: str
  sample: [gpu-0002, gpu-0003]
upgrading:
  description: The nodes whose upgrade had already started, and continues.
  returned: with O(state=paused)
  type: list
  elements: str
  sample: [gpu-0001]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import CHECK_REFUSAL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import declare
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DECLARATION,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.rollout_options import (
    SPEC as ROLLOUT,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run

SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "paused", "recovered"], "default": "present"},
    },
).including(CONNECTION, CHECK_REFUSAL, DECLARATION, ROLLOUT)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: declare.declare(Cluster(module.params, module.check_mode), module.params, module.warn),
        secrets=SPEC.options,
        interrupted=GOES_ON,
    )


if __name__ == "__main__":
    main()
