# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.rollout_plan import FilterModule
from inline_snapshot import snapshot as wording

rollout_plan = FilterModule().filters()["rollout_plan"]


def test_the_plan_is_plain_data() -> None:
    former = {"format": 1, "hosts": {"a": {"state": "failed"}}}
    groups = {"a": "x", "b": "x", "c": "x"}
    plan = rollout_plan(["a", "b", "c"], sizes=2, canary=1, groups=groups, former=former, resuming=["c"])
    assert plan == {
        "batches": [
            {"number": 1, "hosts": ["b"], "canary": True, "group": "x"},
            {"number": 2, "hosts": ["c"], "canary": False, "group": "x"},
            {"number": 3, "hosts": ["a"], "canary": False, "group": "x"},
        ],
        "order": ["b", "c", "a"],
        "waves": [3],
    }
    assert rollout_plan([]) == {"batches": [], "order": [], "waves": []}


def test_a_host_without_a_group_is_an_error_of_the_filter() -> None:
    with pytest.raises(AnsibleFilterError) as error:
        rollout_plan(["a", "b"], groups={"a": "x", "b": ""})
    assert str(error.value) == wording(
        "The variable that gpuops_batch_by names has no value for b. Set it for each of them, or for their group."
    )
