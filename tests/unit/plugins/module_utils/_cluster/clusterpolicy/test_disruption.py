# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which changes of a ClusterPolicy interrupt GPU workloads."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.disruption import Operator
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OLD = Operator((26, 3), (26, 3))
NEW = Operator((26, 7), (26, 7))
LABELS = {"helm.sh/chart": "gpu-operator-v26.3.3"}


def spec(driver: Json | None = None, **blocks: Json) -> Json:
    """Return a spec whose driver the operator upgrades by itself."""
    return {"driver": {"version": "580", "upgradePolicy": {"autoUpgrade": True}, **(driver or {})}, **blocks}


def disrupts(before: Json, after: Json, operator: Operator) -> list[str]:
    """Return the fields that interrupt workloads by the driver or by the toolkit."""
    found = disruption.changes(before, after, operator)
    return [change.field for change in found if change.operand != "mig-manager"]


def starts(before: Json, after: Json, operator: Operator = NEW) -> list[str]:
    """Return the fields that start the MIG managers again."""
    found = disruption.changes(before, after, operator)
    return [change.field for change in found if change.operand == "mig-manager"]


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        (spec(), spec({"version": "595"}), ["driver.version"]),
        (spec(), spec({"repository": "r", "image": "i"}), ["driver.image", "driver.repository"]),
        (spec(), spec({"usePrecompiled": True}), ["driver.usePrecompiled"]),
        (spec(), spec({"kernelModuleType": "open"}), ["driver.kernelModuleType"]),
        (spec({"env": [{"name": "A", "value": "1"}]}), spec(), ["driver.env"]),
        (spec(), spec({"repoConfig": {"configMapName": "x"}}), ["driver.repoConfig.configMapName"]),
        (spec(), spec({"manager": {"version": "v2"}}), ["driver.manager.version"]),
        (spec(), spec({"aFieldOfTomorrow": 1}), ["driver.aFieldOfTomorrow"]),
        (spec(), spec(gds={"enabled": True}), ["gds.enabled"]),
        (spec(gdrcopy={"enabled": True}), spec(), ["gdrcopy.enabled"]),
        (spec(gds={"enabled": True, "version": "1"}), spec(gds={"enabled": True, "version": "2"}), ["gds.version"]),
        (spec(), spec(hostPaths={"rootFS": "/host"}), ["hostPaths.rootFS"]),
        (spec(), spec({"enabled": False}), ["driver.enabled"]),
        (spec(), spec({"useNvidiaDriverCRD": True}), ["driver.useNvidiaDriverCRD"]),
        (spec({"useNvidiaDriverCRD": True}), spec(), ["driver.useNvidiaDriverCRD"]),
        (spec(), spec(toolkit={"enabled": False}), ["toolkit.enabled"]),
        (spec(toolkit={"enabled": False}), spec(), ["toolkit.enabled"]),
        (spec(), spec(toolkit={"version": "v2"}), ["toolkit.version"]),
        (spec(), spec(toolkit={"env": [{"name": "RUNTIME", "value": "x"}]}), ["toolkit.env"]),
        (spec(), spec(cdi={"enabled": False}), ["cdi.enabled"]),
        (spec(), spec(cdi={"nriPluginEnabled": True}), ["cdi.nriPluginEnabled"]),
        (spec(), spec(operator={"runtimeClass": "gpu"}), ["operator.runtimeClass"]),
        (
            spec(),
            spec(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-passthrough"}),
            ["sandboxWorkloads.enabled"],
        ),
        (
            spec(sandboxWorkloads={"enabled": True}),
            spec(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-vgpu"}),
            ["sandboxWorkloads.defaultWorkload"],
        ),
    ],
)
def test_what_interrupts_gpu_workloads_with_every_operator(before: Json, after: Json, fields: list[str]) -> None:
    for operator in (OLD, NEW, Operator()):
        assert disrupts(before, after, operator) == fields


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (spec(), spec()),
        (spec(), spec(mig={"strategy": "mixed"})),
        (spec(), spec(devicePlugin={"version": "v2", "enabled": False}, dcgmExporter={"enabled": False})),
        (spec(), spec({"kernelModuleType": "auto", "usePrecompiled": False}, cdi={"enabled": True})),
        (spec(), spec({"args": [], "env": [], "repoConfig": {"configMapName": ""}})),
        (spec(), spec({"useOpenKernelModules": True})),
        (spec(), spec({"upgradePolicy": {"autoUpgrade": True, "drain": {"enable": True}}})),
        (spec(), spec(daemonsets={"updateStrategy": "OnDelete", "rollingUpdate": {"maxUnavailable": "2"}})),
        (spec(), spec(gds={"version": "2"}, gdrcopy={"enabled": False, "version": "1"})),
        (spec(), spec(hostPaths={"kubeletRootDir": "/x", "driverInstallDir": "/run/nvidia/driver"})),
        (spec(), spec(toolkit={"resources": {"limits": {"cpu": "1"}}, "installDir": "/usr/local/nvidia"})),
        (spec(), spec(operator={"labels": {"a": "b"}, "runtimeClass": "nvidia"}, cdi={"default": True})),
        (spec({"enabled": False, "version": "1"}), spec({"enabled": False, "version": "2"})),
        (spec({"enabled": False}), spec()),
        (spec({"useNvidiaDriverCRD": True}), spec({"useNvidiaDriverCRD": True, "version": "595"})),
        (spec({"useNvidiaDriverCRD": True, "enabled": False}), spec({"enabled": False})),
        (spec(toolkit={"enabled": False}), spec(toolkit={"enabled": False, "version": "v2"}, cdi={"enabled": False})),
        (spec(), spec(sandboxWorkloads={"enabled": True})),
        (spec(), spec(sandboxWorkloads={"defaultWorkload": "vm-vgpu"})),
        (spec(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-vgpu"}), spec()),
    ],
)
def test_what_interrupts_nothing(before: Json, after: Json) -> None:
    for operator in (OLD, NEW, Operator()):
        assert disrupts(before, after, operator) == []


