#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operator_snapshot
short_description: >-
  Plumbing of the role operator_upgrade: keep in a file how the GPU Operator is set up, and put it back
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Takes a snapshot before a change of the operator. It contains the versions and values of the Helm release, the
    ClusterPolicy, NVIDIADrivers and GPUClusters, the CRDs of the stack, and the labels and annotations of the nodes
    that belong to it.
  - The file is on the machine that runs the module. Only its user can read it, because Helm values may contain secrets.
  - A snapshot belongs to one cluster and one release. It is open until it is closed. When an interrupted upgrade starts
    again, the module keeps an open snapshot, so that it still says what the cluster was like before the first try.
  - Restoring a snapshot changes only what differs from it. The role P(gpuops.nvidia.operator_upgrade#role) installs the
    chart, with the values of the snapshot. New objects stay.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Lists what is put back, not whole objects.
  idempotent:
    description: A second run with the same options reports no change.
    support: partial
    details: Each call takes a new snapshot, unless an upgrade is unfinished.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  state:
    description:
      - V(taken) takes a snapshot, unless one is open for the same O(target), or one is open and Helm has installed
        another revision since. The former snapshot stays in the folder, with C(.previous) at the end of its name.
      - V(closed) notes how the upgrade ended.
      - V(read) returns the snapshot with the values of the release, or null without a snapshot.
      - V(restored) puts back what differs from it.
    type: str
    choices: [taken, closed, read, restored]
    default: taken
  folder:
    description: Folder of the snapshots. It is created for this user alone.
    type: path
    required: true
  target:
    description: Release that the upgrade leads to. It tells one upgrade from the next.
    type: str
    default: ""
  outcome:
    description: How the upgrade ended, with O(state=closed).
    type: str
    choices: [upgraded, restored]
    default: upgraded
  release_name:
    description: Name of the Helm release.
    type: str
    default: gpu-operator
  release_namespace:
    description: Namespace of the Helm release.
    type: str
    default: gpu-operator
requirements:
  - PyYAML
seealso:
  - module: gpuops.nvidia.operator_upgrade_info
  - module: gpuops.nvidia.operator_release
"""

EXAMPLES = r"""
- name: Take a snapshot before the upgrade
  gpuops.nvidia.operator_snapshot:
    folder: ~/snapshots
    target: v26.7.0

- name: See what would be put back
  gpuops.nvidia.operator_snapshot:
    state: restored
    folder: ~/snapshots
  check_mode: true
  diff: true
"""

RETURN = r"""
path:
  description: Path of the snapshot.
  returned: success
  type: str
  sample: /home/user/snapshots/gpu-operator.gpu-operator.1b4e28ba.json
kept:
  description: Whether an open snapshot was kept, because its upgrade is unfinished.
  returned: with O(state=taken)
  type: bool
  sample: false
snapshot:
  description: What is in the snapshot, apart from secrets.
  returned: success
  type: dict
  sample:
    taken: "2026-11-23T06:30:00Z"
    target: v26.7.0
    closed: ""
    revision: 3
    chart_version: v26.3.3
    app_version: v26.3.3
    objects: [ClusterPolicy cluster-policy]
    crds: [clusterpolicies.nvidia.com, nvidiadrivers.nvidia.com]
    nodes: 4
helm_values:
  description: Values that install the release again, secrets included. Use C(no_log) for the task.
  returned: with O(state=read)
  type: dict
  sample: {driver: {version: 580.126.20}}
restored:
  description: What was put back, each with the object and its part.
  returned: with O(state=restored)
  type: list
  elements: str
  sample: ["ClusterPolicy cluster-policy: set back spec.driver.version"]
by_chart:
  description: Those of RV(restored) that the chart of the snapshot puts back, too, if it is installed before.
  returned: with O(state=restored)
  type: list
  elements: str
  sample: ["ClusterPolicy cluster-policy: set back spec.driver.version"]
left:
  description: What still differs from the snapshot, each with the object and the reason.
  returned: with O(state=restored)
  type: list
  elements: str
  sample: ["CRD gpuclusters.nvidia.com: it is new, and no CRD is ever deleted"]
"""

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.keeping import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["taken", "closed", "read", "restored"], "default": "taken"},
        "folder": {"type": "path", "required": True},
        "target": {"type": "str", "default": ""},
        "outcome": {"type": "str", "choices": ["upgraded", "restored"], "default": "upgraded"},
        "release_name": {"type": "str", "default": "gpu-operator"},
        "release_namespace": {"type": "str", "default": "gpu-operator"},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: keep(Cluster(module.params, module.check_mode), module.params),
        libraries={"PyYAML": HAS_YAML},
        passed_on=("helm_values",),
    )


if __name__ == "__main__":
    main()
