# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A verdict as the result of a module."""

from __future__ import annotations

from tests.unit.fakes.judged import edited, observed, verdict
from tests.unit.fakes.stack import ready


def test_a_verdict_as_a_result() -> None:
    result = verdict(ready(), policies=[]).as_result()
    assert result["verdict"]["state"] == "progressing" and result["verdict"]["nodes_total"] == 2
    first = result["verdict"]["reasons"][0]
    assert first["code"] == "NoClusterPolicy" and first["node"] is None
    assert result["operands"][0]["operand"] == "driver" and result["operands"][0]["images"] == [
        "nvcr.io/nvidia/driver:1.0"
    ]


def test_the_observed_clusterpolicy_is_part_of_the_result() -> None:
    observation = observed(edited(ready(driver={"version": "595"}), 7))
    assert observation.policy and observation.spec["driver"] == {"version": "595"}
    assert observation.seconds_since_edit == 7
    missing = observed(ready(), policies=None)
    assert (missing.policy, missing.spec, missing.seconds_since_edit) == (None, {}, 0)


def test_a_gpucluster_is_described_as_a_clusterpolicy_without_operands() -> None:
    gpucluster = {
        "metadata": {"name": "gpu-cluster"},
        "spec": {"daemonsets": {"tolerations": [{"operator": "Exists"}]}},
    }
    spec = observed(ready(), policies=[], gpuclusters=[gpucluster]).spec
    assert spec["devicePlugin"] == spec["toolkit"] == {"enabled": False}
    assert spec["driver"] == {"enabled": False, "useNvidiaDriverCRD": False}
    assert spec["daemonsets"] == {"tolerations": [{"operator": "Exists"}]}
