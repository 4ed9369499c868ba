# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller of the ClusterPolicy."""

from __future__ import annotations

from lab.cluster.operator.standin.controllers.policy import oldest


def test_the_oldest_policy_counts() -> None:
    items = [
        {"metadata": {"name": name, "creationTimestamp": moment}}
        for name, moment in (("c", "2"), ("b", "1"), ("a", "1"))
    ]
    found = oldest(items)
    assert found is not None
    assert found["metadata"]["name"] == "a"
