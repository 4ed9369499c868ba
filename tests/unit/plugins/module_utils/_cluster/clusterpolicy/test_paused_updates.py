# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import paused_updates
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import TOOLKIT_ROLLOUT_MARK

from tests.unit.fakes.stack import Json, policy


def manifest(**daemonsets: str) -> Json:
    return {"metadata": {"name": "cluster-policy"}, "spec": {"daemonsets": dict(daemonsets), "toolkit": {}}}


@pytest.mark.parametrize("before", [{}, {"updateStrategy": "RollingUpdate"}, {"priorityClassName": "high"}])
def test_a_pause_says_what_was_before_and_is_lifted_without_a_trace(before: dict[str, str]) -> None:
    plain = manifest(**before)
    given = copy.deepcopy(plain)
    paused = paused_updates.paused(given)
    assert given == plain, "The manifest without the pause is applied at the end."
    assert paused_updates.is_paused(paused) and not paused_updates.is_paused(plain)
    assert paused["metadata"]["annotations"][TOOLKIT_ROLLOUT_MARK] == before.get("updateStrategy", "unset")
    lifted = paused_updates.lifted(paused)
    assert lifted is not None and lifted["spec"] == plain["spec"] and not lifted["metadata"]["annotations"]
    assert paused_updates.is_paused(paused), "What was read stays as it was read."


def test_the_block_may_be_missing() -> None:
    paused = paused_updates.paused({"metadata": {}, "spec": {}})
    assert paused["spec"] == {"daemonsets": {"updateStrategy": "OnDelete"}}


def test_only_our_mark_is_a_pause() -> None:
    """A user may have chosen the same strategy."""
    chosen = policy(daemonsets={"updateStrategy": "OnDelete"})
    assert not paused_updates.is_paused(chosen) and paused_updates.lifted(chosen) is chosen
    assert not paused_updates.is_paused(None) and paused_updates.lifted(None) is None
    marked = policy(daemonsets={"updateStrategy": "RollingUpdate"})
    marked["metadata"]["annotations"] = {TOOLKIT_ROLLOUT_MARK: "unset"}
    assert not paused_updates.is_paused(marked), "Somebody else has ended it."
    lifted = paused_updates.lifted(marked)
    assert lifted is not None and lifted["spec"]["daemonsets"] == {"updateStrategy": "RollingUpdate"}


def test_other_owners_of_the_field() -> None:
    owned = policy()
    fields = {"f:spec": {"f:daemonsets": {"f:updateStrategy": {}}}}
    owned["metadata"]["managedFields"] = [
        {"manager": manager, "operation": "Apply", "fieldsV1": fields} for manager in ("gpuops.nvidia", "argocd")
    ]
    assert paused_updates.other_owners(owned, ["gpuops.nvidia"]) == ["argocd"]
    assert paused_updates.other_owners(policy(), []) == []
