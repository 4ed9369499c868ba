#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: helm_kubeconfig
short_description: Write a temporary kubeconfig that leads Helm to the cluster of the modules
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - The modules and Helm find their cluster by different rules. In a pod with a service account and E(KUBECONFIG), they
    act on different clusters. Helm does not know client certificates, impersonation and proxies in C(K8S_AUTH_*).
  - This module resolves the connection as the other modules do, and writes it into a new file for
    M(kubernetes.core.helm). Only the user who runs the module can read the file.
  - The file holds credentials. A token of an exec plugin or of a service account is in it as it is now. Delete the file
    after Helm has run, also if it fails.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: Writes the file in check mode too, because Helm needs it to predict.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
    details: This module changes nothing in the cluster.
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
      kubernetes.core.helm:
        release_name: gpu-operator
        release_namespace: gpu-operator
        chart_ref: /srv/charts/gpu-operator.tgz
        kubeconfig: "{{ connection.kubeconfig }}"
        context: "{{ connection.context }}"
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
server:
  description: URL of the API server.
  returned: success
  type: str
  sample: https://10.0.0.10:6443
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, argument_spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import kubeconfig
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

OPTIONS: dict[str, t.Any] = {}


def main() -> t.NoReturn:
    module = Module(argument_spec=argument_spec(**OPTIONS), supports_check_mode=True)
    try:
        result = kubeconfig.write(Cluster(module.params), module.params["context"])
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
