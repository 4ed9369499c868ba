#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: helm_kubeconfig
short_description: >-
  Plumbing of the role operator: write a temporary kubeconfig that leads Helm to the cluster of the modules
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - The modules and Helm find their cluster by different rules. In a pod with a service account and E(KUBECONFIG), they
    act on different clusters. Helm ignores client certificates, impersonation and proxies in C(K8S_AUTH_*).
  - This module resolves the connection as the other modules do, and writes it into a new file for
    Helm. Only the user who runs the module can read the file.
  - The file contains credentials, such as the present token of an exec plugin or of a service account. Delete the file
    after Helm has run, also if it fails.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: Writes the file in check mode too, because Helm needs it to predict.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
    details: This module leaves the cluster as it is.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options: {}
seealso:
  - module: kubernetes.core.helm
"""

EXAMPLES = r"""
- name: Run Helm as the impersonated user
  block:
    - name: Write the connection
      gpuops.nvidia.helm_kubeconfig:
        impersonate_user: deployer
      register: connection

    - name: Install the chart
      ansible.builtin.command:
        argv:
          - helm
          - upgrade
          - --install
          - gpu-operator
          - /srv/charts/gpu-operator.tgz
          - --namespace=gpu-operator
          - "--kubeconfig={{ connection.kubeconfig }}"
      changed_when: true
  always:
    - name: Delete the connection
      ansible.builtin.file:
        path: "{{ connection.kubeconfig }}"
        state: absent
"""

RETURN = r"""
kubeconfig:
  description: Path of the kubeconfig.
  returned: success
  type: str
  sample: /tmp/gpuops-1x2y3z.kubeconfig
context:
  description:
    - Name of its only context. It is the option O(context) or E(K8S_AUTH_CONTEXT) if one of them is set, so that a Helm
      that is asked for that context finds it.
  returned: success
  type: str
  sample: gpuops
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import kubeconfig
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = CONNECTION


def main() -> t.NoReturn:
    run(SPEC, lambda module: kubeconfig.write(Cluster(module.params), module.params["context"]))


if __name__ == "__main__":
    main()