def test_a_toolkit_that_is_updated_by_hand_does_not_restart_the_runtime() -> None:
    by_hand = spec(daemonsets={"updateStrategy": "OnDelete"}, toolkit={"version": "v2"})
    assert disrupts(spec(), by_hand, NEW) == []


@pytest.mark.parametrize(
    "after",
    [
        spec(daemonsets={"labels": LABELS}),
        spec(daemonsets={"tolerations": [{"operator": "Exists"}]}),
        spec({"resources": {"limits": {"cpu": "1"}}}),
        spec({"startupProbe": {"periodSeconds": 5}}),
        spec({"livenessProbe": {"periodSeconds": 5}}),
        spec({"readinessProbe": {"periodSeconds": 5}}),
        spec({"hostNetwork": True}),
        spec({"imagePullSecrets": ["x"]}),
        spec({"manager": {"imagePullPolicy": "Always"}}),
        spec({"manager": {"imagePullSecrets": ["x"]}}),
        spec(daemonsets={"annotations": {"a": "b"}}),
        spec(daemonsets={"priorityClassName": "x"}),
        spec(daemonsets={"podSecurityContext": {"runAsUser": 0}}),
    ],
)
def test_before_v26_7_a_change_of_the_template_alone_evicts_gpu_pods(after: Json) -> None:
    assert len(disrupts(spec(), after, OLD)) == 1
    assert len(disrupts(spec(), after, Operator(None, (26, 7)))) == 1
    assert disrupts(spec(), after, NEW) == []


@pytest.mark.parametrize("block", ["gds", "gdrcopy"])
@pytest.mark.parametrize("field", ["args", "imagePullPolicy", "imagePullSecrets"])
def test_a_module_beside_the_driver_is_reloaded_only_for_what_concerns_it(block: str, field: str) -> None:
    before, after = spec(**{block: {"enabled": True}}), spec(**{block: {"enabled": True, field: ["x"]}})
    assert disrupts(before, after, OLD) == [f"{block}.{field}"]
    assert disrupts(before, after, NEW) == []


def test_driver_pods_are_left_alone_without_automatic_upgrades() -> None:
    manual = {"upgradePolicy": {"autoUpgrade": False}}
    assert disrupts(spec(), spec({"version": "595", **manual}), OLD) == []
    assert disrupts(spec(manual), {"driver": {"version": "595"}}, OLD) == []
    vms = {"enabled": True}
    assert disrupts(spec(sandboxWorkloads=vms), spec({"version": "595"}, sandboxWorkloads=vms), OLD) == []
    # The removal of the driver is no upgrade.
    assert disrupts(spec(manual), spec({"enabled": False, **manual}), NEW) == ["driver.enabled"]


def test_switching_automatic_upgrades_on_replaces_driver_pods_that_have_been_waiting() -> None:
    manual = spec({"upgradePolicy": {"autoUpgrade": False}})
    waiting = Operator((26, 7), (26, 7), outdated=True)
    assert disrupts(manual, spec(), waiting) == ["driver.upgradePolicy.autoUpgrade"]
    assert disrupts(manual, spec(), NEW) == []
    assert disrupts(spec(), spec(), waiting) == []


