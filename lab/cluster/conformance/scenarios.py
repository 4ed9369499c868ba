# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recorded scenarios, which a lab performs one after another."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t
from dataclasses import dataclass

from lab.cluster.api import Api
from lab.cluster.conformance.facts import facts
from lab.cluster.lab import Lab
from lab.cluster.recorder import Recorder

Json = dict[str, t.Any]

_LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
    "feature.node.kubernetes.io/kernel-version.full": "6.8.0-31-generic",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/mig.capable": "true",
}
_VALUES = (
    "--set=nfd.enabled=false",
    "--set=driver.upgradePolicy.maxParallelUpgrades=2",
    "--set-string=driver.upgradePolicy.maxUnavailable=50%",
    "--set=daemonsets.tolerations[0].operator=Exists",
    # NVIDIA's operator ran outside of the cluster when it was recorded, so no taint could evict it.
    "--set=operator.tolerations[0].operator=Exists",
)
_UPGRADE_STATE = r"jsonpath={.metadata.labels.nvidia\.com/gpu-driver-upgrade-state}"
_SLOW = "conformance-slow-drivers"


@dataclass(frozen=True)
class Scenario:
    """A sequence of actions, and the facts to compare, which do not depend on the speed of the machine."""

    name: str
    act: t.Callable[[Lab], object]
    compared: tuple[str, ...]
    moments: tuple[str, ...] = ()
    """Misleading moments that the recording has. Each must occur in one of its scenarios."""
    undo: t.Callable[[Lab], object] | None = None
    """Restores the state for the next scenario."""
    prepare: t.Callable[[Lab], object] | None = None
    """What happened before the recording began."""
    pause: float = 0
    """How many seconds may pass in the middle without any change."""


def prepare(lab: Lab) -> None:
    """Label the nodes as they were in the recordings."""
    pairs = [f"{key}={value}" for key, value in _LABELS.items()]
    lab.kubectl("label", "node", "--all", "--overwrite", *pairs)


def install(lab: Lab) -> None:
    """Install the chart."""
    _helm(lab, "install", "--create-namespace")


def _helm(lab: Lab, command: str, *options: str) -> str:
    words = [
        str(lab.helm),
        command,
        "gpu-operator",
        str(lab.chart),
        "--namespace=gpu-operator",
        f"--kubeconfig={lab.kubeconfig}",
        *_VALUES,
        *options,
    ]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


def _patch(spec: Json) -> t.Callable[[Lab], str]:
    return lambda lab: lab.kubectl(
        "patch", "clusterpolicy", "cluster-policy", "--type=merge", "--patch", json.dumps({"spec": spec})
    )


def _second_policy(lab: Lab) -> None:
    policy = json.loads(lab.kubectl("get", "clusterpolicy", "cluster-policy", "--output=json"))
    another = {**policy, "metadata": {"name": "another"}}
    another.pop("status")
    lab.kubectl("create", "--filename=-", stdin=json.dumps(another))


def _without_second_policy(lab: Lab) -> None:
    lab.kubectl("delete", "clusterpolicy", "another")


def _taint(lab: Lab) -> None:
    _patch({"daemonsets": {"tolerations": None}})(lab)
    lab.kubectl("taint", "node", "--all", "conformance=yes:NoExecute")


def _untaint(lab: Lab) -> None:
    _patch({"daemonsets": {"tolerations": [{"operator": "Exists"}]}})(lab)
    lab.kubectl("taint", "node", "--all", "conformance-")


def _upgrade_with_obstacles(lab: Lab) -> None:
    """Upgrade slow drivers while one node has a GPU pod that may not be evicted; then delete the pod and retry."""
    obstacle = "gpu-0003"
    slow_drivers(lab)
    lab.kubectl("create", "--filename=-", stdin=json.dumps(_bare_gpu_pod(obstacle)))
    _patch({"driver": {"version": "595.99.02"}})(lab)
    lab.kubectl("wait", f"node/{obstacle}", f"--for={_UPGRADE_STATE}=upgrade-failed", "--timeout=90s")
    lab.kubectl("delete", "pod", "bare", "--now")
    lab.kubectl("label", "node", obstacle, "nvidia.com/gpu-driver-upgrade-state=upgrade-required", "--overwrite")


def slow_drivers(lab: Lab, delay: str = "1s") -> None:
    """Delay the start of new driver pods, and return when the delay has taken effect."""
    note = f'Object{{metadata: Object.metadata{{annotations: {{"lab.gpuops.nvidia/start-delay": "{delay}"}}}}}}'
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    is_driver = "object.metadata.?labels['app.kubernetes.io/component'].orValue('') == 'nvidia-driver'"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "driver", "expression": is_driver}],
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": note}}],
    }
    version = "admissionregistration.k8s.io/v1"
    policy = {"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": _SLOW}, "spec": spec}
    binding = {
        "apiVersion": version,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": _SLOW},
        "spec": {"policyName": _SLOW},
    }
    for item in (policy, binding):
        lab.kubectl("create", "--filename=-", stdin=json.dumps(item))
    _wait_for_slow_drivers(lab)


