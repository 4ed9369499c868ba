# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import driver_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DECLARATION,
    DRIVER,
    POLICY,
    Declaration,
    declaration_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

SPEC: dict[str, t.Any] = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "1.2.3"}


def asked(**chosen: t.Any) -> Declaration:
    plain = {name: spec.get("default") for name, spec in DECLARATION.options.items()}
    registry = {"timeout": 10, "username": None, "password": None}
    return declaration_of({**plain, "registry": registry, **chosen})


def driver(name: str = "default", **spec: t.Any) -> dict:
    return {"metadata": {"name": name}, "spec": {**SPEC, "driverType": "gpu", **spec}}


def daemonset(name: str, kind: str = "", owner: str = "", pool: bool = True) -> dict:
    labels = {"app.kubernetes.io/component": "nvidia-driver"} if pool else {}
    owners = [{"kind": kind, "name": owner}] if kind else []
    return {"metadata": {"name": name, "labels": labels, "ownerReferences": owners}}


def seen(*drivers: dict, line: t.Any = (26, 7), policy: dict | None = None, **fields: t.Any) -> DriversView:
    spec = {"driver": SPEC} if policy is None else policy
    item = None if fields.pop("gpucluster", False) else {"metadata": {"name": "cluster-policy"}, "spec": spec}
    made = DriversView(
        "gpu-operator", item, None, drivers, fields.pop("serves", True), [], fields.pop("sets", []), None, 0.0
    )
    made.__dict__["line"] = line
    return made


DELEGATING = {"driver": {**SPEC, "useNvidiaDriverCRD": True}}


def test_without_pools_the_object_that_has_the_driver_keeps_it() -> None:
    assert driver_request.of(asked(version="4"), seen()) == driver_request.DriverRequest(
        POLICY, {"driver": {"version": "4"}}, {}
    )
    assert driver_request.of(asked(version="4"), seen(driver(), policy=DELEGATING)) == driver_request.DriverRequest(
        DRIVER, {}, {"default": {"version": "4"}}
    )


def test_a_gpucluster_has_only_nvidiadrivers() -> None:
    assert driver_request.of(asked(version="4.5.6"), seen(driver(), gpucluster=True)).kind == DRIVER
    with pytest.raises(GpuOpsError, match="Set resource: NVIDIADriver"):
        driver_request.of(asked(resource=POLICY), seen(gpucluster=True))


def test_a_move_carries_all_settings_over_and_flips_the_switch() -> None:
    found = driver_request.of(asked(resource=DRIVER, kernel_module_type="open"), seen())
    assert found.move == "to NVIDIADriver" and found.policy == {"driver": {"useNvidiaDriverCRD": True}}
    assert found.drivers == {
        "default": {
            "driverType": "gpu", "default": True, **SPEC, "kernelModuleType": "open",
            "upgradePolicy": {"autoUpgrade": False},
        }
    }  # fmt: skip


def test_an_older_operator_knows_neither_defaults_nor_policies_of_drivers() -> None:
    found = driver_request.of(asked(pools=[{"name": "a", "default": True}]), seen(line=(26, 3)))
    assert found.drivers == {"a": {"driverType": "gpu", **SPEC}}


def test_a_new_pool_has_nvidias_images_unless_it_says_otherwise() -> None:
    pools = [{"name": "a", "version": "4.5.6", "node_selector": {"gpu": True}}]
    found = driver_request.of(asked(pools=pools), seen(policy=DELEGATING))
    assert found.drivers["a"] == {
        "driverType": "gpu", "default": False, "repository": "nvcr.io/nvidia", "image": "driver", "version": "4.5.6",
        "nodeSelector": {"gpu": "true"},
    }  # fmt: skip
    with pytest.raises(GpuOpsError, match="pools: a has no version"):
        driver_request.of(asked(pools=[{"name": "a"}]), seen(policy=DELEGATING))
    whole = {"name": "a", "image": "registry.test/driver:1"}
    assert driver_request.of(asked(pools=[whole]), seen(policy=DELEGATING)).drivers["a"]["image"] == whole["image"]


