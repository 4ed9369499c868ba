# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kubectl describe prints, as objects."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import describe
from inline_snapshot import snapshot as wording

# https://github.com/NVIDIA/gpu-operator/issues/413, with the last state of a container and more events added.
POD = """\
Name:                 nvidia-device-plugin-daemonset-tltdv
Namespace:            gpu-operator
Priority:             2000001000
Priority Class Name:  system-node-critical
Runtime Class Name:   nvidia
Service Account:      nvidia-device-plugin
Node:                 dgxadmin-dgx-station-a100-920-23487-2530-000/10.36.40.65
Start Time:           Mon, 24 Oct 2022 10:57:01 +0200
Labels:               app=nvidia-device-plugin-daemonset
                      controller-revision-hash=784ffbf4f9
                      pod-template-generation=1
Annotations:          cni.projectcalico.org/podIP: 10.1.2.3/32
                      note: a: b
Status:               Pending
IP:
IPs:                  <none>
Controlled By:        DaemonSet/nvidia-device-plugin-daemonset
Init Containers:
  toolkit-validation:
    Container ID:
    Image:         nvcr.io/nvidia/cloud-native/gpu-operator-validator:v22.9.0
    Image ID:
    Port:          <none>
    Command:
      sh
      -c
    Args:
      until [ -f /run/nvidia/validations/toolkit-ready ]; do echo waiting for nvidia container stack to be setup; done
    State:          Waiting
      Reason:       PodInitializing
    Ready:          False
    Restart Count:  0
    Environment:    <none>
    Mounts:
      /run/nvidia from run-nvidia (rw)
Containers:
  nvidia-device-plugin:
    Image:          nvcr.io/nvidia/k8s-device-plugin:v0.12.3
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       StartError
      Message:      failed to create containerd task: OCI runtime create failed: unable to start container
      Exit Code:    128
    Ready:          False
    Restart Count:  7
    Limits:
      nvidia.com/gpu:  2
    Requests:
      cpu:  100m
Conditions:
  Type              Status
  Initialized       False
  PodScheduled      True
Volumes:
  run-nvidia:
    Type:          HostPath (bare host directory volume)
QoS Class:                   BestEffort
Node-Selectors:              nvidia.com/gpu.deploy.device-plugin=true
Tolerations:                 node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
                             nvidia.com/gpu=present:NoSchedule
                             op=Exists
Events:
  Type     Reason                  Age                   From               Message
  ----     ------                  ----                  ----               -------
  Normal   Scheduled               24m                   default-scheduler  Successfully assigned gpu-operator/x to y
  Warning  FailedCreatePodSandBox  4m43s (x93 over 24m)  kubelet, gpu1      Failed to create pod sandbox: rpc error
    no runtime for "nvidia" is configured
""".splitlines()


