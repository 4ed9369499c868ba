# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import declaration
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

SETTINGS: dict[str, t.Any] = {
    "version": "595.91.07",
    "kernel_module_type": "open",
    "rdma": {"enabled": True, "use_host_mofed": None},
    "gds": {"enabled": True, "version": "2.27.3", "image": None, "repository": None},
    "licensing": {"secret_name": "licence", "config_map": None, "nls_enabled": False},
    "repo_config": "repos",
    "cert_config": "certificates",
    "kernel_module_config": "parameters",
    "virtual_topology": "topology",
    "secret_env": "environment",
    "image_pull_secrets": ["ngc"],
    "upgrade_policy": {"auto_upgrade": True, "max_unavailable": "2", "drain": {}},
}
COMMON = {
    "version": "595.91.07",
    "kernelModuleType": "open",
    "rdma": {"enabled": True},
    "secretEnv": "environment",
    "imagePullSecrets": ["ngc"],
    "upgradePolicy": {"autoUpgrade": True, "maxUnavailable": 2, "drain": {}},
    "certConfig": {"name": "certificates"},
    "kernelModuleConfig": {"name": "parameters"},
}
GDS = {"enabled": True, "version": "2.27.3"}


def test_a_clusterpolicy_spells_the_settings_in_its_way() -> None:
    assert declaration.policy_spec(SETTINGS) == {
        "gds": GDS,
        "driver": {
            **COMMON,
            "repoConfig": {"configMapName": "repos"},
            "virtualTopology": {"config": "topology"},
            "licensingConfig": {"secretName": "licence", "nlsEnabled": False},
        },
    }


def test_an_nvidiadriver_spells_them_in_another() -> None:
    assert declaration.driver_spec(SETTINGS) == {
        **COMMON,
        "gds": GDS,
        "repoConfig": {"name": "repos"},
        "virtualTopologyConfig": {"name": "topology"},
        "licensingConfig": {"secretName": "licence", "nlsEnabled": False},
    }


def test_a_branch_is_the_version_of_a_precompiled_driver() -> None:
    assert declaration.driver_spec({"branch": "595", "use_precompiled": True}) == {
        "version": "595", "usePrecompiled": True,
    }  # fmt: skip
    assert declaration.policy_spec({"branch": "595"}) == {"driver": {"version": "595"}}


def test_nothing_given_is_nothing_said() -> None:
    assert declaration.policy_spec({}) == {}
    assert declaration.policy_spec({"gds": {"enabled": None}}) == {"gds": {}}


def test_free_fields_join_the_options_and_may_not_contradict_them() -> None:
    free = {
        "version": "1.2.3",
        "spec": {"hostNetwork": True, "rdma": {"useHostMofed": True}},
        "rdma": {"enabled": True},
    }
    assert declaration.driver_spec(free) == {
        "hostNetwork": True, "version": "1.2.3", "rdma": {"enabled": True, "useHostMofed": True},
    }  # fmt: skip
    with pytest.raises(GpuOpsError) as error:
        declaration.policy_spec({"version": "2", "spec": {"version": "1"}})
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("spec.version is '1', but its own option says '2'. Set it in one place.")
    with pytest.raises(GpuOpsError, match=r"spec\.rdma\.enabled"):
        declaration.driver_spec({"rdma": {"enabled": True}, "spec": {"rdma": {"enabled": False}}})


def test_a_pool_has_its_own_settings_and_those_of_all() -> None:
    common = {"version": "1.2.3", "rdma": {"enabled": True}, "kernel_module_type": "open"}
    pool = {"branch": "5", "rdma": {"use_host_mofed": True}}
    assert declaration.of_pool(common, pool) == {
        "branch": "5", "kernel_module_type": "open", "rdma": {"enabled": True, "use_host_mofed": True},
    }  # fmt: skip


POLICY: dict[str, t.Any] = {
    "driver": {
        "enabled": True,
        "useNvidiaDriverCRD": False,
        "repository": "nvcr.io/nvidia",
        "image": "driver",
        "version": "1.2.3",
        "imagePullSecrets": [],
        "usePrecompiled": False,
        "repoConfig": {"configMapName": "repos"},
        "licensingConfig": {"configMapName": "licence", "secretName": ""},
        "virtualTopology": {"config": ""},
        "startupProbe": {"periodSeconds": 10},
    },
    "gds": {"enabled": False, "version": "1"},
    "gdrcopy": {"enabled": True, "version": "2"},
    "daemonsets": {"tolerations": [{"operator": "Exists"}], "labels": {"helm.sh/chart": "x"}, "annotations": {}},
}


def test_an_nvidiadriver_gets_all_that_the_clusterpolicys_pods_had() -> None:
    assert declaration.as_driver(POLICY) == {
        "repository": "nvcr.io/nvidia",
        "image": "driver",
        "version": "1.2.3",
        "usePrecompiled": False,
        "repoConfig": {"name": "repos"},
        "licensingConfig": {"name": "licence", "nlsEnabled": False},
        "startupProbe": {"periodSeconds": 10},
        "gdrcopy": {"enabled": True, "version": "2"},
        "tolerations": [{"operator": "Exists"}],
        "upgradePolicy": {"autoUpgrade": False},
    }
    assert declaration.as_driver({}) == {"upgradePolicy": {"autoUpgrade": False}}


def test_the_way_back_gives_the_clusterpolicy_what_an_nvidiadriver_has_by_default() -> None:
    made = declaration.as_policy({
        "version": "1.2.3", "repoConfig": {"name": "repos"}, "licensingConfig": {"name": "licence", "nlsEnabled": True},
        "upgradePolicy": {"maxParallelUpgrades": 4}, "gdrcopy": {"enabled": True},
        "driverType": "gpu", "tolerations": [{}],
    })  # fmt: skip
    assert made == {
        "driver": {
            "version": "1.2.3",
            "repoConfig": {"configMapName": "repos"},
            "licensingConfig": {"configMapName": "licence", "nlsEnabled": True},
            "upgradePolicy": {
                "autoUpgrade": True, "maxParallelUpgrades": 4, "maxUnavailable": "25%",
                "waitForCompletion": {}, "podDeletion": {}, "drain": {},
            },
        },
        "gdrcopy": {"enabled": True},
    }  # fmt: skip


def test_a_pool_replaces_the_common_driver_and_keeps_the_rest() -> None:
    plain = declaration.of_pool(SETTINGS, {})
    assert (plain["version"], plain["kernel_module_type"]) == ("595.91.07", "open")
    assert "version" not in declaration.of_pool(SETTINGS, {"branch": "580"})
