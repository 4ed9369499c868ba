# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import discovery, operator
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit import diagnosed

RULES = (*operator.RULES, *discovery.RULES)

NFD = "feature.node.kubernetes.io/"
KERNEL = f"{NFD}kernel-version.full"


def operator(text: str) -> TextLine:
    return diagnosed.log(text, "gpu-operator-6996bfc8df-82c66", "gpu-operator", node="cpu-0")


WORDS = {
    # https://github.com/NVIDIA/gpu-operator/issues/1000
    "NFDTooOldForDriverToolkit": TextLine(
        "The DriverToolkit is enabled in the GPU Operator ClusterPolicy, but the NFD version deployed in the cluster is "
        "too old to support it."
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/602
    "OperatorCRDMissing": operator(
        "failed to wait for nvidia-driver-controller caches to sync: timed out waiting for cache to be synced for Kind "
        "*v1alpha1.NVIDIADriver"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/342
    "CRDOlderThanChart": TextLine(
        'unable to build kubernetes objects from release manifest: error validating "": error validating data: '
        'ValidationError(ClusterPolicy.spec.driver): unknown field "kernelModuleConfig" in '
        "com.nvidia.v1.ClusterPolicy.spec.driver"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/139
    "CRDDemandsOldField": TextLine(
        'Error: UPGRADE FAILED: cannot patch "cluster-policy" with kind ClusterPolicy: ClusterPolicy.nvidia.com '
        '"cluster-policy" is invalid: spec.operator.deployGFD: Required value'
    ),
    "AccountNotPermitted": operator(
        'nodes is forbidden: User "system:serviceaccount:gpu-operator:gpu-operator" cannot list resource "nodes" in '
        'API group "" at the cluster scope'
    ),
    "OperatorLosesLease": operator('{"level":"error","logger":"setup","msg":"problem running manager","error":"leader '
                                   'election lost"}'),
    # https://github.com/NVIDIA/gpu-operator/issues/331
    "APIUnreachableFromPods": operator(
        'Get "https://172.21.0.1:443/api?timeout=32s": dial tcp 172.21.0.1:443: i/o timeout'
    ),
    "MonitoringNotInstalled": operator(
        'no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"'
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/423
    "NFDLabelsMissing": operator(
        "INFO controllers.ClusterPolicy Couldn't get kernelVersion, did you run the node feature discovery? "
        '{"Error": "Label.Node \\"feature.node.kubernetes.io/kernel-version.full\\" not found"}'
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/438
    "NoGPUNodeFound": operator(
        "INFO controllers.ClusterPolicy No GPU node in the cluster, do not create DaemonSets {}"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/429
    "NFDMasterUnreachable": diagnosed.log(
        "grpc: addrConn.createTransport failed to connect to {gpu-operator-node-feature-discovery-master:8080 "
        "gpu-operator-node-feature-discovery-master:8080 <nil> 0 <nil>}. Err: connection error",
        "gpu-operator-node-feature-discovery-worker-lf94x",
        "worker",
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/530
    "OperatorInstalledTwice": TextLine(
        'INSTALLATION FAILED: rendered manifests contain a resource that already exists. Unable to continue with '
        'install: ClusterRole "gpu-operator" in namespace "" exists and cannot be imported into the current release: '
        'invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by"'
    ),
    # https://github.com/ibm-mas/ansible-devops/pull/2449
    "NFDInstalledTwice": diagnosed.log(
        'E1123 09:00:00.000000 1 main.go:90] "error" err="listen tcp :8082: bind: address already in use"',
        "nfd-worker-lf94x",
        "nfd-worker",
    ),
    # The columns of kubectl get daemonsets
    "OperandWithoutNodes": TextLine(
        "gpu-operator   nvidia-device-plugin-daemonset  0  0  0  0  0  nvidia.com/gpu.deploy.device-plugin=true  6d"
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", WORDS)
def test_published_words_give_the_code_and_nothing_else(code: str) -> None:
    assert list(diagnosed.found(RULES, WORDS[code])) == [code]


@pytest.mark.parametrize(
    "line",
    [
        operator("ClusterPolicy is ready as all resources have been successfully reconciled"),
        operator("successfully acquired lease gpu-operator/53822513.nvidia.com"),
        operator('Operation cannot be fulfilled on clusterpolicies.nvidia.com "x": the object has been modified'),
        TextLine('cannot be handled as a Deployment: strict decoding error: unknown field "spec.x"'),
        TextLine("spec.template.spec.containers[0].image: Required value"),
        TextLine('pods is forbidden: User "jane" cannot list resource "pods" in API group ""'),
        diagnosed.log("failed to connect to postgres-master:5432", "web-0", "web"),
        operator('no matches for kind "VolumeReplication" in version "replication.storage.openshift.io/v1alpha1"'),
        operator("timed out waiting for cache to be synced for Kind *v1.Pod"),
        TextLine('ClusterRole "ingress-nginx" in namespace "" exists and cannot be imported into the current release: '
                 'invalid ownership metadata'),
        TextLine("would cause conflicts with another Operator providing these APIs: Elasticsearch (elastic.co/v1)"),
        diagnosed.log("listen tcp :8082: bind: address already in use", "web-0", "web"),
        # Nothing on these nodes has MIG, MPS, or a driver in a container.
        TextLine("nvidia-mig-manager   0   0   0   0   0   nvidia.com/gpu.deploy.mig-manager=true   6d"),
        TextLine("nvidia-driver-daemonset   0   0   0   0   0   nvidia.com/gpu.deploy.driver=true   6d"),
        TextLine("nvidia-dcgm-exporter   1   1   0   1   0   nvidia.com/gpu.deploy.dcgm-exporter=true   6d"),
    ],
)  # fmt: skip
def test_similar_words_give_nothing(line: TextLine) -> None:
    assert diagnosed.found(RULES, line) == {}


def deployment(version: str) -> Json:
    container = {"name": "gpu-operator", "image": f"nvcr.io/nvidia/gpu-operator:{version}"}
    template = {"metadata": {"labels": {"app": "gpu-operator"}}, "spec": {"containers": [container]}}
    return {"metadata": {"name": "gpu-operator", "namespace": "gpu-operator"}, "spec": {"template": template}}


def definitions(version: str, *plurals: str) -> dict[str, t.Any]:
    crds = [{"metadata": {"name": f"{plural}.nvidia.com"}} for plural in plurals]
    return diagnosed.found(RULES, objects={"customresourcedefinitions": crds, "deployments": [deployment(version)]})


def test_a_definition_that_the_release_needs_is_missed() -> None:
    found = definitions("v26.7.0", "clusterpolicies", "nvidiadrivers")
    assert "definition of GPUCluster" in found["OperatorCRDMissing"].cause
    assert definitions("v26.7.0", "clusterpolicies", "nvidiadrivers", "gpuclusters") == {}
    assert definitions("v26.3.3", "clusterpolicies", "nvidiadrivers") == {}
    assert diagnosed.found(RULES, objects={"deployments": [deployment("v26.7.0")]}) == {}


def node(name: str = diagnosed.NODE, *taints: Json, kernel: str = "6.8.0-31-generic", **labels: str) -> Json:
    named = {key.replace("__", "/"): text for key, text in labels.items()}
    return {
        "metadata": {"name": name, "labels": named},
        "spec": {"taints": list(taints)},
        "status": {"nodeInfo": {"kernelVersion": kernel}},
    }


def worker(*tolerations: Json) -> Json:
    image = "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"
    spec = {"containers": [{"name": "worker", "image": image}], "tolerations": list(tolerations)}
    return {"metadata": {"name": "nfd-worker", "namespace": "gpu-operator"}, "spec": {"template": {"spec": spec}}}


TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
OTHER = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}
ON_HOST = {diagnosed.NODE: {"facts": {"gpus": [{"pci_address": "0000:18:00.0"}]}}}


def test_a_taint_that_keeps_the_discovery_off_a_gpu_node_is_named() -> None:
    objects = {"nodes": [node(diagnosed.NODE, TAINT)], "daemonsets": [worker()]}
    assert diagnosed.found(RULES, objects=objects)["NFDKeptOff"].certainty == "likely"
    assert diagnosed.found(RULES, objects=objects, hosts=ON_HOST)["NFDKeptOff"].certainty == "certain"


@pytest.mark.parametrize(
    "objects",
    [
        {"nodes": [node(diagnosed.NODE, TAINT)], "daemonsets": [worker({"operator": "Exists"})]},
        {"nodes": [node(diagnosed.NODE, OTHER)], "daemonsets": [worker()]},
        {"nodes": [node(diagnosed.NODE, TAINT, **{f"{NFD}pci-10de.present": "true"})], "daemonsets": [worker()]},
        {"nodes": [node(diagnosed.NODE, TAINT)], "daemonsets": []},
        {"nodes": [node(diagnosed.NODE, TAINT)]},
    ],
)
def test_other_taints_give_nothing(objects: dict[str, list[Json]]) -> None:
    assert diagnosed.found(RULES, objects=objects) == {}


def test_a_kernel_label_is_compared_with_the_kernel() -> None:
    stack = diagnosed.stack(diagnosed.row())
    stale, right = node(**{KERNEL: "5.15.0-1-generic"}), node(**{KERNEL: "6.8.0-31-generic"})
    found = diagnosed.found(RULES, stack=stack, objects={"nodes": [stale]})["KernelLabelStale"]
    assert "says 5.15.0-1-generic, and the node runs 6.8.0-31-generic" in found.cause
    assert diagnosed.found(RULES, stack=stack, objects={"nodes": [right]}) == {}
    assert diagnosed.found(RULES, stack=stack, objects={"nodes": [node()]}) == {}


def test_gpus_that_the_discovery_misses_are_known_from_the_host() -> None:
    labelled, seen = {f"{NFD}cpu-model.id": "143"}, {f"{NFD}pci-10de.present": "true"}
    assert list(diagnosed.found(RULES, objects={"nodes": [node(**labelled)]}, hosts=ON_HOST)) == ["NFDMissesGPU"]
    assert diagnosed.found(RULES, objects={"nodes": [node(**seen)]}, hosts=ON_HOST) == {}
    assert diagnosed.found(RULES, objects={"nodes": [node(**labelled)]}) == {}


def ready(gpus: int, *reasons: Json, state: str = "ready") -> dict[str, t.Any]:
    stack = diagnosed.stack(diagnosed.row(allocatable={"nvidia.com/gpu": gpus}), reasons=reasons)
    policy = {"metadata": {"name": "cluster-policy"}, "status": {"state": state}}
    return diagnosed.found(RULES, stack=stack, objects={"clusterpolicies": [policy]})


def test_a_policy_that_is_ready_without_any_gpu_is_called_so_with_its_reason() -> None:
    reason = diagnosed.reason("NodesTainted", "1 of 1 GPU nodes (gpu-0000): taint a:NoExecute is not tolerated.")
    found = ready(0, reason)
    assert list(found) == ["FalseReady"]
    assert "taint a:NoExecute" in found["FalseReady"].cause


def test_a_policy_that_is_rightly_ready_or_not_ready_gives_nothing_of_this() -> None:
    reason = diagnosed.reason("NodesTainted", "taint")
    assert "FalseReady" not in ready(8, reason)
    assert "FalseReady" not in ready(0, reason, state="notReady")
    assert "FalseReady" not in ready(0, diagnosed.reason("NoAllocatableGPUs", "none"))


@pytest.mark.parametrize("state", ["ready", "notReady"])
def test_nvidiadrivers_in_conflict_are_the_cause_of_all_that_follows(state: str) -> None:
    words = "NVIDIADriver a, b: multiple NVIDIADrivers match the same node gpu-0000: [a b]"
    others = [diagnosed.reason(code, code) for code in ("NoNVIDIADriver", "DriverNotReady", "StateNotReady")]
    found = ready(0, diagnosed.reason("ConflictingNodeSelector", words), *others, state=state)
    first = next(iter(found.values()))
    assert (first.code, first.severity) == ("NVIDIADriversConflict", "failure")
    assert words in first.cause
    assert list(found) == ["NVIDIADriversConflict"]


def test_every_rule_has_a_case() -> None:
    by_state = {"NVIDIADriversConflict", "NFDKeptOff", "KernelLabelStale", "NFDMissesGPU", "FalseReady"}
    assert {rule.code for rule in RULES} == {*WORDS, *by_state}


def test_a_conflict_that_openshift_shows_over_two_lines_is_named() -> None:
    # https://github.com/NVIDIA/gpu-operator/issues/167
    lines = [
        "Installing Operator in selected namespace would cause conflicts with another Operator providing these APIs:",
        "ClusterPolicy (nvidia.com/v1)",
    ]
    found = diagnosed.found(RULES, *lines)["OperatorInstalledTwice"]
    assert found.certainty == "likely"
    assert "the definition of ClusterPolicy of another installation" in found.cause
    assert diagnosed.found(RULES, lines[1]) == {}


def test_a_daemonset_without_nodes_is_only_named_where_the_nodes_are_unknown() -> None:
    row = WORDS["OperandWithoutNodes"]
    assert diagnosed.found(RULES, row)["OperandWithoutNodes"].certainty == "possible"
    assert "OperandWithoutNodes" not in diagnosed.found(RULES, row, stack=diagnosed.stack(diagnosed.row()))
    found = diagnosed.found(RULES, row, WORDS["NFDLabelsMissing"])
    assert list(found) == ["NFDLabelsMissing"]


def test_missing_labels_and_missing_gpus_say_how_to_tell_them_apart() -> None:
    found = diagnosed.found(RULES, WORDS["NFDLabelsMissing"], WORDS["NoGPUNodeFound"])
    assert {*found} == {"NFDLabelsMissing", "NoGPUNodeFound"}
    for each in found.values():
        (text,) = each.tell_apart
        assert f"kubectl get nodes -L {KERNEL}" in text
    assert diagnosed.found(RULES, WORDS["NoGPUNodeFound"])["NoGPUNodeFound"].tell_apart == ()


def test_an_unknown_field_is_read_where_a_terminal_has_wrapped_its_message() -> None:
    # https://github.com/NVIDIA/gpu-operator/issues/347
    lines = (
        "        [ValidationError(ClusterPolicy.spec.devicePlugin): unknown field",
        '        "securityContext" in com.nvidia.v1.ClusterPolicy.spec.devicePlugin,',
    )
    (finding,) = diagnosed.found(RULES, *lines).values()
    assert finding.code == "CRDOlderThanChart" and "securityContext" in finding.cause
    assert diagnosed.found(RULES, '"securityContext" in com.example.v1.Widget.spec, "x" in com.nvidia.v1') == {}
