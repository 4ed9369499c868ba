# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.node_is_back import FilterModule

back = FilterModule().filters()["node_is_back"]


def node(ready: str, boot_id: str = "new") -> dict[str, t.Any]:
    return {
        "status": {
            "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": ready}],
            "nodeInfo": {"bootID": boot_id},
        }
    }


@pytest.mark.parametrize(
    ("nodes", "before", "expected"),
    [
        ([], {}, True),
        ([node("True")], None, True),
        ([node("Unknown")], {}, False),
        ([{}], {}, False),
        ([node("True", "old")], {"boot_id": "old", "node_boot_id": "old"}, False),
        ([node("True", "new")], {"boot_id": "old", "node_boot_id": "old"}, True),
        ([node("True", "simulated")], {"boot_id": "old", "node_boot_id": "simulated"}, True),
    ],
)
def test_a_node_is_back_once_it_is_ready_after_the_reboot(
    nodes: list[dict[str, t.Any]], before: dict[str, t.Any] | None, expected: bool
) -> None:
    assert back(nodes, before) is expected
