# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Equal machines that differ: whose value is odd, and which differences are planned."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import drift
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View

Json = dict[str, t.Any]
PRODUCT = "NVIDIA H100 80GB HBM3"

# As gpu_facts returned it for a host with H100s (its documented sample), reduced to what is compared.
FACTS: Json = {
    "gpus": [
        {
            "pci_address": f"0000:{18 + number}:00.0",
            "product": PRODUCT,
            "vbios": "96.00.74.00.01",
            "inforom": "G520.0200.00.05",
            "gsp": "580.95.05",
            "power_limit_w": 700.0,
            "clocks": {
                "graphics_max": 1980,
                "memory_max": 2619,
                "graphics_application": 1980,
                "memory_application": 2619,
            },
            "bar1_mib": 131072,
            "persistence_mode": True,
            "ecc": {"enabled": True, "pending": True},
            "mig": {"mode": False, "pending": False},
            "lost": False,
        }
        for number in range(8)
    ],
    "nics": [
        {"name": "mlx5_0", "type": "MT4129", "board": "MT_0000000838", "firmware": "28.39.1002"},
        {"name": "mlx5_1", "type": "MT4125", "board": "MT_0000000359", "firmware": "22.39.1002"},
    ],
    "driver": {"version": "580.95.05"},
    "kernel": {
        "running": "6.8.0-87-generic",
        "cmdline": ["BOOT_IMAGE=/vmlinuz-6.8.0-87-generic", "root=/dev/sda2", "ro", "iommu=pt"],
    },
}


def row(name: str, **changes: t.Any) -> Json:
    return {
        "name": name,
        "product": "NVIDIA-H100-80GB-HBM3",
        "gpus": 8,
        "driver": "580.95.05",
        "mig": {"config": "all-disabled", "state": "success"},
        "os": "ubuntu24.04",
        "kernel": "6.8.0-87-generic",
        "upgrade_state": "upgrade-done",
        **changes,
    }


class Fleet:
    """A fleet of equal machines, some of which the tests change."""

    def __init__(self, count: int = 5, hosts: bool = True) -> None:
        self.names = [f"gpu-{number:04d}" for number in range(count)]
        self.rows = {name: row(name) for name in self.names}
        self.labels: dict[str, Json] = {name: {} for name in self.names}
        self.annotations: dict[str, Json] = {name: {} for name in self.names}
        self.facts = {name: copy.deepcopy(FACTS) for name in self.names} if hosts else {}
        self.drivers: list[Json] = []

    def view(self, *pinned: Json) -> View:
        nodes = [
            {"metadata": {"name": name, "labels": self.labels[name], "annotations": self.annotations[name]}}
            for name in self.names
        ]
        return View(
            Evidence(
                stack={"nodes": list(self.rows.values()), "namespace": "gpu-operator", "verdict": {"state": "ready"}},
                objects={"nodes": nodes, "nvidiadrivers": self.drivers},
                hosts={name: {"facts": facts} for name, facts in self.facts.items()},
                pinned=list(pinned),
            )
        )


def found(view: View) -> list[tuple[str, str, str, str]]:
    """Return what is odd: the trait, the node, the object and the value."""
    return [
        (trait.key, odd.reading.machine.node, odd.reading.object, odd.reading.value)
        for trait in drift.TRAITS
        for odd in drift.odd(view, trait.key)
    ]


def test_a_uniform_fleet_has_no_drift() -> None:
    assert found(Fleet().view()) == []


def test_nothing_is_known_of_an_empty_fleet() -> None:
    assert found(View(Evidence())) == []


@pytest.mark.parametrize(
    ("key", "path", "value", "shown"),
    [
        ("vbios", ("vbios",), "96.00.5E.00.01", "96.00.5E.00.01"),
        ("inforom", ("inforom",), "G520.0200.00.03", "G520.0200.00.03"),
        ("gsp", ("gsp",), "570.86.15", "570.86.15"),
        ("power_limit_w", ("power_limit_w",), 500.0, "500"),
        ("persistence_mode", ("persistence_mode",), False, "off"),
        ("graphics_clock_mhz", ("clocks", "graphics_max"), 1755, "1755"),
        ("memory_clock_mhz", ("clocks", "memory_max"), 1593, "1593"),
        ("application_clock_mhz", ("clocks", "graphics_application"), 1275, "1275"),
        ("bar1_mib", ("bar1_mib",), 256, "256"),
        ("ecc", ("ecc", "enabled"), False, "off"),
        ("mig_mode", ("mig", "mode"), True, "on"),
    ],
)
def test_one_gpu_that_differs_is_named(key: str, path: tuple[str, ...], value: t.Any, shown: str) -> None:
    fleet = Fleet()
    gpu = fleet.facts["gpu-0003"]["gpus"][5]
    (gpu if len(path) == 1 else gpu[path[0]])[path[-1]] = value
    assert found(fleet.view()) == [(key, "gpu-0003", "GPU 0000:23:00.0", shown)]


