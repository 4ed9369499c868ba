# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images and the failures in the result of clusterpolicy_info."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import policy_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/driver:595-ubuntu24.04", "595-ubuntu24.04"),
        ("localhost:5000/driver@sha256:abc", "sha256:abc"),
        ("localhost:5000/driver", ""),
    ],
)
def test_the_version_in_an_image(image: str, version: str) -> None:
    assert policy_info.version_of(image) == version


def test_a_failed_wait_keeps_its_reasons_and_leaves_out_the_table_of_operands() -> None:
    error = GpuOpsError("too late", reason="TimedOut", verdict={"reasons": []}, operands=[{"operand": "driver"}])
    made = policy_info.for_a_person(error, changed=True)
    assert made.msg == "too late"
    assert made.details == {"reason": "TimedOut", "verdict": {"reasons": []}, "changed": True}
