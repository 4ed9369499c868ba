# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIADrivers: the owner of each node, refused specifications, and pools of similar nodes."""

from __future__ import annotations

import typing as t

import pytest

from lab.cluster.operator.standin import drivers, images, nodes
from tests.lab.cluster.operator.standin.builders import Json, driver, gpu_node, node


class TestDriverOwners:
    NODES: t.ClassVar[list[Json]] = [gpu_node("gpu-0000"), gpu_node("gpu-0001"), node(name="cpu-0000")]

    def test_the_default_gets_the_other_nodes(self) -> None:
        found = drivers.owners([driver("rest", default=True), driver("one", {"node": "gpu-0001"})], self.NODES)
        assert found == {"gpu-0000": "rest", "gpu-0001": "one"}

    def test_no_default(self) -> None:
        assert drivers.owners([driver("one", {"node": "gpu-0001"})], self.NODES) == {
            "gpu-0000": None,
            "gpu-0001": "one",
        }

    def test_without_a_selector_a_driver_selects_every_gpu_node(self) -> None:
        assert set(drivers.owners([driver("all")], self.NODES).values()) == {"all"}

    def test_overlap_concerns_every_driver(self) -> None:
        everyone = [driver("a", {"node": "gpu-0001"}), driver("b", {}), driver("rest", default=True)]
        expected = ("ConflictingNodeSelector", "multiple NVIDIADrivers match the same node gpu-0001: [a b]")
        assert {drivers.conflict(item, everyone, self.NODES) for item in everyone} == {expected}
        with pytest.raises(images.ReconcileError, match="gpu-0001"):
            drivers.owners(everyone, self.NODES)

    def test_only_one_default_is_allowed(self) -> None:
        everyone = [driver("b", default=True), driver("a", default=True)]
        assert drivers.conflict(everyone[0], everyone, self.NODES) == (
            "ReconcileFailed",
            "multiple default NVIDIADrivers found: [a b]",
        )
        with pytest.raises(images.ReconcileError, match="multiple default"):
            drivers.owners(everyone, self.NODES)

    def test_the_owner_label_is_not_a_selector(self) -> None:
        problem = drivers.conflict(driver("a", {drivers.OWNER: "a"}), [], [])
        assert problem is not None
        assert "reserved label" in problem[1]

    def test_a_driver_that_is_being_deleted_owns_nothing(self) -> None:
        leaving = driver("a")
        leaving["metadata"]["deletionTimestamp"] = "now"
        assert drivers.owners([leaving], self.NODES) == {"gpu-0000": None, "gpu-0001": None}


class TestDriverPools:
    def test_one_per_operating_system(self) -> None:
        found = drivers.pools(
            driver("a"),
            [
                gpu_node("x", "a"),
                gpu_node("y", "a"),
                gpu_node("z", "a", **{images.OS_VERSION: "22.04"}),
                gpu_node("w", "b"),
            ],
        )
        assert [pool.os_tag for pool in found] == ["ubuntu22.04", "ubuntu24.04"]

    def test_minor_versions_share_a_pool_if_the_image_has_none(self) -> None:
        rhel = [
            gpu_node(v, "a", **{images.OS_ID: "rhel", images.OS_VERSION: v, f"{images.OS_VERSION}.major": "9"})
            for v in ("9.4", "9.6")
        ]
        (pool,) = drivers.pools(driver("a"), rhel)
        assert (pool.os_tag, pool.selector[f"{images.OS_VERSION}.major"]) == ("rhel9", "9")
        assert images.OS_VERSION not in pool.selector

    def test_precompiled_drivers_have_one_per_kernel(self) -> None:
        precompiled = driver("a", usePrecompiled=True)
        found = drivers.pools(
            precompiled,
            [gpu_node(kernel, "a", **{images.KERNEL: kernel}) for kernel in ("6.8.0-1-generic", "6.8.0-2-generic")],
        )
        assert [pool.kernel for pool in found] == ["6.8.0-1-generic", "6.8.0-2-generic"]
        assert len({drivers.daemonset_name(precompiled, pool) for pool in found}) == 2

    def test_a_node_without_discovery_is_in_no_pool(self) -> None:
        assert drivers.pools(driver("a"), [node({nodes.PRESENT: "true", drivers.OWNER: "a"})]) == []

    def test_names(self) -> None:
        pool = drivers.Pool("ubuntu24.04", "", {})
        # FNV-1a of "a" is 3826002220.
        assert drivers.daemonset_name(driver("a"), pool) == "nvidia-gpu-driver-ubuntu24.04-7d6b446664"
        assert len(drivers.daemonset_name(driver("a"), drivers.Pool("x" * 80, "", {}))) == 63

    def test_daemonset(self) -> None:
        tainted = [{"key": "mine", "operator": "Exists"}]
        mine = driver(
            "a", labels={"app": "other", "app.kubernetes.io/component": "other", "team": "a"}, tolerations=tainted
        )
        (pool,) = drivers.pools(mine, [gpu_node("x", "a")])
        made = drivers.driver_daemonset(mine, pool, drivers.site(mine, pool, "gpu-operator", {}))
        template = made["spec"]["template"]
        assert made["metadata"]["ownerReferences"][0]["kind"] == "NVIDIADriver"
        assert made["spec"]["updateStrategy"] == {"type": "OnDelete"}
        assert (
            template["metadata"]["labels"].items()
            >= {**made["spec"]["selector"]["matchLabels"], drivers.COMPONENT[0]: "nvidia-driver", "team": "a"}.items()
        )
        assert template["spec"]["tolerations"] == [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            *tainted,
        ]
        assert template["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/thing:v1-ubuntu24.04"
        assert template["spec"]["affinity"]["podAntiAffinity"]

    @pytest.mark.parametrize(
        ("spec", "word"),
        [
            ({"version": ""}, "must all be set"),
            ({"version": "sha256:ab", "usePrecompiled": True}, "digest is not supported"),
        ],
    )
    def test_refused_images(self, spec: Json, word: str) -> None:
        refused = driver("a", **spec)
        (pool,) = drivers.pools(refused, [gpu_node("x", "a", **{images.KERNEL: "6.8.0-1-generic"})])
        with pytest.raises(images.ReconcileError, match=word):
            drivers.driver_daemonset(refused, pool, drivers.site(refused, pool, "gpu-operator", {}))

    @pytest.mark.parametrize(
        ("spec", "word"),
        [
            ({"usePrecompiled": True, "gdrcopy": {"enabled": True}}, "pre-compiled"),
            ({"gds": {"enabled": True, "version": "2.20.5"}}, "OpenRM"),
            ({"gds": {"enabled": True, "version": "2.16.1"}}, None),
            ({"gds": {"enabled": True, "version": "2.20.5"}, "kernelModuleType": "open"}, None),
        ],
    )
    def test_contradicting_settings(self, spec: Json, word: str | None) -> None:
        problem = drivers.unsupported(spec)
        assert (word in problem[1]) if word and problem else problem is None

    def test_upgrades_are_automatic_by_default(self) -> None:
        assert drivers.upgrade_policy(driver())["autoUpgrade"]
        assert not drivers.upgrade_policy(driver(upgradePolicy={"autoUpgrade": False}))["autoUpgrade"]