def test_the_firmware_of_adapters_is_compared_with_that_of_the_same_board() -> None:
    fleet = Fleet()
    fleet.facts["gpu-0003"]["nics"][0]["firmware"] = "28.36.1010"
    assert found(fleet.view()) == [("nic_firmware", "gpu-0003", "adapter mlx5_0", "28.36.1010")]
    (odd,) = drift.odd(fleet.view(), "nic_firmware")
    assert odd.instead == "most adapters in machines with 8 x NVIDIA-H100-80GB-HBM3 have 28.39.1002"
    for facts in fleet.facts.values():
        facts["nics"][0]["board"] = facts["nics"][0]["firmware"]
    assert found(fleet.view()) == []


def test_a_fact_that_only_some_hosts_give_is_compared_among_them() -> None:
    fleet = Fleet()
    for gpu in fleet.facts["gpu-0004"]["gpus"]:
        gpu["vbios"] = None
    fleet.facts["gpu-0000"]["gpus"][0]["vbios"] = "96.00.5E.00.01"
    assert found(fleet.view()) == [("vbios", "gpu-0000", "GPU 0000:18:00.0", "96.00.5E.00.01")]


def test_without_host_facts_the_labels_and_the_node_are_compared() -> None:
    fleet = Fleet(hosts=False)
    fleet.rows["gpu-0001"].update(driver="570.86.15", kernel="6.8.0-31-generic")
    assert found(fleet.view()) == [
        ("driver", "gpu-0001", "", "570.86.15"),
        ("kernel", "gpu-0001", "", "6.8.0-31-generic"),
    ]


def test_the_host_knows_its_driver_better_than_the_labels() -> None:
    fleet = Fleet()
    fleet.facts["gpu-0001"]["driver"]["version"] = "570.86.15"
    (odd,) = drift.odd(fleet.view(), "driver")
    assert (odd.reading.value, odd.reading.source) == ("570.86.15", "facts of the host")
    assert (odd.usual, odd.counted) == ("580.95.05", "4 of 5")
    assert odd.instead == "most machines with 8 x NVIDIA-H100-80GB-HBM3 have 580.95.05"


def test_hosts_without_a_cluster_are_compared() -> None:
    hosts = {name: {"facts": copy.deepcopy(FACTS)} for name in ("a", "b", "c")}
    hosts["b"]["facts"]["kernel"]["running"] = "6.8.0-31-generic"
    assert found(View(Evidence(hosts=hosts))) == [("kernel", "b", "", "6.8.0-31-generic")]


def test_the_gpus_of_a_single_host_are_compared_with_each_other() -> None:
    fleet = Fleet(1)
    fleet.facts["gpu-0000"]["gpus"][7]["vbios"] = "96.00.5E.00.01"
    assert found(fleet.view()) == [("vbios", "gpu-0000", "GPU 0000:25:00.0", "96.00.5E.00.01")]


# ---- kernel arguments -----------------------------------------------------------------------------------------------


def test_an_argument_that_differs_is_missing_or_is_new_is_named() -> None:
    fleet = Fleet()
    fleet.facts["gpu-0001"]["kernel"]["cmdline"][-1] = "iommu=off"
    fleet.facts["gpu-0002"]["kernel"]["cmdline"].pop()
    fleet.facts["gpu-0003"]["kernel"]["cmdline"].append("pci=noacs")
    assert sorted(found(fleet.view())) == [
        ("kernel_args", "gpu-0001", "", "iommu=off"),
        ("kernel_args", "gpu-0002", "", "iommu not set"),
        ("kernel_args", "gpu-0003", "", "pci=noacs"),
    ]


def test_arguments_of_one_machine_alone_are_no_drift() -> None:
    fleet = Fleet()
    for number, name in enumerate(fleet.names):
        cmdline = fleet.facts[name]["kernel"]["cmdline"]
        cmdline[1] = f"root=/dev/disk/by-uuid/{number}"
        cmdline.append(f"rd.luks.name={number}")
    assert found(fleet.view()) == []


