# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of a node. The calls themselves are in the module's test."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.republish import NodeSlices

from tests.unit.fakes.stack import workload

PLUGIN, WATCHER = workload("plugin", gpus=0), workload("exporter", gpus=0)


@pytest.mark.parametrize(
    ("differs", "watchers", "restarts"),
    [
        ("lacks 1 x gpu", [WATCHER], ["default/plugin", "default/exporter"]),
        ("lacks 1 x gpu", [], ["default/plugin"]),
        ("", [WATCHER], ["default/exporter"]),
        ("", [], []),
    ],
)
def test_only_what_is_out_of_date_starts_again(differs: str, watchers: list[t.Any], restarts: list[str]) -> None:
    node = NodeSlices("gpu-0000", [("GPU-0", "")], {}, differs, [], [PLUGIN], watchers)
    assert node.restarts == restarts
    assert node.row() == {
        "node": "gpu-0000",
        "changed": bool(restarts),
        "before": {},
        "after": {"gpu": 1},
        "differs": differs,
        "restarts": restarts,
        "users": [],
    }
