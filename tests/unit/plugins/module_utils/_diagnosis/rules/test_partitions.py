# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import device_sharing, partitions
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit import diagnosed

RULES = (*partitions.RULES, *device_sharing.RULES)


def manager(text: str) -> TextLine:
    return diagnosed.log(text, "nvidia-mig-manager-x7k2p", "nvidia-mig-manager")


def plugin(text: str, container: str = "nvidia-device-plugin") -> TextLine:
    return diagnosed.log(text, "nvidia-device-plugin-daemonset-x7k2p", container)


WORDS = {
    "MIGLayoutUnknown": manager(
        'time="2026-02-27T16:54:19Z" level=fatal msg="Error selecting MIG config: selected mig-config not present: '
        'all-9g.80gb"'
    ),
    "MIGLayoutsInvalid": manager(
        "Error parsing config file: unmarshal error: error unmarshaling JSON: unknown field mig-enable"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/262
    "MIGLayoutRefused": manager("Unable to validate the selected MIG configuration"),
    # https://github.com/NVIDIA/gpu-operator/issues/351
    "MIGProfileMisnamed": manager("Unsupported MIG Device specified 7g.80gb, expected 7g.79gb instead"),
    # https://github.com/NVIDIA/mig-parted/issues/181
    "MIGBusy": manager("  GPU 00000000:01:00.0: In use by another client"),
    # https://github.com/NVIDIA/gpu-operator/issues/1606
    "MIGRebootPending": manager(
        'time="2025-08-19T11:17:47Z" level=error msg="\\nResetting GPU 00000000:00:04.0 is not supported.\\n"'
    ),
    "MIGModeUnchanged": manager("unable to apply MIG config with MIG mode disabled"),
    "MIGNotCapable": manager("cannot set MIG mode on non MIG-capable GPU"),
    "MIGLayoutDoesNotFit": manager(
        "error setting MIGConfig: error attempting multiple config orderings: error creating GPU instance for "
        "'3g.40gb': Insufficient Resources"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/2833, in the words of pkg/mig/reconfigure/reconfigure.go
    "MIGStuck": manager("Error: failed to wait for pods to be deleted: dcgm pod did not shutdown: timed out"),
    # https://github.com/NVIDIA/gpu-operator/issues/460
    "MIGMixedUnderSingle": plugin(
        "panic: At least one device with migEnabled=true was not configured correctly: More than one MIG device type "
        "present on node"
    ),
    "MIGDevicesMissing": plugin(
        "invalid MIG configuration: at least one device with migEnabled=true was not configured correctly: device 0 "
        "has no MIG devices configured"
    ),
    "PluginConfigMissing": plugin("E1123 09:00:00.000000 1 main.go:209] specified config a100-x4 does not exist", "x"),
    "PluginConfigEmpty": plugin("no configuration files available", "config-manager-init"),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/364
    "PluginConfigStuck": plugin(
        "error creating symlink: symlink /available-configs/config0 /config/config.yaml: file exists", "config-manager"
    ),
    "PluginConfigInvalid": plugin(
        "E1123 09:00:00.000000 1 main.go:173] error starting plugins: unable to load config: unable to finalize "
        "config: unable to parse config file: error parsing config file: unmarshal error: no resources specified"
    ),
    "MPSNotSupported": plugin("unable to validate flags: using --mig-strategy=mixed is not supported with MPS"),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/1094
    "MPSServerDies": plugin("[2024-12-10 06:38:01.170 Control    64] Server 92 exited with status 1"),
    "MPSDaemonMissing": plugin("error waiting for MPS daemon: context deadline exceeded"),
}


@pytest.mark.parametrize("code", WORDS)
def test_published_words_give_the_code(code: str) -> None:
    row = diagnosed.row(mig={"state": "pending"})
    assert list(diagnosed.found(RULES, WORDS[code], stack=diagnosed.stack(row))) == [code]


@pytest.mark.parametrize(
    "line",
    [
        manager("Selected MIG configuration is valid"),
        TextLine("Error: unable to load config: (6, 21): unexpected token type in inline table"),
        manager("Waiting for the device-plugin to shutdown"),
        manager("MIG configuration applied successfully"),
        manager("Current MIG mode: Disabled"),
        manager("assertion failure: selected configuration not currently applied"),
        plugin("Updating to config: a100-x4", "config-manager"),
        plugin("No value set and no default set. Attempting fallback strategies: [empty]", "config-manager"),
        plugin("device 3 has no MIG devices configured"),
        diagnosed.log("Address in use by another client", "web-0", "web"),
        TextLine("Failed to unload: module is in use", "kernel", "kernel log", diagnosed.NODE),
    ],
)
def test_similar_words_give_nothing(line: TextLine) -> None:
    assert diagnosed.found(RULES, line) == {}


def test_a_mig_manager_that_was_slow_and_has_succeeded_since_is_not_stuck() -> None:
    stack = diagnosed.stack(diagnosed.row(mig={"state": "success"}))
    assert diagnosed.found(RULES, WORDS["MIGStuck"], stack=stack) == {}


def host(**mig: t.Any) -> Json:
    facts = {"mode": True, "pending": True, "instances": [{"index": 0}], "gpu_instances": [{"id": 2}]}
    return {diagnosed.NODE: {"facts": {"gpus": [{"pci_address": "0000:18:00.0", "mig": facts | mig}]}}}


def test_a_mode_that_waits_for_a_reset_is_named_from_facts() -> None:
    found = diagnosed.found(RULES, hosts=host(mode=False))["MIGRebootPending"]
    assert "will be on after the next reset" in found.cause
    assert found.objects == ("GPU 0000:18:00.0",)


def test_mig_without_devices_is_named_from_facts() -> None:
    found = diagnosed.found(RULES, hosts=host(instances=[], gpu_instances=[]))
    assert list(found) == ["MIGWithoutInstances"]


@pytest.mark.parametrize(
    "mig, state",
    [
        ({}, "success"),
        ({"instances": [], "gpu_instances": []}, "pending"),
        ({"instances": [], "gpu_instances": [{"id": 2}]}, "success"),
        ({"mode": False, "pending": False, "instances": [], "gpu_instances": []}, "success"),
        ({"mode": None, "pending": None}, None),
    ],
)
def test_other_facts_give_nothing(mig: Json, state: str | None) -> None:
    stack = diagnosed.stack(diagnosed.row(mig={"state": state}))
    assert diagnosed.found(RULES, hosts=host(**mig), stack=stack) == {}


CONFIG = """version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""


def sharing(key: str | None, replicas: int, text: str = CONFIG, default: str = "") -> dict[str, t.Any]:
    row = diagnosed.row(sharing={"strategy": "none", "config": key})
    row["slices"][0]["replicas"] = replicas
    config_map = {"metadata": {"name": "plugin"}, "data": {"four": text, "plain": "version: v1\n"}}
    return diagnosed.found(
        RULES,
        stack=diagnosed.stack(row),
        spec={"devicePlugin": {"config": {"name": "plugin", "default": default}}},
        objects={"configmaps": [config_map]},
    )


def test_a_configuration_that_is_not_in_effect_is_named() -> None:
    assert "configuration four of ConfigMap plugin" in sharing("four", 1)["SharingNotInEffect"].cause
    assert list(sharing(None, 1, default="four")) == ["SharingNotInEffect"]


def test_a_configuration_that_is_in_effect_or_asks_for_nothing_gives_nothing() -> None:
    assert sharing("four", 4) == {}
    assert sharing("plain", 1) == {}
    assert sharing(None, 1) == {}
    assert sharing("four", 1, CONFIG.replace("replicas: 4", "replicas: 1")) == {}


def test_a_mode_change_that_is_pending_counts_only_after_a_failure() -> None:
    # https://github.com/NVIDIA/gpu-operator/issues/668
    line = manager('level=debug msg="At least one mode change pending"')
    assert diagnosed.found(RULES, line)["MIGRebootPending"].certainty == "likely"
    assert diagnosed.found(RULES, line, stack=diagnosed.stack(diagnosed.row(mig={"state": "success"}))) == {}


def test_every_rule_has_a_case() -> None:
    assert {rule.code for rule in RULES} == {*WORDS, "MIGWithoutInstances", "SharingNotInEffect"}


@pytest.mark.parametrize("cause", ["MIGLayoutUnknown", "MIGLayoutsInvalid"])
def test_a_refused_layout_follows_from_what_is_wrong_with_it(cause: str) -> None:
    found = diagnosed.found(RULES, WORDS[cause], WORDS["MIGLayoutRefused"])
    assert [each.code for each in found[cause].consequences] == ["MIGLayoutRefused"]
    assert list(found) == [cause]


def test_what_the_device_plugin_says_of_mig_without_devices_follows_from_the_host() -> None:
    facts = host(instances=[], gpu_instances=[])
    found = diagnosed.found(RULES, WORDS["MIGDevicesMissing"], hosts=facts)
    assert [each.code for each in found["MIGWithoutInstances"].consequences] == ["MIGDevicesMissing"]
    assert list(found) == ["MIGWithoutInstances"]


def test_the_empty_table_of_nvidia_smi_shows_mig_without_devices() -> None:
    # https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
    line = "|  No MIG devices found                                                                 |"
    (finding,) = diagnosed.found(RULES, line).values()
    assert (finding.code, finding.certainty) == ("MIGWithoutInstances", "likely")
    assert diagnosed.found(RULES, "2022/08/11 06:57:10 No MIG devices found. Falling back to mig.strategy=none") == {}