def _wait_for_slow_drivers(lab: Lab) -> None:
    driver = _bare_gpu_pod("gpu-0003")
    driver["metadata"]["labels"] = {"app.kubernetes.io/component": "nvidia-driver"}
    dry_run = ("create", "--dry-run=server", "--output=json", "--filename=-")
    deadline = time.monotonic() + 30
    while "start-delay" not in lab.kubectl(*dry_run, stdin=json.dumps(driver)):
        if time.monotonic() > deadline:
            raise TimeoutError("The admission policy for slow drivers has no effect.")
        time.sleep(0.2)


def quick_drivers(lab: Lab) -> None:
    """Let new driver pods start as quickly as others again."""
    lab.kubectl("delete", f"mutatingadmissionpolicy/{_SLOW}", f"mutatingadmissionpolicybinding/{_SLOW}")


def _all_operands_back(lab: Lab) -> None:
    _patch({"dcgmExporter": {"enabled": True}, "nodeStatusExporter": {"enabled": False}})(lab)


def _to_nvidiadriver(lab: Lab) -> None:
    """Create the chart's default NVIDIADriver with the running version, and let the ClusterPolicy delegate to it."""
    values = ("--set=driver.nvidiaDriverCRD.enabled=true", "--set=driver.version=595.99.02")
    lab.kubectl(
        "create", "--filename=-", stdin=_helm(lab, "template", "--show-only=templates/nvidiadriver.yaml", *values)
    )
    lab.kubectl("wait", "nvidiadriver/default", "--for=jsonpath={.status.state}=disabled", "--timeout=30s")
    _patch({"driver": {"useNvidiaDriverCRD": True}})(lab)


def _bare_gpu_pod(node: str) -> Json:
    container = {"name": "work", "image": "work", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "default"}, "spec": spec}


SCENARIOS = (
    Scenario("install", install, ("policies", "daemonsets", "nodes")),
    Scenario(
        "upgrade",
        _patch({"driver": {"version": "595.99.01"}}),
        ("policies", "journeys", "daemonsets"),
        ("ready before the operator has seen the change", "ready while a node is cordoned"),
    ),
    Scenario(
        "toggle",
        _patch({"dcgmExporter": {"enabled": False}, "nodeStatusExporter": {"enabled": True}}),
        ("policies", "daemonsets", "nodes"),
        ("ready before the operator has seen the change", "ready with a DaemonSet that its controller has not seen"),
    ),
    Scenario(
        "tainted",
        _taint,
        ("policies", "daemonsets", "nodes"),
        ("ready before the operator has seen the change", "ready without any pod"),
        _untaint,
    ),
    # The recording begins during another rollout, so only the journey of the obstructed node is complete.
    Scenario(
        "upgrade-slow-driver",
        _upgrade_with_obstacles,
        ("failed journeys",),
        ("ready while a node is cordoned",),
        quick_drivers,
        # On a busy machine, the drivers are quiet for longer than an interval of the checks.
        pause=6,
    ),
    Scenario("second-clusterpolicy", _second_policy, ("policies", "nodes"), undo=_without_second_policy),
    Scenario(
        "to-nvidiadriver",
        _to_nvidiadriver,
        ("policies", "drivers", "daemonsets", "nodes", "hand-overs"),
        (
            "ready before the operator has seen the change",
            "ready with a driver to be replaced",
            "NVIDIADriver ready without a DaemonSet",
            "NVIDIADriver ready while a node is cordoned",
        ),
        prepare=_all_operands_back,
    ),
)


def perform(lab: Lab, scenario: Scenario, quiet: float) -> Json:
    """Perform a scenario, return the facts of its recording, and restore the state for the next one."""
    if scenario.prepare:
        _record(lab, scenario.prepare, quiet)
    found = facts(_record(lab, scenario.act, quiet + scenario.pause))
    if scenario.undo:
        _record(lab, scenario.undo, quiet)
    return found


def _record(lab: Lab, act: t.Callable[[Lab], object], quiet: float, limit: float = 120) -> list[Json]:
    """Record from shortly before an action until a number of seconds have passed without a change."""
    recorder = Recorder(Api(str(lab.kubeconfig)))
    # `facts` takes lines from the first second for the initial state.
    time.sleep(2)
    act(lab)
    deadline = time.monotonic() + limit
    seen, since = -1, time.monotonic()
    while time.monotonic() < min(deadline, since + quiet):
        time.sleep(0.2)
        if len(recorder.lines) != seen:
            seen, since = len(recorder.lines), time.monotonic()
    return recorder.stop()
