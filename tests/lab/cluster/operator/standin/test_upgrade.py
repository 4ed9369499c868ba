# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Driver upgrades: the rules of the state machine."""

from __future__ import annotations

import copy

from lab.cluster.operator.standin import nodes, readiness
from lab.cluster.operator.standin.controllers import upgrade
from tests.lab.cluster.operator.standin.builders import Json, node


def test_slots() -> None:
    idle = [node({nodes.STATE: "upgrade-required"}, name=str(number)) for number in range(8)]
    assert upgrade.slots(idle, {}) == 1
    assert upgrade.slots(idle, {"maxParallelUpgrades": 0, "maxUnavailable": "25%"}) == 2
    assert upgrade.slots(idle, {"maxParallelUpgrades": 4, "maxUnavailable": 3}) == 3


def test_a_failed_node_keeps_its_slot() -> None:
    failed = node({nodes.STATE: "upgrade-failed"}, unschedulable=True)
    waiting = node({nodes.STATE: "upgrade-required"}, name="b")
    assert upgrade.slots([failed, waiting], {"maxParallelUpgrades": 1, "maxUnavailable": "100%"}) == 0


def test_gpu_pods() -> None:
    pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}}]}}
    assert upgrade.uses_gpu(pod)
    assert not upgrade.uses_gpu({"spec": {"containers": [{}]}})


def test_pods_that_may_not_be_evicted() -> None:
    bare: Json = {"metadata": {}, "spec": {}}
    assert upgrade.undeletable(bare, {})
    assert not upgrade.undeletable(bare, {"force": True})
    keeping = copy.deepcopy(bare) | {
        "metadata": {"ownerReferences": [{"controller": True}]},
        "spec": {"volumes": [{"name": "a", "emptyDir": {}}]},
    }
    assert upgrade.undeletable(keeping, {})
    assert not upgrade.undeletable(keeping, {"deleteEmptyDir": True})


def test_an_orphaned_pod_is_never_current() -> None:
    pod = {
        "metadata": {"labels": {readiness.REVISION: "new"}},
        "spec": {"containers": []},
        "status": {"phase": "Running"},
    }
    orphan = upgrade.Driver(node(), pod, None, None)
    assert not orphan.current
    assert not orphan.ready
    assert not orphan.same_configuration
