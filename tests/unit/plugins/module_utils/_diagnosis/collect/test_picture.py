# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the fleet's page gets. The module's own tests run it against an API."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import diagnose, picture
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.engine import Diagnosis
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap


def test_hosts_without_a_cluster_make_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu: dict[str, t.Any] = {"vbios": "a", "inforom": "b", "gsp": "c", "mig": {"mode": False}, "uuid": "GPU-1"}
    hosts = {"b": {"facts": {"gpus": [gpu]}}, "a": {"state": {}}}
    gaps = [Gap("the cluster", "It does not answer.")]
    evidence = Evidence(taken="2026-11-23T12:00:00Z", hosts=hosts, gaps=gaps)
    monkeypatch.setattr(diagnose, "examine", lambda options: (evidence, Diagnosis([], gaps)))
    found = picture.picture({name: option.get("default") for name, option in picture.SPEC.options.items()})
    assert found.pop("took_s") >= 0
    assert found == {
        "taken": "2026-11-23T12:00:00Z",
        "stack": None,
        "pods": [],
        "usage": None,
        "findings": [],
        "gaps": [{"what": "the cluster", "why": "It does not answer."}],
        "hosts": {"a": {"gpus": []}, "b": {"gpus": [{k: gpu[k] for k in ("vbios", "inforom", "gsp", "mig")}]}},
    }
