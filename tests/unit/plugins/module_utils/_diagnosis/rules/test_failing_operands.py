# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import (
    failing_operands,
    out_of_memory,
    validator,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from tests.unit import diagnosed

RULES = (*validator.RULES, *failing_operands.RULES, *out_of_memory.RULES)

LABEL = "nvidia.com/gpu.deploy.driver"
VECTOR = "Failed to allocate device vector A (error code {})!"


def cuda(text: str) -> TextLine:
    return diagnosed.log(text, "nvidia-cuda-validator-qx58z", "cuda-validation")


def plugin(text: str) -> TextLine:
    return diagnosed.log(text, "nvidia-device-plugin-daemonset-x7k2p", "nvidia-device-plugin")


def exporter(text: str) -> TextLine:
    return diagnosed.log(text, "nvidia-dcgm-exporter-x7k2p", "nvidia-dcgm-exporter")


WORDS = {
    # https://github.com/NVIDIA/dcgm-exporter/issues/443
    "DCGMDoesNotStart": exporter("CacheManager Init Failed. Error: -17"),
    # https://github.com/NVIDIA/gpu-operator/issues/381
    "DriverOnHostAndInContainer": diagnosed.log(
        "NVIDIA GPU driver is already pre-installed on the node, will not proceed with the containerized driver "
        "installation. This pod can be disabled through 'nvidia.com/gpu.deploy.driver=false' node label.",
        "nvidia-driver-daemonset-k9jnv",
        "k8s-driver-manager",
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/1687
    "ValidatorKnowsNoDriver": TextLine("WARN[0000] failed to validate the driver, retrying after 5 seconds"),
    # assets/state-container-toolkit/0400_configmap.yaml of NVIDIA/gpu-operator
    "WaitsForDriver": TextLine("waiting for the driver validations to be ready..."),
    # https://github.com/NVIDIA/gpu-operator/issues/378
    "WaitsForToolkit": TextLine("waiting for nvidia container stack to be setup"),
    # https://github.com/NVIDIA/gpu-operator/issues/1374
    "ToolkitNotInEffect": TextLine(
        'toolkit-validation container fails with "nvidia-smi": executable file not found in $PATH'
    ),
    # https://github.com/NVIDIA/cuda-samples/issues/170
    "ValidatorArchitecture": cuda(
        "Failed to launch vectorAdd kernel (error code no kernel image is available for execution on the device)!"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/1947
    "ValidatorNewerThanDriver": cuda(VECTOR.format("CUDA driver version is insufficient for CUDA runtime version")),
    # https://github.com/NVIDIA/gpu-operator/issues/2842
    "CUDARefusesTest": cuda(VECTOR.format("CUDA-capable device(s) is/are busy or unavailable")),
    # cmd/nvidia-validator/main.go of NVIDIA/gpu-operator
    "DeviceLinksFail": diagnosed.log(
        "Failed to create symlinks under /dev/char that point to all possible NVIDIA character devices.",
        "nvidia-operator-validator-x7k2p",
        "driver-validation",
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/315
    "MountNotShared": diagnosed.event(
        'Error: failed to generate container spec: path "/run/nvidia/validations" is mounted on "/run" but it is not a '
        "shared mount",
        "nvidia-container-toolkit-daemonset-x7k2p",
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/425
    "DriverRootWrong": diagnosed.event(
        "lstat /run/nvidia/driver/dev/nvidiactl: no such file or directory", "nvidia-device-plugin-validator-x7k2p"
    ),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/82
    "DevicePluginCannotRegister": plugin("Could not register device plugin: context deadline exceeded"),
    # internal/plugin/factory.go of NVIDIA/k8s-device-plugin
    "DevicePluginSeesNoDriver": plugin("E1123 09:00:00.000000 1 factory.go:118] Incompatible strategy detected auto"),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/189
    "DevicePluginGaveUpGPU": plugin(
        "XidCriticalError: Xid=69 on Device=GPU-7540a9b3-eeb9-1214-1526-f93c9ea826a8, the device will go unhealthy."
    ),
    # internal/plugin/server.go of NVIDIA/k8s-device-plugin
    "DeviceHealthUnwatched": plugin(
        "Failed to start health check: failed to initialize NVML: Unknown Error; continuing with health checks disabled"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/679
    "NVMLPermissionDenied": diagnosed.event(
        "stderr: nvidia-container-cli.real: initialization error: nvml error: insufficient permissions: unknown"
    ),
    # https://github.com/NVIDIA/dcgm-exporter/issues/148
    "ExporterProfilingFails": exporter(
        'level=fatal msg="Failed to watch metrics: Error watching fields: The third-party Profiling module returned an '
        'unrecoverable error"'
    ),
    # https://github.com/NVIDIA/dcgm-exporter/issues/459
    "ExporterWithoutProfiling": exporter(
        "INFO Not collecting DCP metrics: This request is serviced by a module of DCGM that is not currently loaded"
    ),
    # internal/pkg/capabilities/capabilities.go of NVIDIA/dcgm-exporter
    "ExporterLacksPrivilege": exporter(
        "dcgm-exporter doesn't have sufficient privileges to expose profiling metrics. To get profiling metrics with "
        "dcgm-exporter, use --cap-add SYS_ADMIN"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/414
    "ExporterWithoutDCGM": exporter(
        'level=fatal msg="Error connecting to nv-hostengine: Host engine connection invalid/disconnected"'
    ),
    # internal/pkg/transformation/kubernetes.go of NVIDIA/dcgm-exporter
    "ExporterWithoutPods": exporter('level=WARN msg="Failed to get pod mappings" error="context deadline exceeded"'),
    "ExporterWithoutPodLabels": exporter(
        'level=WARN msg="Failed to get clientset, pod labels will not be available" error="x"'
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/220
    "VGPUUnlicensed": TextLine("        License Status                    : Unlicensed (Restricted)"),
}


def test_an_exporter_that_ends_for_want_of_the_profiling_module() -> None:
    # https://github.com/NVIDIA/gpu-monitoring-tools/issues/141
    text = "Error watching fields: This request is serviced by a module of DCGM that is not currently loaded"
    assert list(diagnosed.found(RULES, exporter(f'level=fatal msg="{text}"'))) == ["ExporterProfilingFails"]


def test_an_exporter_that_is_ready_and_silent_is_named() -> None:
    # https://github.com/NVIDIA/go-dcgm/issues/38
    row = {
        "node": "gpu-0000",
        "ok": False,
        "reason": "The exporter reports no GPU.",
        "pod": "nvidia-dcgm-exporter-x7k2p",
    }
    evidence: Json = {"stack": diagnosed.stack(diagnosed.row()), "objects": {"exporters": [row, {"ok": True}]}}
    (finding,) = diagnosed.found(RULES, **evidence).values()
    assert (finding.code, finding.nodes) == ("ExporterSilent", ("gpu-0000",))
    assert finding.objects == ("pod gpu-operator/nvidia-dcgm-exporter-x7k2p",)
    assert finding.cause == wording(
        "The exporter's pod is ready, and Prometheus gets no figures of GPU use from it: The exporter reports no GPU."
    )
    evidence["objects"] = {"exporters": [{"ok": True}]}
    assert diagnosed.found(RULES, **evidence) == {}


@pytest.mark.parametrize("code", WORDS)
def test_published_words_give_the_code_and_nothing_else(code: str) -> None:
    assert list(diagnosed.found(RULES, WORDS[code])) == [code]


@pytest.mark.parametrize(
    "line",
    [
        cuda("[Vector addition of 50000 elements]"),
        cuda(VECTOR.format("system not yet initialized")),
        plugin("Registered device plugin for 'nvidia.com/gpu' with Kubelet"),
        plugin("Processing event {Device:{Handle:0x7f} EventType:8 EventData:43}"),
        exporter('msg="Collecting DCP Metrics"'),
        TextLine('OCI runtime exec failed: exec: "nvidia-smi": executable file not found in $PATH'),
        TextLine("Memory cgroup out of memory: Killed process 42 (python3)", "kernel", "kernel log"),
        exporter('msg="Attempting to connect to remote hostengine at nvidia-dcgm:5555"'),
        TextLine("    License Status                    : Licensed (Expiry: 2027-1-1 0:0:0 GMT)"),
        TextLine("Oct 12 17:22:37 x nvidia-gridd: License acquired successfully. (Info: dls.example.com)"),
        diagnosed.event("insufficient permissions to list pods"),
        diagnosed.event('path "/data" is mounted on "/" as a shared mount'),
    ],
)
def test_similar_words_give_nothing(line: TextLine) -> None:
    assert diagnosed.found(RULES, line) == {}


def test_feature_discovery_without_the_library_is_named_too() -> None:
    # https://github.com/NVIDIA/gpu-feature-discovery/issues/25
    line = "failed to initialize NVML: unexpected failure calling nvml.Init: error opening libnvidia-ml.so.1: "
    assert list(diagnosed.found(RULES, line)) == ["DevicePluginSeesNoDriver"]
    assert diagnosed.found(RULES, "error opening libnvidia-ml.so.1 for reading: it is a directory") == {}


def test_a_licence_that_was_not_acquired_is_named_from_the_journal() -> None:
    # https://github.com/NVIDIA/nvidia-docker/issues/1787
    line = "Oct 12 17:22:37 x nvidia-gridd: Failed to acquire license from dls.example.com"
    assert list(diagnosed.found(RULES, line)) == ["VGPUUnlicensed"]


WAITING = {"container-toolkit": "Init:0/1", "operator-validator": "Init:0/4", "device-plugin": "Init:0/1"}


def without_driver(
    waiting: Json | None = None, label: str | None = None, facts: Json | None = None, enabled: bool = False
) -> t.Any:
    node = {"metadata": {"name": diagnosed.NODE, "labels": {LABEL: label} if label else {}}, "spec": {}}
    return diagnosed.found(
        RULES,
        stack=diagnosed.stack(diagnosed.row(waiting_for=WAITING if waiting is None else waiting)),
        spec={"driver": {"enabled": enabled}},
        objects={"nodes": [node]},
        hosts={diagnosed.NODE: {"facts": facts}} if facts else {},
    )


def test_a_host_without_a_driver_that_the_validator_finds_is_one_finding() -> None:
    found = without_driver()
    assert (list(found), found["ValidatorKnowsNoDriver"].certainty) == (["ValidatorKnowsNoDriver"], "possible")
    found = without_driver(facts={"driver": {"loaded": "595.91.07"}})
    assert found["ValidatorKnowsNoDriver"].certainty == "likely"


def test_a_driver_that_a_pod_brings_or_that_is_known_to_be_missing_is_not_looked_for_on_the_host() -> None:
    assert "ValidatorKnowsNoDriver" not in without_driver(enabled=True)
    assert "ValidatorKnowsNoDriver" not in without_driver({**WAITING, "driver": "CrashLoopBackOff"})
    assert "ValidatorKnowsNoDriver" not in without_driver(facts={"driver": {"loaded": None}})
    assert "ValidatorKnowsNoDriver" not in without_driver({"operator-validator": "Init:3/4"})


def test_a_label_that_promises_a_driver_on_the_host_is_compared_with_the_host() -> None:
    missing, there = {"driver": {"loaded": None}}, {"driver": {"loaded": "595.91.07"}}
    assert list(without_driver(label="pre-installed", facts=missing, enabled=True)) == ["PreInstalledLabelStale"]
    assert "PreInstalledLabelStale" not in without_driver(label="pre-installed", facts=there, enabled=True)
    assert "PreInstalledLabelStale" not in without_driver(label="pre-installed", enabled=True)
    assert "PreInstalledLabelStale" not in without_driver(label="true", facts=missing, enabled=True)


def pod(name: str, container: str, app: str, limit: str = "350Mi", **status: t.Any) -> Json:
    spec = {"name": container, "resources": {"limits": {"memory": limit}}}
    return {
        "metadata": {"name": name, "namespace": "gpu-operator", "labels": {"app": app}},
        "spec": {"nodeName": diagnosed.NODE, "containers": [spec]},
        "status": {"containerStatuses": [{"name": container, "restartCount": 7, **status}]},
    }


KILLED = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
MEMORY = {
    "OperatorOutOfMemory": pod("gpu-operator-84d9f557c8-lqp5z", "gpu-operator", "gpu-operator", **KILLED),
    "ExporterOutOfMemory": pod("nvidia-dcgm-exporter-x7k2p", "nvidia-dcgm-exporter", "nvidia-dcgm-exporter", **KILLED),
    "ContainerOutOfMemory": pod("gpu-operator-node-feature-discovery-gc-6dd8c5b44f-dnhh7", "gc", "nfd", **KILLED),
}


@pytest.mark.parametrize("code", MEMORY)
def test_a_container_that_was_killed_for_memory_is_named_with_its_limit(code: str) -> None:
    found = diagnosed.found(RULES, pods=[MEMORY[code]])
    assert list(found) == [code]
    assert "(350Mi)" in found[code].cause


def test_a_container_that_was_killed_for_another_reason_gives_nothing() -> None:
    ended = {"lastState": {"terminated": {"reason": "Error", "exitCode": 137}}}
    assert diagnosed.found(RULES, pods=[pod("nvidia-dcgm-x7k2p", "nvidia-dcgm-ctr", "nvidia-dcgm", **ended)]) == {}


def test_a_container_of_others_that_was_killed_for_memory_gives_nothing() -> None:
    # https://github.com/dell/csm/issues/1323
    assert diagnosed.found(RULES, pods=[pod("dell-csm-operator-7d8c5b9f4-x2x9q", "manager", "dell", **KILLED)]) == {}
    assert diagnosed.found(RULES, pods=[pod("train-7w6fz", "gpu-operator-client", "train", **KILLED)]) == {}


IMAGE = "OOMKilled: container of the image {}, memory limit 358Mi"


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        (IMAGE.format("nvcr.io/nvidia/k8s/dcgm-exporter:3.3.8-3.6.0-ubuntu22.04"), ["ExporterOutOfMemory"]),
        (IMAGE.format("nvcr.io/nvidia/gpu-operator@sha256:0a1b"), ["OperatorOutOfMemory"]),
        (IMAGE.format("registry.k8s.io/nfd/node-feature-discovery:v0.18.3"), ["ContainerOutOfMemory"]),
        (IMAGE.format("localhost:5000/gpu-feature-discovery"), ["ContainerOutOfMemory"]),
        (IMAGE.format("/dell-csm-operator:v1.5.0"), []),
        (IMAGE.format("quay.io/prometheus-operator/prometheus-operator:v0.59.1"), []),
        ("OOMKilled: pod gpu-operator/gpu-operator-84d9f557c8-lqp5z", ["OperatorOutOfMemory"]),
        ("OOMKilled: pod nvidia-dcgm-exporter-x7k2p", ["ExporterOutOfMemory"]),
        ("OOMKilled: pod monitoring/dcgm-exporter-6xn9b", ["ExporterOutOfMemory"]),
        ("OOMKilled: pod gpu-operator-node-feature-discovery-gc-6dd8c5b44f-dnhh7", ["ContainerOutOfMemory"]),
        ("OOMKilled: pod nvidia-device-plugin-daemonset-x7k2p", ["ContainerOutOfMemory"]),
        ("OOMKilled: pod default/train-7w6fz", []),
        ("OOMKilled: pod grafana-operator-7d8c5b9f4-x2x9q", []),
    ],
)
def test_parts_of_descriptions_and_tables_name_who_was_killed_for_memory(line: str, codes: list[str]) -> None:
    assert list(diagnosed.found(RULES, line)) == codes


def test_the_kernel_names_a_process_that_was_killed_for_memory() -> None:
    # https://github.com/NVIDIA/dcgm-exporter/issues/702
    line = "Memory cgroup out of memory: Killed process 3833171 (dcgm-exporter) total-vm:4478432kB, anon-rss:517656kB"
    assert list(diagnosed.found(RULES, line)) == ["ExporterOutOfMemory"]


def toolkit(exit_code: int, restarts: int) -> list[str]:
    ended = {"lastState": {"terminated": {"reason": "Completed" if not exit_code else "Error", "exitCode": exit_code}}}
    name = "nvidia-container-toolkit-daemonset-x7k2p"
    item = pod(name, "nvidia-container-toolkit-ctr", "nvidia-container-toolkit-daemonset", **ended)
    item["status"]["containerStatuses"][0]["restartCount"] = restarts
    return list(diagnosed.found(RULES, pods=[item]))


def test_a_toolkit_that_ends_again_and_again_without_an_error_is_named() -> None:
    # https://github.com/NVIDIA/gpu-operator/issues/456
    assert toolkit(0, 7) == ["ToolkitRestartsRuntime"]
    assert toolkit(1, 7) == []
    assert toolkit(0, 1) == []


def test_every_rule_has_a_case() -> None:
    by_state = {"PreInstalledLabelStale", "ToolkitRestartsRuntime", "ExporterSilent"}
    assert {rule.code for rule in RULES} == {*WORDS, *MEMORY, *by_state}


@pytest.mark.parametrize(
    ("one", "other", "look"),
    [
        ("ValidatorNewerThanDriver", "DevicePluginSeesNoDriver", "runtimeClassName nvidia"),
        ("ValidatorKnowsNoDriver", "DriverRootWrong", "nvidia-smi"),
        ("NVMLPermissionDenied", "DevicePluginSeesNoDriver", "ausearch"),
    ],
)
def test_causes_with_similar_evidence_say_how_to_tell_them_apart(one: str, other: str, look: str) -> None:
    lines = [dataclasses.replace(WORDS[code], node=diagnosed.NODE) for code in (one, other)]
    both = diagnosed.found(RULES, *lines)
    assert {*both} == {one, other}
    for each in both.values():
        (text,) = each.tell_apart
        assert look in text
    assert diagnosed.found(RULES, lines[0])[one].tell_apart == ()


def test_a_toolkit_in_a_loop_and_one_that_is_not_in_effect_say_how_to_tell_them_apart() -> None:
    node = "gpu-0"
    status = {"lastState": {"terminated": {"exitCode": 0, "reason": "Completed"}}, "restartCount": 7}
    name = "nvidia-container-toolkit-daemonset-x7k2p"
    loop = pod(name, "nvidia-container-toolkit-ctr", "nvidia-container-toolkit-daemonset", **status)
    loop["spec"]["nodeName"] = node
    found = diagnosed.found(RULES, dataclasses.replace(WORDS["ToolkitNotInEffect"], node=node), pods=[loop])
    assert {*found} == {"ToolkitRestartsRuntime", "ToolkitNotInEffect"}
    for each in found.values():
        assert "RESTARTS" in each.tell_apart[0]


CALLS = 'level=info msg="Attempting to connect to remote hostengine at nvidia-dcgm:5555"'
FAILS = 'level=error msg="Encountered a failure." stacktrace="goroutine 1 [running]"'
ANSWERS = 'level=info msg="DCGM successfully initialized!"'


def test_an_exporter_that_calls_dcgm_and_fails_does_not_reach_it() -> None:
    # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html
    found = diagnosed.found(RULES, exporter(CALLS), exporter(FAILS))
    assert found["ExporterWithoutDCGM"].certainty == "likely"


@pytest.mark.parametrize("texts", [(CALLS, ANSWERS), (CALLS, ANSWERS, FAILS), (FAILS,)])
def test_an_exporter_that_fails_for_another_reason_gives_nothing(texts: tuple[str, ...]) -> None:
    assert diagnosed.found(RULES, *(exporter(text) for text in texts)) == {}


def test_metrics_that_are_missing_follow_from_a_profiling_that_fails() -> None:
    found = diagnosed.found(RULES, WORDS["ExporterProfilingFails"], WORDS["ExporterWithoutProfiling"])
    assert list(found) == ["ExporterProfilingFails"]
