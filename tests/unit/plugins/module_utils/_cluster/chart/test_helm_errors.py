# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Helm says when it fails."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import (
    explain,
)

# Real output of Helm 4.3 and 3.20, without repetitions.
MESSAGES = [
    (
        "Error: execution error at (gpu-operator/templates/validations.yaml:10:3): the NRI Plugin cannot be "
        "enabled when CDI is disabled\n\n"
        "Use --debug flag to render out invalid YAML\n",
        "ValuesRefused",
        "The chart refuses these Helm values: the NRI Plugin cannot be enabled when CDI is disabled. Correct them "
        "in the values.",
    ),
    (
        "Error: values don't meet the specifications of the schema(s) in the following chart(s):\n"
        "node-feature-discovery:\n"
        "- at '/worker/tolerations': got string, want array\n",
        "ValuesRefused",
        "The chart refuses these Helm values: node-feature-discovery: at '/worker/tolerations': got string, want "
        "array. Correct them in the values.",
    ),
    (
        'Error: gpu-operator/templates/operator.yaml:61:21\n  executing "gpu-operator/templates/operator.yaml" at '
        '<include "driver-manager.fullimage" .>:\n'
        '    error calling include:\nx/_helpers.tpl:79:11\n  executing "driver-manager.fullimage" at '
        "<.Values.driver.manager.repository>:\n"
        "    can't evaluate field manager in type interface {}\n\nUse --debug flag to render out invalid YAML\n",
        "ValuesRefused",
        "driver.manager.repository has the wrong type (can't evaluate field manager in type interface {})",
    ),
    (
        'Error: gpu-operator/templates/clusterpolicy.yaml:238:25\n  executing "x" at '
        "<.Values.driver.upgradePolicy.gpuPodDeletion.force>:\n"
        "    nil pointer evaluating interface {}.force\n",
        "ValuesRefused",
        "driver.upgradePolicy.gpuPodDeletion.force is in a block that is null",
    ),
    (
        "Error: unknown flag: --plain-http\n",
        "HelmTooOld",
        "This helm cannot fetch CHART without TLS. Install Helm 3.13 or newer, or set binary_path.",
    ),
    (
        "Error: unknown flag: --take-ownership\n",
        "HelmTooOld",
        "This helm is too old (unknown flag: --take-ownership). Install Helm",
    ),
    (
        "Error: chart requires kubeVersion: >= 1.16.0-0 which is incompatible with Kubernetes v1.10.0\n",
        "KubernetesVersion",
        "The chart does not fit the Kubernetes version",
    ),
    (
        "Error: invalid kube version 'abc': could not parse \"abc\" as version\n",
        "KubernetesVersion",
        "Check kube_version",
    ),
    (
        "Error: failed to fetch https://helm.ngc.nvidia.com/x/charts/y.tgz : 401 Unauthorized\n",
        "Unauthorized",
        "The registry refuses access to CHART: failed to fetch https://helm.ngc.nvidia.com/x/charts/y.tgz : 401 "
        "Unauthorized. Check registry_username",
    ),
    (
        'Error: looks like "http://127.0.0.1:1/x" is not a valid chart repository or cannot be reached: Get '
        '"http://127.0.0.1:1/x/index.yaml": '
        "dial tcp 127.0.0.1:1: connect: connection refused\n",
        "Unreachable",
        "Cannot reach the source of the chart CHART",
    ),
    (
        "Error: repo foo not found\n",
        "ChartNotFound",
        "There is no usable chart CHART: repo foo not found. Check chart_ref",
    ),
    (
        "Error: file '/etc/passwd' does not appear to be a gzipped archive; got 'text/plain'\n",
        "ChartNotFound",
        "does not appear to be",
    ),
    (
        "Error: failed to fetch http://127.0.0.1:18999/none.tgz : 404 File not found\n",
        "ChartNotFound",
        "There is no usable chart",
    ),
    ("Error: something new\n", "HelmFailed", "Helm failed on CHART: something new."),
    ("", "HelmFailed", "Helm failed on CHART"),
]


@pytest.mark.parametrize(
    ("stderr", "reason", "sentence"), MESSAGES, ids=[f"{number}-{case[1]}" for number, case in enumerate(MESSAGES)]
)
def test_a_helm_error_becomes_one_sentence(stderr: str, reason: str, sentence: str) -> None:
    error = explain(stderr, "CHART")
    assert error.reason == reason
    assert sentence in error.msg
    assert "\n" not in error.msg and "--debug" not in error.msg