def test_an_existing_pool_gets_only_what_is_said() -> None:
    pools = [{"name": "default", "default": True, "version": "4.5.6"}]
    assert driver_request.of(asked(pools=pools), seen(driver(), policy=DELEGATING)).drivers == {
        "default": {"default": True, "version": "4.5.6"}
    }


def test_what_cannot_be_changed_is_refused() -> None:
    sight = seen(driver(usePrecompiled=False), policy=DELEGATING)
    with pytest.raises(GpuOpsError) as error:
        driver_request.of(asked(use_precompiled=True, branch="5"), sight)
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "usePrecompiled of NVIDIADriver default cannot be changed once it exists. Give the pool another name, and set purge: true to delete the old one."
    )
    assert driver_request.of(asked(use_precompiled=False), sight).drivers["default"] == {"usePrecompiled": False}
    assert driver_request.of(asked(use_precompiled=True, branch="5"), seen(driver(), policy=DELEGATING)).drivers


def test_purge_names_what_is_deleted() -> None:
    sight = seen(driver("a"), driver("b"), policy=DELEGATING)
    assert driver_request.of(asked(pools=[{"name": "a"}]), sight).delete == ()
    assert driver_request.of(asked(pools=[{"name": "a"}], purge=True), sight).delete == ("b",)


def test_the_crd_and_names_are_needed() -> None:
    with pytest.raises(GpuOpsError, match="CRD is not installed"):
        driver_request.of(asked(resource=DRIVER), seen(serves=False))
    with pytest.raises(GpuOpsError, match=r"several NVIDIADrivers \(a, b\)"):
        driver_request.of(asked(), seen(driver("a"), driver("b"), policy=DELEGATING))


# ---- the way back -------------------------------------------------------------------------------------------------


def test_the_way_back_writes_only_what_differs() -> None:
    sets = [
        daemonset("nvidia-gpu-driver-x", DRIVER, "default"),
        daemonset("nvidia-driver-daemonset", POLICY, "x", False),
    ]
    sight = seen(driver(version="4.5.6", tolerations=[{}]), policy=DELEGATING, sets=sets)
    found = driver_request.of(asked(resource=POLICY), sight)
    blocks: dict[str, t.Any] = {"waitForCompletion": {}, "podDeletion": {}, "drain": {}}
    upgrades = {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "25%", **blocks}
    assert found == driver_request.DriverRequest(
        POLICY, {"driver": {"version": "4.5.6", "upgradePolicy": upgrades, "useNvidiaDriverCRD": False}}, {},
        orphan=("default",), orphan_daemonsets=("nvidia-gpu-driver-x",), move="to ClusterPolicy",
    )  # fmt: skip


def test_the_settings_of_the_default_come_back_and_without_one_they_must_be_given() -> None:
    drivers = [driver("a", version="7"), driver("b", version="8", default=True)]
    assert (
        driver_request.of(asked(resource=POLICY), seen(*drivers, policy=DELEGATING)).policy["driver"]["version"] == "8"
    )
    sight = seen(driver("a"), driver("b"), policy=DELEGATING)
    with pytest.raises(GpuOpsError, match=r"none is the default \(a, b\)"):
        driver_request.of(asked(resource=POLICY), sight)
    assert driver_request.of(asked(resource=POLICY, version="9.9.9"), sight).policy == {
        "driver": {"version": "9.9.9", "useNvidiaDriverCRD": False}
    }


def test_a_way_back_that_was_cut_off_is_finished_when_it_is_asked_for() -> None:
    sets = [
        daemonset("of-a", DRIVER, "a"), daemonset("of-nobody"), daemonset("of-one-that-is-gone", DRIVER, "gone"),
        daemonset("nvidia-driver-daemonset", POLICY, "cluster-policy"),
    ]  # fmt: skip
    sight = seen(driver("a"), driver("prepared"), sets=sets)
    assert driver_request.of(asked(), sight) == driver_request.DriverRequest(POLICY, {}, {})
    found = driver_request.of(asked(resource=POLICY), sight)
    assert found.orphan == ("a",) and found.orphan_daemonsets == ("of-a", "of-nobody", "of-one-that-is-gone")
    assert found.move == "" and found.policy == {}