def test_arguments_that_repeat_are_one_text_in_any_order() -> None:
    fleet = Fleet()
    for number, name in enumerate(fleet.names):
        pair = ["hugepagesz=2M", "hugepagesz=1G"]
        fleet.facts[name]["kernel"]["cmdline"] += pair if number % 2 else pair[::-1]
    assert found(fleet.view()) == []


# ---- what may not be compared ---------------------------------------------------------------------------------------


def test_other_models_counts_and_chassis_are_not_compared() -> None:
    fleet = Fleet(6, hosts=False)
    fleet.rows["gpu-0003"].update(product="NVIDIA-L4", driver="1")
    fleet.rows["gpu-0004"].update(gpus=4, driver="2")
    fleet.rows["gpu-0005"].update(driver="3")
    fleet.labels["gpu-0005"]["nvidia.com/gpu.machine"] = "DGXH100"
    assert found(fleet.view()) == []


def test_shared_gpus_are_the_same_model() -> None:
    fleet = Fleet(3, hosts=False)
    fleet.rows["gpu-0002"].update(product="NVIDIA-H100-80GB-HBM3-SHARED", driver="570.86.15")
    assert found(fleet.view()) == [("driver", "gpu-0002", "", "570.86.15")]


def test_a_machine_of_unknown_model_is_left_out() -> None:
    fleet = Fleet(3, hosts=False)
    fleet.rows["gpu-0002"].update(product=None, driver="570.86.15")
    assert found(fleet.view()) == []


def test_a_lost_gpu_is_not_compared() -> None:
    fleet = Fleet(3)
    fleet.facts["gpu-0000"]["gpus"][0].update(lost=True, vbios=None)
    assert found(fleet.view()) == []


def test_of_two_machines_nobody_knows_which_is_odd() -> None:
    fleet = Fleet(2, hosts=False)
    fleet.rows["gpu-0001"]["driver"] = "570.86.15"
    assert found(fleet.view()) == []


@pytest.mark.parametrize("others", [3, 2])
def test_a_large_share_is_a_pool_of_its_own(others: int) -> None:
    fleet = Fleet(5, hosts=False)
    for name in fleet.names[:others]:
        fleet.rows[name]["driver"] = "570.86.15"
    assert found(fleet.view()) == []


# ---- planned differences --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["upgrade-required", "drain-required", "validation-required"])
def test_a_rollout_of_the_driver_is_no_drift(state: str) -> None:
    fleet = Fleet(5, hosts=False)
    fleet.rows["gpu-0000"]["driver"] = "580.105.08"
    fleet.rows["gpu-0001"]["upgrade_state"] = state
    assert found(fleet.view()) == []


@pytest.mark.parametrize("state", ["upgrade-failed", "upgrade-done", "", None])
def test_a_rollout_that_has_ended_excuses_nothing(state: str | None) -> None:
    fleet = Fleet(5, hosts=False)
    fleet.rows["gpu-0000"].update(driver="570.86.15", upgrade_state=state)
    assert found(fleet.view()) == [("driver", "gpu-0000", "", "570.86.15")]


def test_pools_of_nvidiadrivers_have_their_own_drivers() -> None:
    fleet = Fleet(6, hosts=False)
    fleet.labels["gpu-0005"]["pool"] = "canary"
    fleet.rows["gpu-0005"]["driver"] = "600.10.01"
    fleet.drivers = [
        {"metadata": {"name": "canary"}, "spec": {"nodeSelector": {"pool": "canary"}}},
        {"metadata": {"name": "rest"}, "spec": {"default": True}},
    ]
    assert found(fleet.view()) == []
    fleet.drivers = []
    fleet.labels["gpu-0005"] = {"nvidia.com/gpu-operator.driver.owner": "canary"}
    assert found(fleet.view()) == []


def test_a_node_that_is_kept_from_upgrades_may_have_another_driver() -> None:
    fleet = Fleet(5, hosts=False)
    fleet.rows["gpu-0004"]["driver"] = "570.86.15"
    fleet.labels["gpu-0004"]["nvidia.com/gpu-driver-upgrade.skip"] = "true"
    assert found(fleet.view()) == []