def test_a_pod() -> None:
    pod, dummy = describe.parse(POD)
    assert pod is not None
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    assert (metadata["namespace"], metadata["name"]) == ("gpu-operator", "nvidia-device-plugin-daemonset-tltdv")
    assert metadata["labels"]["controller-revision-hash"] == "784ffbf4f9"
    assert metadata["annotations"] == {"cni.projectcalico.org/podIP": "10.1.2.3/32", "note": "a: b"}
    assert metadata["ownerReferences"] == [{"kind": "DaemonSet", "name": "nvidia-device-plugin-daemonset"}]
    assert spec["nodeName"] == "dgxadmin-dgx-station-a100-920-23487-2530-000"
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["nodeSelector"] == {"nvidia.com/gpu.deploy.device-plugin": "true"}
    assert spec["tolerations"] == [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ]
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "100m"}}
    assert status["phase"] == "Pending"
    assert status["conditions"] == [
        {"type": "Initialized", "status": "False"},
        {"type": "PodScheduled", "status": "True"},
    ]
    assert status["initContainerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    plugin = status["containerStatuses"][0]
    assert (plugin["restartCount"], plugin["ready"]) == (7, False)
    assert plugin["lastState"]["terminated"]["exitCode"] == 128
    assert plugin["lastState"]["terminated"]["message"].startswith("failed to create containerd task: OCI runtime")


def test_the_events_of_a_pod() -> None:
    dummy, events = describe.parse(POD)
    assert [event["reason"] for event in events] == ["Scheduled", "FailedCreatePodSandBox"]
    failed = events[1]
    assert failed["message"] == wording('Failed to create pod sandbox: rpc error no runtime for "nvidia" is configured')
    assert (failed["type"], failed["count"], failed["source"]) == ("Warning", 93, {"component": "kubelet"})
    assert failed["involvedObject"] == {
        "kind": "Pod",
        "namespace": "gpu-operator",
        "name": "nvidia-device-plugin-daemonset-tltdv",
    }


NODE = """\
Name:               gpu-0001
Roles:              worker
Labels:             feature.node.kubernetes.io/pci-10de.present=true
                    nvidia.com/gpu.present=true
Annotations:        nfd.node.kubernetes.io/feature-labels: pci-10de.present
CreationTimestamp:  Mon, 24 Oct 2022 10:57:01 +0200
Taints:             nvidia.com/gpu=present:NoSchedule
                    node.kubernetes.io/unschedulable:NoSchedule
Unschedulable:      true
Conditions:
  Type             Status  LastHeartbeatTime                 LastTransitionTime                Reason           Message
  ----             ------  -----------------                 ------------------                ------           -------
  MemoryPressure   False   Mon, 24 Oct 2022 10:57:01 +0200   Mon, 24 Oct 2022 10:57:01 +0200   KubeletOk        fine
  Ready            False   Mon, 24 Oct 2022 10:57:01 +0200   Mon, 24 Oct 2022 10:57:01 +0200   KubeletNotReady  PLEG: x
Addresses:
  InternalIP:  10.0.0.1
Capacity:
  cpu:             32
  nvidia.com/gpu:  8
Allocatable:
  cpu:             32
  nvidia.com/gpu:  7
System Info:
  Kernel Version:             6.8.0-31-generic
  OS Image:                   Ubuntu 24.04 LTS
  Container Runtime Version:  containerd://2.1.4
  Kubelet Version:            v1.34.1
Events:              <none>
""".splitlines()


def test_a_node() -> None:
    node, events = describe.parse(NODE)
    assert node is not None and events == []
    assert node["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
    assert node["spec"] == {
        "taints": [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ],
        "unschedulable": True,
    }
    status = node["status"]
    assert (status["capacity"]["nvidia.com/gpu"], status["allocatable"]["nvidia.com/gpu"]) == ("8", "7")
    assert status["nodeInfo"] == {
        "kernelVersion": "6.8.0-31-generic",
        "osImage": "Ubuntu 24.04 LTS",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": "v1.34.1",
    }
    assert [(each["type"], each["status"], each["reason"]) for each in status["conditions"]] == [
        ("MemoryPressure", "False", "KubeletOk"),
        ("Ready", "False", "KubeletNotReady"),
    ]
    assert [each["message"] for each in status["conditions"]] == ["fine", "PLEG: x"]


def test_a_message_of_a_condition_may_be_missing_or_have_gaps() -> None:
    since = "Mon, 24 Oct 2022 10:57:01 +0200   Mon, 24 Oct 2022 10:57:01 +0200"
    rows = [f"  Ready   False   {since}   KubeletNotReady", f"  DiskPressure   False   {since}   Ok   of  two   parts"]
    node, dummy = describe.parse(
        ["Name:   gpu-0", "Roles:  <none>", "Conditions:", *rows, *NODE[NODE.index("Capacity:") :]]
    )
    assert node is not None
    assert [(each["type"], each["message"]) for each in node["status"]["conditions"]] == [
        ("Ready", ""),
        ("DiskPressure", "of  two   parts"),
    ]


def test_another_kind_has_only_its_events() -> None:
    lines = """\
Name:           nvidia-driver-daemonset
Selector:       app=nvidia-driver-daemonset
Desired Number of Nodes Scheduled: 0
Pod Template:
  Containers:
   x:
    Image:  y
Events:
  Type     Reason        Age   From                  Message
  Warning  FailedCreate  1m    daemonset-controller  Error creating: forbidden
""".splitlines()
    item, events = describe.parse(lines)
    assert item is None
    assert events[0]["involvedObject"] == {"kind": "DaemonSet", "name": "nvidia-driver-daemonset"}


def test_a_cut_description_is_what_there_is() -> None:
    for end in range(1, len(POD)):
        describe.parse(POD[:end])
    assert describe.parse(["Name:    x"]) == (None, [])
