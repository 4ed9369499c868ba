# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of descriptions and of objects name the containers that lacked memory."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import fragments
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import explain
from inline_snapshot import snapshot as wording

DESCRIBED = """\
    Image:         nvcr.io/nvidia/k8s/dcgm-exporter:3.3.8-3.6.0-ubuntu22.04
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Restart Count:  15
    Limits:
      memory:          358Mi
"""
"""https://github.com/open-edge-platform/geti_v2/issues/340"""
YAML = """\
    image: nvcr.io/nvidia/gpu-operator:v26.3.1
    lastState:
      terminated:
        exitCode: 137
        reason: OOMKilled
    name: gpu-operator
"""


def killed(text: str) -> list[str]:
    containers = fragments.Containers()
    for line in text.splitlines():
        containers.look(line)
    return list(containers.killed())


def test_the_image_before_the_reason_is_that_of_the_container() -> None:
    assert killed(DESCRIBED) == [
        wording(
            "OOMKilled: container of the image nvcr.io/nvidia/k8s/dcgm-exporter:3.3.8-3.6.0-ubuntu22.04, memory limit 358Mi"
        )
    ]
    assert killed("    Image:  first\n" + DESCRIBED + "    Image:  last\n    Limits:\n      memory: 1Gi\n") == [
        wording(
            "OOMKilled: container of the image nvcr.io/nvidia/k8s/dcgm-exporter:3.3.8-3.6.0-ubuntu22.04, memory limit 358Mi"
        )
    ]
    assert killed(YAML) == [
        wording("OOMKilled: container of the image nvcr.io/nvidia/gpu-operator:v26.3.1, memory limit unknown")
    ]


@pytest.mark.parametrize(
    "text",
    [
        DESCRIBED.replace("OOMKilled", "Error"),
        DESCRIBED.partition("\n")[2],
        "Image: a\n" + "x\n" * 80 + "Reason: OOMKilled\n",
        "Image: a\nthe Reason: OOMKilled was seen\n",
    ],
)
def test_other_texts_name_nobody(text: str) -> None:
    assert killed(text) == []


@pytest.mark.parametrize(("text", "code"), [(DESCRIBED, "ExporterOutOfMemory"), (YAML, "OperatorOutOfMemory")])
def test_explain_names_the_container_of_a_pasted_part(text: str, code: str) -> None:
    result = explain({"text": text, "path": "", "limit_mib": 1})
    assert [each["code"] for each in result["findings"]] == [code], result["text"]


def test_explain_names_the_pod_of_a_pasted_table() -> None:
    table = (
        "NAME                              READY   STATUS      RESTARTS      AGE\n"
        "gpu-operator-84d9f557c8-lqp5z     0/1     OOMKilled   5 (20s ago)   9m\n"
        "train-7w6fz                       0/1     OOMKilled   5 (20s ago)   9m\n"
    )
    result = explain({"text": table, "path": "", "limit_mib": 1})
    assert [each["code"] for each in result["findings"]] == ["OperatorOutOfMemory"], result["text"]


def test_a_text_that_yaml_folds_is_one_line() -> None:
    # https://github.com/NVIDIA/gpu-operator/issues/156
    text = (
        "    message: >-\n      0/3 nodes are available: 3\n      Insufficient nvidia.com/gpu.\n    reason: x\n"
        "  other: >\n  not folded\n"
    )
    (finding,) = explain({"text": text, "path": "", "limit_mib": 1})["findings"]
    assert finding["code"] == "PodWaitsForGPU"