@pytest.mark.parametrize(
    ("running", "acting", "fields"),
    [
        ((26, 3), (26, 7), ["operator"]),
        ((25, 10), (26, 3), ["operator"]),
        ((26, 7), (26, 3), ["operator"]),
        ((26, 7), (26, 11), []),
        ((26, 3), (26, 3), []),
        (None, (26, 7), []),
    ],
)
def test_another_line_of_the_operator_renders_the_driver_pods_anew(
    running: disruption.Version | None, acting: disruption.Version, fields: list[str]
) -> None:
    assert disrupts(spec(), spec(), Operator(running, acting)) == fields


@pytest.mark.parametrize(
    ("operator", "fields"),
    [
        (Operator(None, (26, 7), images=("a", "b")), ["operator image"]),
        (Operator((26, 7), None, images=("a", "b")), ["operator image"]),
        (Operator(None, None, images=("a", "a")), []),
        (Operator((26, 7), (26, 7), images=("a", "b")), []),
        (Operator((26, 3), (26, 7), images=("a", "b")), ["operator"]),
    ],
)
def test_another_image_counts_where_a_version_is_unknown(operator: Operator, fields: list[str]) -> None:
    assert disrupts(spec(), spec(), operator) == fields
    assert disrupts(spec({"enabled": False}), spec({"enabled": False}), operator) == []
    assert disrupts({}, {}, operator) == []


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ({}, {"migManager": {"version": "v2"}}, ["migManager.version"]),
        ({}, {"migManager": {"env": [{"name": "WITH_REBOOT", "value": "true"}]}}, ["migManager.env"]),
        ({}, {"migManager": {"resources": {"limits": {"cpu": "1"}}}}, ["migManager.resources.limits.cpu"]),
        ({}, {"migManager": {"imagePullPolicy": "Always"}}, ["migManager.imagePullPolicy"]),
        ({}, {"migManager": {"imagePullSecrets": ["x"]}}, ["migManager.imagePullSecrets"]),
        ({}, {"migManager": {"args": ["x"]}}, ["migManager.args"]),
        ({}, {"migManager": {"hostNetwork": True}}, ["migManager.hostNetwork"]),
        ({"migManager": {"config": {"name": "mine"}}}, {}, ["migManager.config.name"]),
        ({}, {"migManager": {"gpuClientsConfig": {"name": "mine"}}}, ["migManager.gpuClientsConfig.name"]),
        ({}, {"migManager": {"aFieldOfTomorrow": 1}}, ["migManager.aFieldOfTomorrow"]),
        ({"migManager": {"enabled": False}}, {}, ["migManager.enabled"]),
        ({}, {"daemonsets": {"labels": {"helm.sh/chart": "new"}}}, ["daemonsets.labels.helm.sh/chart"]),
        ({}, {"daemonsets": {"annotations": {"a": "b"}}}, ["daemonsets.annotations.a"]),
        ({}, {"daemonsets": {"tolerations": [{"operator": "Exists"}]}}, ["daemonsets.tolerations"]),
        ({}, {"daemonsets": {"priorityClassName": "x"}}, ["daemonsets.priorityClassName"]),
        ({}, {"daemonsets": {"podSecurityContext": {"runAsUser": 0}}}, ["daemonsets.podSecurityContext.runAsUser"]),
        ({}, {"validator": {"version": "v2", "image": "i"}}, ["validator.image", "validator.version"]),
        ({}, {"validator": {"imagePullSecrets": ["x"]}}, ["validator.imagePullSecrets"]),
        ({}, {"validator": {"resources": {"limits": {"cpu": "1"}}}}, ["validator.resources.limits.cpu"]),
        ({}, {"validator": {"toolkit": {"env": [{"name": "A", "value": "1"}]}}}, ["validator.toolkit.env"]),
        (
            {},
            {"hostPaths": {"rootFS": "/host", "driverInstallDir": "/x"}},
            ["hostPaths.driverInstallDir", "hostPaths.rootFS"],
        ),
        ({}, {"operator": {"runtimeClass": "gpu"}}, ["operator.runtimeClass"]),
        ({}, {"cdi": {"nriPluginEnabled": True}}, ["cdi.nriPluginEnabled"]),
        ({}, {"cdi": {"enabled": False}}, ["cdi.enabled"]),
        ({}, {"toolkit": {"installDir": "/opt"}}, ["toolkit.installDir"]),
        ({}, {"toolkit": {"enabled": False}}, ["toolkit.enabled"]),
    ],
)
def test_what_is_in_the_template_of_the_mig_managers_starts_them_again(
    before: Json, after: Json, fields: list[str]
) -> None:
    for operator in (OLD, NEW, Operator()):
        assert starts(before, after, operator) == fields


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"driver": {"version": "595"}, "devicePlugin": {"version": "v2"}, "mig": {"strategy": "mixed"}}),
        ({}, {"migManager": {"config": {"default": "all-disabled"}, "env": [], "hostNetwork": False}}),
        ({}, {"migManager": {"enabled": False, "version": "v2"}}),
        ({"migManager": {"enabled": False}}, {"migManager": {"enabled": False, "version": "v2"}}),
        ({}, {"daemonsets": {"updateStrategy": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "2"}}}),
        ({}, {"daemonsets": {"labels": {"app": "x", "app.kubernetes.io/part-of": "x"}}}),
        ({}, {"validator": {"driver": {"env": [{"name": "A"}]}, "args": ["x"], "env": [{"name": "A"}]}}),
        ({}, {"hostPaths": {"rootFS": "/", "kubeletRootDir": "/x"}}),
        ({}, {"toolkit": {"version": "v2", "installDir": "/usr/local/nvidia"}, "operator": {"labels": {"a": "b"}}}),
        ({"cdi": {"enabled": False}}, {"cdi": {"enabled": False}, "toolkit": {"enabled": False, "installDir": "/opt"}}),
        ({"toolkit": {"enabled": False}}, {"toolkit": {"enabled": False, "installDir": "/opt"}}),
        ({"daemonsets": {"updateStrategy": "OnDelete"}}, {}),
        (
            {},
            {"daemonsets": {"updateStrategy": "OnDelete", "annotations": {"a": "b"}}, "migManager": {"version": "v2"}},
        ),
    ],
)
def test_the_mig_managers_go_on_with_every_other_change(before: Json, after: Json) -> None:
    for operator in (OLD, NEW, Operator()):
        assert starts(before, after, operator) == []