def test_while_a_node_is_held_for_a_change_kernels_may_differ() -> None:
    fleet = Fleet(5, hosts=False)
    fleet.rows["gpu-0000"]["kernel"] = "6.8.0-90-generic"
    fleet.annotations["gpu-0001"]["gpuops.nvidia/maintenance.change"] = "2026-11-20T04:12:09+00:00 ctl 7"
    assert found(fleet.view()) == []


def test_other_systems_have_other_kernels() -> None:
    fleet = Fleet(5, hosts=False)
    fleet.rows["gpu-0000"].update(os="rhel9.4", kernel="5.14.0-427.el9.x86_64")
    assert found(fleet.view()) == []


def test_another_mig_layout_is_another_mig_mode() -> None:
    fleet = Fleet(5)
    fleet.rows["gpu-0000"]["mig"]["config"] = "all-1g.10gb"
    for gpu in fleet.facts["gpu-0000"]["gpus"]:
        gpu["mig"]["mode"] = True
    assert found(fleet.view()) == []


def test_a_change_of_mig_that_goes_on_is_no_drift() -> None:
    fleet = Fleet(5)
    fleet.rows["gpu-0000"]["mig"]["state"] = "rebooting"
    fleet.facts["gpu-0001"]["gpus"][0]["mig"]["mode"] = True
    assert found(fleet.view()) == []


# ---- pinned ---------------------------------------------------------------------------------------------------------


def test_what_differs_from_the_pinned_set_is_named_whatever_is_usual() -> None:
    fleet = Fleet(3, hosts=False)
    fleet.rows["gpu-0001"]["driver"] = "580.105.08"
    odds = list(drift.odd(fleet.view({"product": "NVIDIA-H100*", "driver": "580.105.08"}), "driver"))
    assert [odd.reading.machine.node for odd in odds] == ["gpu-0000", "gpu-0002"]
    assert {odd.instead for odd in odds} == {"580.105.08 is pinned for NVIDIA-H100-80GB-HBM3"}


def test_the_first_entry_with_a_value_for_the_product_counts() -> None:
    fleet = Fleet(3)
    pinned = [{"product": "NVIDIA-L4", "ecc": "off"}, {"product": None, "vbios": None}, {"ecc": "on"}, {"ecc": "off"}]
    assert found(fleet.view(*pinned)) == []


def test_a_pinned_switch_may_be_a_boolean_and_a_pinned_number_a_number() -> None:
    fleet = Fleet(3)
    assert found(fleet.view({"ecc": True, "power_limit_w": 700.0})) == []
    assert found(fleet.view({"ecc": "True", "power_limit_w": "700.0", "mig_mode": "no"})) == []
    assert {key for key, *dummy in found(fleet.view({"power_limit_w": 500}))} == {"power_limit_w"}


def test_every_pinned_option_is_a_trait() -> None:
    assert set(drift.PINNED_OPTIONS.options) - {"product"} == {trait.key for trait in drift.TRAITS} - {
        "kernel_args",
        "nic_firmware",
    }


# ---- large fleets ---------------------------------------------------------------------------------------------------


def test_one_odd_among_a_thousand_is_found() -> None:
    fleet = Fleet(1000)
    fleet.facts["gpu-0777"]["gpus"][2]["vbios"] = "96.00.5E.00.01"
    assert found(fleet.view()) == [("vbios", "gpu-0777", "GPU 0000:20:00.0", "96.00.5E.00.01")]


@pytest.mark.parametrize(("count", "odd"), [(6, 0), (7, 3)])
def test_what_half_of_the_machines_have_is_not_usual(count: int, odd: int) -> None:
    fleet = Fleet(count)
    for number, name in enumerate(fleet.names[:3]):
        kernel = f"6.8.0-{number}-generic"
        fleet.rows[name]["kernel"] = fleet.facts[name]["kernel"]["running"] = kernel
    assert [node for dummy, node, *dummies in found(fleet.view())] == fleet.names[:odd]


def test_a_host_without_a_node_is_of_the_class_of_its_gpus() -> None:
    fleet = Fleet()
    for facts in fleet.facts.values():
        facts["gpus"] = facts["gpus"][:1]
    fleet.facts["gpu-0002"]["gpus"][0]["vbios"] = "1"
    view = View(Evidence(hosts={name: {"facts": facts} for name, facts in fleet.facts.items()}))
    assert [odd[:2] for odd in found(view)] == [("vbios", "gpu-0002")]