def test_a_first_mig_manager_starts_even_where_updates_wait() -> None:
    waits = {"daemonsets": {"updateStrategy": "OnDelete"}}
    assert starts({**waits, "migManager": {"enabled": False}}, waits) == ["migManager.enabled"]


def test_mig_managers_that_wait_for_their_replacement_start_when_updates_go_on() -> None:
    waiting, waits = Operator((26, 7), (26, 7), managers_outdated=True), {"daemonsets": {"updateStrategy": "OnDelete"}}
    assert starts(waits, {}, waiting) == ["daemonsets.updateStrategy"]
    assert starts({}, {}, waiting) == starts(waits, waits, waiting) == []


def test_a_new_operator_starts_the_mig_managers() -> None:
    for lines in (((26, 7), (26, 11)), ((26, 3), (26, 7))):
        assert starts({}, {}, Operator(*lines)) == ["operator"]
    assert starts({}, {}, Operator(images=("a", "b"))) == ["operator image"]
    assert starts({}, {}, Operator((26, 7), (26, 7), images=("a", "b"))) == starts({}, {}, Operator()) == []
    off = {"migManager": {"enabled": False}}
    assert starts(off, off, Operator((26, 3), (26, 7))) == []


def test_a_change_names_its_values_its_effect_and_the_operand() -> None:
    labels = {"daemonsets": {"labels": {"helm.sh/chart": "a"}}, "toolkit": {"version": "v1"}}
    newer = {"daemonsets": {"labels": {"helm.sh/chart": "b"}}, "toolkit": {"version": "v2"}}
    first, second, third = disruption.changes(spec(**labels), spec(**newer), OLD)
    assert (first.field, first.before, first.after) == ("daemonsets.labels.helm.sh/chart", "a", "b")
    assert "evicts GPU pods" in first.effect and first.operand == "driver"
    assert (second.field, second.before, second.after) == ("toolkit.version", "v1", "v2")
    assert "restarts the container runtime" in second.effect and second.operand == "container-toolkit"
    assert third == dataclasses.replace(first, effect=disruption.STARTS_MANAGERS, operand="mig-manager")
    upgrade = disruption.changes(spec(), spec(), Operator((26, 3), (26, 7)))[0]
    assert (upgrade.before, upgrade.after) == ("v26.3", "v26.7")
    assert disruption.changes(spec(), spec({"env": [1]}), OLD)[0].before is None


def test_the_line_of_an_operator() -> None:
    assert disruption.line("gpu-operator:v26.7.1") == (26, 7) and disruption.line("main-latest") is None
