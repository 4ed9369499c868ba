# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the benchmarks and print one JSON line for each: `python -m benchmarks [NAME...]`."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

import yaml

from benchmarks import broken, monitoring, stack_move
from lab.cluster import Lab, Options, faults
from lab.cluster.nodes import bulk
from lab.cluster.nodes.fleet import NOTE
from lab.hosts import ContainerHosts, Machine, UnavailableError
from lab.nvml import H100, build, machine, plant, state

ROOT = Path(__file__).resolve().parent.parent
PLAYS = Path(__file__).parent / "plays"
MEASURE = Path(__file__).parent / "measure.py"
MODULES = "ansible_collections.{}.plugins.modules.{}"
ANSIBLE_PLAYBOOK = str(Path(sys.executable).parent / "ansible-playbook")
REPEAT = 3


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all. Return 2 for an unknown name."""
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        print(
            f"benchmarks: unknown: {', '.join(sorted(unknown))}. Choose from {', '.join(BENCHMARKS)}.", file=sys.stderr
        )
        return 2
    for name in names or list(BENCHMARKS):
        try:
            result = {"name": name, **BENCHMARKS[name]()}
        except UnavailableError as reason:
            print(f"benchmarks: {name} is skipped. {reason}", file=sys.stderr)
            continue
        result["ratio"] = round(result["ours_s"] / result["theirs_s"], 4)
        print(json.dumps(result), flush=True)
    return 0


def clusterpolicy_noop(count: int = 5) -> dict[str, t.Any]:
    """Compare an unchanged `clusterpolicy` task, verdict included, with an unchanged `kubernetes.core.k8s` task.

    The time of an empty play is subtracted from both.
    """
    with deployed("bench-noop", Options()) as lab:
        play = PLAYS / "noop.yml"
        options = {"spec": policy_spec(lab), "count": count}
        # The first run takes ownership of the fields. Later runs change nothing.
        playbook(lab, play, {**options, "tool": "ours", "count": 1})
        seconds, peak = interleaved(
            {
                tool: lambda tool=tool: playbook(lab, play, {**options, "tool": tool})
                for tool in ("ours", "theirs", "none")
            }
        )
    ours, theirs = ((seconds[tool] - seconds["none"]) / count for tool in ("ours", "theirs"))
    return {"ours_s": round(ours, 3), "theirs_s": round(theirs, 3), "peak_mb": peak["ours"], "nodes": 4}


def fleet_read(nodes: int, repeat_theirs: int) -> dict[str, t.Any]:
    """Compare `gpu_stack_info`, verdict included, with `kubernetes.core.k8s_info` for Node and Pod.

    The nodes are as large as real ones (21 kB). They have no life: only etcd and the API server run.
    """
    with deployed(f"bench-fleet-{nodes}", Options(nodes=1, pods="instant")) as lab:
        bulk.multiply(lab, nodes)
        connection = {"kubeconfig": str(lab.kubeconfig)}

        def theirs() -> tuple[float, int]:
            reads = [
                module("kubernetes.core", "k8s_info", {**connection, "kind": kind, "api_version": "v1"})
                for kind in ("Node", "Pod")
            ]
            return sum(seconds for seconds, megabytes in reads), max(megabytes for seconds, megabytes in reads)

        runs = {"ours": lambda: module("gpuops.nvidia", "gpu_stack_info", connection), "theirs": theirs}
        seconds, peak = interleaved(runs, {"theirs": repeat_theirs})
        polled = looks(lab)
    return {
        "ours_s": round(seconds["ours"], 2),
        "theirs_s": round(seconds["theirs"], 2),
        "peak_mb": peak["ours"],
        "nodes": nodes,
        **polled,
    }


CLAIMS = ("clusterPolicy.deployCR=false", "gpuCluster.deployCR=true", "driver.nvidiaDriverCRD.enabled=true")
"""The Helm values with which pods get GPUs by claims."""


def dra_read(nodes: int, repeat_theirs: int) -> dict[str, t.Any]:
    """Compare `gpu_stack_info` where pods get GPUs by claims with `k8s_info` for all that it reads.

    It says which claim and which pod has each device.
    """
    kinds = {"Node": "v1", "Pod": "v1", "ResourceSlice": "resource.k8s.io/v1", "ResourceClaim": "resource.k8s.io/v1"}
    with fresh(f"bench-dra-{nodes}", Options(nodes=1, pods="instant")) as lab:
        lab.deploy(*(f"--set={value}" for value in CLAIMS), of="gpucluster/gpu-cluster", timeout=300)
        bulk.multiply(lab, nodes)
        connection = {"kubeconfig": str(lab.kubeconfig)}

        def theirs() -> tuple[float, int]:
            reads = [
                module("kubernetes.core", "k8s_info", {**connection, "kind": kind, "api_version": version})
                for kind, version in kinds.items()
            ]
            return sum(seconds for seconds, megabytes in reads), max(megabytes for seconds, megabytes in reads)

        runs = {"ours": lambda: module("gpuops.nvidia", "gpu_stack_info", connection), "theirs": theirs}
        seconds, peak = interleaved(runs, {"theirs": repeat_theirs})
    ours, other = round(seconds["ours"], 2), round(seconds["theirs"], 2)
    return {"ours_s": ours, "theirs_s": other, "peak_mb": peak["ours"], "nodes": nodes}


def diagnose(nodes: int) -> dict[str, t.Any]:
    """Compare `diagnose` on a fleet with 20 faults with reading the same objects by `kubernetes.core.k8s_info`.

    The nodes are as large as real ones. Each fault is a pod that has crashed and says why in its log. Theirs reads each
    kind with one task, and the log of each pod in trouble with one more.
    """
    kinds = (("v1", "Node"), ("v1", "Pod"), ("v1", "Event"), ("apps/v1", "DaemonSet"), ("apps/v1", "Deployment"))
    with deployed(f"bench-diagnose-{nodes}", Options(nodes=1, pods="instant")) as lab:
        bulk.multiply(lab, nodes)
        crashed = broken.break_fleet(lab, nodes)
        connection = {"kubeconfig": str(lab.kubeconfig)}

        def theirs() -> tuple[float, int]:
            reads = [
                module("kubernetes.core", "k8s_info", {**connection, "kind": kind, "api_version": version})
                for version, kind in kinds
            ]
            reads += [
                module(
                    "kubernetes.core",
                    "k8s_log",
                    {**connection, "namespace": "gpu-operator", "name": name, "container": container},
                )
                for name, container in crashed
            ]
            return sum(seconds for seconds, megabytes in reads), max(megabytes for seconds, megabytes in reads)

        runs = {"ours": lambda: module("gpuops.nvidia", "diagnose", connection), "theirs": theirs}
        seconds, peak = interleaved(runs, {"theirs": 1})
    return {
        "ours_s": round(seconds["ours"], 2),
        "theirs_s": round(seconds["theirs"], 2),
        "peak_mb": peak["ours"],
        "nodes": nodes,
        "faults": len(crashed),
    }


def report(nodes: int) -> dict[str, t.Any]:
    """Compare `playbooks/report.yml` with a play that reads nodes and pods and renders them with a template.

    Ours also names causes and drift, and counts who holds what.
    """
    with (
        deployed(f"bench-report-{nodes}", Options(nodes=1, pods="instant")) as lab,
        tempfile.TemporaryDirectory() as folder,
    ):
        bulk.multiply(lab, nodes)
        page = Path(folder, "fleet.html")
        ours = {"report_path": str(page), "gpuops_kubeconfig": str(lab.kubeconfig)}
        runs = {
            "ours": lambda: playbook(lab, ROOT / "playbooks" / "report.yml", ours),
            "theirs": lambda: playbook(lab, PLAYS / "report.yml", {"page": str(Path(folder, "theirs.html"))}),
        }
        seconds, peak = interleaved(runs, {"theirs": 1})
        size = page.stat().st_size
    return {
        "ours_s": round(seconds["ours"], 2),
        "theirs_s": round(seconds["theirs"], 2),
        "peak_mb": peak["ours"],
        "page_mb": round(size / 1e6, 2),
        "nodes": nodes,
    }


def looks(lab: Lab) -> dict[str, t.Any]:
    """Return the seconds of the first look of a wait and of its second, which reads only what has changed."""
    command = [sys.executable, "-m", "benchmarks.looks", str(lab.kubeconfig)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".venv" / "share")}
    streams: dict[str, t.Any] = {"stdout": subprocess.PIPE, "text": True}
    return dict(json.loads(subprocess.run(command, cwd=ROOT, env=environment, check=True, **streams).stdout))


def site_rerun() -> dict[str, t.Any]:
    """Compare a second run of site.yml with a flat play of kubernetes.core's modules that checks nearly as much."""
    with fresh("bench-site", Options()) as lab:
        chart, helm = lab.chart, str(lab.helm)
        site = {"operator_chart_ref": chart, "operator_helm_path": helm, "gpuops_kubeconfig": str(lab.kubeconfig)}
        playbook(lab, ROOT / "playbooks" / "site.yml", site)
        values = json.loads(helm_values(lab))
        flat = {"chart": chart, "helm": helm, "values": values, "spec": policy_spec(lab)}
        playbook(lab, PLAYS / "flat.yml", flat)
        runs = {
            "ours": lambda: playbook(lab, ROOT / "playbooks" / "site.yml", site),
            "theirs": lambda: playbook(lab, PLAYS / "flat.yml", flat),
        }
        seconds, peak = interleaved(runs)
    return {
        "ours_s": round(seconds["ours"], 2),
        "theirs_s": round(seconds["theirs"], 2),
        "peak_mb": peak["ours"],
        "nodes": 4,
    }


def gpu_facts_8() -> dict[str, t.Any]:
    """Compare `gpu_facts` on 8 GPUs with `nvidia-smi -q -x`, or on a machine without it with `setup`."""
    nvidia_smi = shutil.which("nvidia-smi")
    with tempfile.TemporaryDirectory() as folder:
        if nvidia_smi:
            ours, theirs = (
                functools.partial(module, "gpuops.nvidia", "gpu_facts", {}),
                functools.partial(timed, [nvidia_smi, "-q", "-x"], {}),
            )
        else:
            plant(Path(folder), H100)
            build(Path(folder))
            state(Path(folder, "nvml.state"), machine(H100))
            ours = functools.partial(process, ["benchmarks.gpu_host", folder], {})
            theirs = functools.partial(process, ["ansible.modules.setup"], {})
        seconds, peak = interleaved({"ours": ours, "theirs": theirs})
    against = "nvidia-smi -q -x" if nvidia_smi else "setup"
    return {
        "ours_s": round(seconds["ours"], 3),
        "theirs_s": round(seconds["theirs"], 3),
        "peak_mb": peak["ours"],
        "against": against,
    }


def host_rerun_8() -> dict[str, t.Any]:
    """Compare a second run of the host plays of site.yml on 8 container hosts with a flat play that does the same."""
    hosts = ContainerHosts("bench")
    try:
        hosts.up({"debian": 3, "ubuntu": 2, "rhel": 3}, Machine(gpus=4, nvswitches=4))
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as inventory:
            yaml.safe_dump(hosts.inventory(), inventory)
            inventory.flush()
            # The limit skips the plays for the cluster.
            command = [ANSIBLE_PLAYBOOK, f"--inventory={inventory.name}", "--limit=gpu_hosts", "--forks=8"]
            command += [f"--extra-vars=@{PLAYS / 'host.yml'}"]
            plays = {"ours": ROOT / "playbooks" / "site.yml", "theirs": PLAYS / "flat_host.yml"}
            # The first run reboots. In a container, udev then does not set the registers of bridges: a second run does.
            for play in [*plays.values(), plays["ours"]]:
                timed([*command, str(play)], {})
            # From now on, a run must not change anything.
            runs = {
                tool: functools.partial(timed, [*command, str(play)], {}, refused=r"changed=[1-9]")
                for tool, play in plays.items()
            }
            seconds, peak = interleaved(runs)
    finally:
        hosts.down()
    return {
        "ours_s": round(seconds["ours"], 2),
        "theirs_s": round(seconds["theirs"], 2),
        "peak_mb": peak["ours"],
        "hosts": 8,
    }


def mig_noop(nodes: int) -> dict[str, t.Any]:
    """Compare a `mig_config` that has nothing to do with a loop of `kubernetes.core.k8s` that sets the same labels."""
    options = {"layout": "all-disabled", "node_selector": {GPU_PRESENT: "true"}}
    return settled("mig", "mig_config", options, nodes)


def sharing_noop(nodes: int) -> dict[str, t.Any]:
    """Compare a `gpu_sharing` that has nothing to do with a loop of `kubernetes.core.k8s` that sets the same labels.

    Ours also reads and checks the configuration, and proves that each node offers its shares.
    """
    four = {"name": "four", "strategy": "time-slicing", "replicas": 4, "node_selector": {GPU_PRESENT: "true"}}
    return settled("sharing", "gpu_sharing", {"configs": [four]}, nodes, "nvidia.com/device-plugin.config")


def taints_noop(nodes: int) -> dict[str, t.Any]:
    """Compare a `node_taints` that has nothing to do with a loop of `kubernetes.core.k8s_taint` for the same taint.

    Ours also checks that the stack and all other DaemonSets tolerate the taint.
    """
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "node_selector": {GPU_PRESENT: "true"}}
    return settled("taints", "node_taints", {"taints": [taint]}, nodes)


def settled(
    play: str, name: str, options: dict[str, t.Any], nodes: int, label: str = "", measured: int = 50
) -> dict[str, t.Any]:
    """Compare a module that has nothing to do on a fleet with a play's loop over the nodes.

    Theirs is measured on some of the nodes, and multiplied: a task for each of 1,000 nodes takes half an hour. The play
    gets the value of a ``label`` of the nodes.
    """
    with deployed(f"bench-{play}-{nodes}", Options(nodes=1, pods="instant", mig_seconds=0.5)) as lab:
        options = {"kubeconfig": str(lab.kubeconfig), **options}
        module("gpuops.nvidia", name, options)
        bulk.multiply(lab, nodes)
        first = json.loads(lab.kubectl("get", "node", "gpu-0000", "--output=json"))["metadata"]["labels"]
        path, given = PLAYS / f"{play}.yml", {"value": first.get(label, "")}
        some = [f"gpu-{number:04d}" for number in range(measured)]
        runs = {
            "ours": lambda: module("gpuops.nvidia", name, options, refused=r'"changed": true'),
            "theirs": lambda: playbook(lab, path, {**given, "names": some}),
            "none": lambda: playbook(lab, path, {**given, "names": []}),
        }
        seconds, peak = interleaved(runs, {"theirs": 1})
    theirs = (seconds["theirs"] - seconds["none"]) * nodes / measured
    return {
        "ours_s": round(seconds["ours"], 2),
        "theirs_s": round(theirs, 1),
        "peak_mb": peak["ours"],
        "nodes": nodes,
        "theirs_measured_on": measured,
    }


def inventory(nodes: int) -> dict[str, t.Any]:
    """Compare the inventory plugin `gpu_nodes` with a play that reads the nodes, adds them as hosts and groups them.

    The time of a play on a fixed inventory is subtracted from both.
    """
    with (
        deployed(f"bench-inventory-{nodes}", Options(nodes=1, pods="instant")) as lab,
        tempfile.TemporaryDirectory() as folder,
    ):
        bulk.multiply(lab, nodes)
        fleet = Path(folder, "fleet.gpu_nodes.yml")
        by_model = [{"prefix": "model", "key": "gpu_node.product"}]
        fleet.write_text(json.dumps({"plugin": "gpuops.nvidia.gpu_nodes", "keyed_groups": by_model}))
        hosts = PLAYS / "hosts.yml"
        runs = {
            "ours": lambda: playbook(lab, hosts, {"wanted": nodes}, f"--inventory={fleet}"),
            "theirs": lambda: playbook(lab, PLAYS / "inventory.yml", {}),
            "none": lambda: playbook(lab, hosts, {"wanted": 0}),
        }
        seconds, peak = interleaved(runs, {"theirs": 1})
    ours, theirs = (seconds[tool] - seconds["none"] for tool in ("ours", "theirs"))
    return {"ours_s": round(ours, 2), "theirs_s": round(theirs, 1), "peak_mb": peak["ours"], "nodes": nodes}


def metrics_info(nodes: int, measured: int = 50) -> dict[str, t.Any]:
    """Compare `gpu_metrics_info` on the exporters of a fleet with a loop of `ansible.builtin.uri` over them.

    Ours reaches the pods through the API server. Theirs has a path to each of them, and is measured on some and
    multiplied.
    """
    with deployed(f"bench-metrics-{nodes}", Options(nodes=nodes, pods="instant"), timeout=600) as lab:
        options = {"kubeconfig": str(lab.kubeconfig)}
        ports = exporters(lab, nodes)
        runs = {
            "ours": lambda: module("gpuops.nvidia", "gpu_metrics_info", options, refused=r'"ok": false'),
            "theirs": lambda: playbook(lab, PLAYS / "exporters.yml", {"ports": ports[:measured]}),
            "none": lambda: playbook(lab, PLAYS / "exporters.yml", {"ports": []}),
        }
        seconds, peak = interleaved(runs, {"theirs": 1})
    return {
        "ours_s": round(seconds["ours"], 2),
        "theirs_s": round((seconds["theirs"] - seconds["none"]) * nodes / measured, 1),
        "peak_mb": peak["ours"],
        "nodes": nodes,
        "theirs_measured_on": measured,
    }


def exporters(lab: Lab, nodes: int, timeout_s: float = 300) -> list[int]:
    """Return the port of each node's exporter on this machine, once all of them serve metrics."""
    deadline = time.monotonic() + timeout_s
    while True:
        items = json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]
        notes = [item["metadata"].get("annotations") or {} for item in items]
        ports = [int(note[METRICS_PORT]) for note in notes if METRICS_PORT in note]
        if len(ports) == nodes:
            return ports
        if time.monotonic() > deadline:
            raise SystemExit(f"Only {len(ports)} of {nodes} exporters serve metrics after {timeout_s:.0f} s.")
        time.sleep(2)


def mig_rollout(nodes: int, at_once: int, manager_s: float) -> dict[str, t.Any]:
    """Compare a change of a whole fleet with the time that the MIG managers themselves need for it.

    The managers are simulated, and take the same time on each node. As many of them work at a time as nodes may change.
    """
    with deployed(f"bench-rollout-{nodes}", Options(nodes=1, pods="instant", mig_seconds=0.5)) as lab:
        options = {"kubeconfig": str(lab.kubeconfig), "layout": "all-disabled", "node_selector": {GPU_PRESENT: "true"}}
        module("gpuops.nvidia", "mig_config", options)
        bulk.multiply(lab, nodes)
        command = [sys.executable, "-m", "benchmarks.mig_managers", str(lab.kubeconfig), str(manager_s)]
        managers = subprocess.Popen(command, cwd=ROOT)
        try:
            given = {**options, "layout": "all-1g.10gb", "max_unavailable": str(at_once)}
            seconds, peak = module("gpuops.nvidia", "mig_config", given)
        finally:
            managers.kill()
            managers.wait()
    return {
        "ours_s": round(seconds, 1),
        "theirs_s": round(math.ceil(nodes / at_once) * manager_s, 1),
        "peak_mb": peak,
        "nodes": nodes,
        "at_once": at_once,
    }


def driver_upgrade(nodes: int, at_once: int, tick_s: float) -> dict[str, t.Any]:
    """Compare an upgrade of the driver on a whole fleet with the time that the operator alone needs for it.

    The operator looks at the nodes every ``tick_s`` seconds. Both have the same number of nodes in their upgrade.
    """
    options = Options(nodes=nodes, pods="instant", upgrade_tick=tick_s)
    with deployed(f"bench-upgrade-{nodes}", options, timeout=600) as lab:
        alone = upgrade_alone(lab, "600.10.01", at_once)
        given = {"kubeconfig": str(lab.kubeconfig), "version": "601.10.01", "registry": {"mode": "offline"}}
        given |= {"allow_disruption": True, "force_conflicts": True, "max_unavailable": str(at_once)}
        arguments = json.dumps({"ANSIBLE_MODULE_ARGS": given})
        command = [sys.executable, "-m", MODULES.format("gpuops.nvidia", "driver_container"), arguments]
        ours = measured(command, {"PYTHONPATH": str(ROOT / ".venv" / "share")})
    share = ours["cpu_seconds"] / ours["seconds"]
    return {
        "ours_s": round(ours["seconds"], 1),
        "theirs_s": round(alone, 1),
        "peak_mb": ours["megabytes"],
        "cpu_s": round(ours["cpu_seconds"], 1),
        "core_percent": round(100 * share, 1),
        "nodes": nodes,
        "at_once": at_once,
        "tick_s": tick_s,
    }


def driver_watch(nodes: int, at_once: int, tick_s: float, watched_s: float, begin_s: float = 60.0) -> dict[str, t.Any]:
    """Compare what it costs to pace and watch an upgrade with reading the same objects once a tick.

    The operator looks at the nodes every ``tick_s`` seconds, as NVIDIA's does, and the new drivers take an hour to
    build. What counts are the ``watched_s`` after ``begin_s``, in which the first nodes begin. All are seconds of a
    core.
    """
    options = Options(nodes=nodes, pods="instant", upgrade_tick=tick_s)
    with deployed(f"bench-watch-{nodes}", options, timeout=600) as lab:
        faults.driver(lab, "slow-build", seconds=3600)
        given = {"kubeconfig": str(lab.kubeconfig), "registry": {"mode": "offline"}, "max_unavailable": str(at_once)}
        given |= {"allow_disruption": True, "force_conflicts": True, "version": "600.10.01"}
        arguments = json.dumps({"ANSIBLE_MODULE_ARGS": given})
        command = [sys.executable, "-m", MODULES.format("gpuops.nvidia", "driver_container"), arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / ".venv" / "share")}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
            time.sleep(begin_s)
            start_cpu_s = cpu_seconds(process)
            time.sleep(watched_s)
            watching = cpu_seconds(process) - start_cpu_s
            peak = int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[0]) // 1000
            process.send_signal(signal.SIGINT)
        look = sum(read_by_theirs(lab, kind)["cpu_seconds"] for kind in ("Node", "Pod"))
    return {
        "ours_s": round(watching, 2),
        "theirs_s": round(look * watched_s / tick_s, 2),
        "peak_mb": peak,
        "core_percent": round(100 * watching / watched_s, 2),
        "start_cpu_s": round(start_cpu_s, 1),
        "nodes": nodes,
        "at_once": at_once,
        "tick_s": tick_s,
        "watched_s": watched_s,
    }


def cpu_seconds(process: subprocess.Popen[t.Any]) -> float:
    """Return the seconds of a core that a process has used. Exit if it has ended."""
    if process.poll() is not None:
        raise SystemExit(f"{process.args} ended early with {process.returncode}.")
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_by_theirs(lab: Lab, kind: str) -> dict[str, t.Any]:
    """Return what it costs to read all objects of a kind with `kubernetes.core.k8s_info`."""
    options = {"kubeconfig": str(lab.kubeconfig), "kind": kind, "api_version": "v1"}
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": options})
    command = [sys.executable, "-m", MODULES.format("kubernetes.core", "k8s_info"), arguments]
    return measured(command, {"PYTHONPATH": str(ROOT / ".venv" / "share")})


def upgrade_alone(lab: Lab, version: str, at_once: int) -> float:
    """Let the operator upgrade all nodes by itself, and return the seconds until feature discovery reports the last."""
    policy = {"maxParallelUpgrades": at_once, "maxUnavailable": "100%"}
    patch = json.dumps({"spec": {"driver": {"version": version, "upgradePolicy": policy}}})
    began = time.monotonic()
    lab.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", f"--patch={patch}")
    selector = f"nvidia.com/gpu-driver-upgrade-state=upgrade-done,nvidia.com/cuda.driver-version.full={version}"
    total = len(lab.kubectl("get", "nodes", f"--selector={GPU_PRESENT}=true", "--output=name").split())
    while len(lab.kubectl("get", "nodes", f"--selector={selector}", "--output=name").split()) < total:
        time.sleep(1)
    return time.monotonic() - began


GPU_PRESENT = "nvidia.com/gpu.present"
METRICS_PORT = f"{NOTE}metrics-port"

BENCHMARKS: dict[str, t.Callable[[], dict[str, t.Any]]] = {
    "clusterpolicy-noop": clusterpolicy_noop,
    "site-rerun": site_rerun,
    "fleet-read-1000": functools.partial(fleet_read, 1000, REPEAT),
    # One run of theirs takes minutes.
    "dra-read-1000": functools.partial(dra_read, 1000, 1),
    "fleet-read-5000": functools.partial(fleet_read, 5000, 1),
    "diagnose-1000": functools.partial(diagnose, 1000),
    "report-1000": functools.partial(report, 1000),
    "mig-noop-1000": functools.partial(mig_noop, 1000),
    "sharing-noop-1000": functools.partial(sharing_noop, 1000),
    "taints-noop-1000": functools.partial(taints_noop, 1000),
    "inventory-1000": functools.partial(inventory, 1000),
    "metrics-info-1000": functools.partial(metrics_info, 1000),
    "monitoring-1000": functools.partial(monitoring.compared, 1000),
    "mig-rollout-1000": functools.partial(mig_rollout, 1000, 100, 40.0),
    "driver-upgrade-200": functools.partial(driver_upgrade, 200, 50, 20.0),
    "dra-move-200": functools.partial(stack_move.compared, 200),
    "driver-watch-1000": functools.partial(driver_watch, 1000, 100, 120.0, 300.0),
    "gpu-facts-8": gpu_facts_8,
    "host-rerun-8": host_rerun_8,
}


@contextlib.contextmanager
def fresh(name: str, options: Options) -> t.Iterator[Lab]:
    """Run a new lab during a block."""
    lab = Lab(name)
    lab.up(options)
    try:
        yield lab
    finally:
        lab.down()


@contextlib.contextmanager
def deployed(name: str, options: Options, timeout: int = 300) -> t.Iterator[Lab]:
    """Run a new lab with the GPU stack deployed and ready during a block."""
    with fresh(name, options) as lab:
        lab.deploy(timeout=timeout)
        wait = {"kubeconfig": str(lab.kubeconfig), "wait": True, "wait_timeout": timeout}
        module("gpuops.nvidia", "clusterpolicy_info", wait)
        yield lab


def policy_spec(lab: Lab) -> dict[str, t.Any]:
    """Return the current spec of the ClusterPolicy."""
    return dict(json.loads(lab.kubectl("get", "clusterpolicy", "cluster-policy", "--output=json"))["spec"])


def helm_values(lab: Lab) -> str:
    """Return the values of the Helm release as JSON."""
    command = [str(lab.helm), f"--kubeconfig={lab.kubeconfig}", "--namespace=gpu-operator"]
    command += ["get", "values", "gpu-operator", "--output=json"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def interleaved(
    runs: t.Mapping[str, t.Callable[[], tuple[float, int]]], repeats: t.Mapping[str, int] | None = None
) -> tuple[dict[str, float], dict[str, int]]:
    """Return the median seconds and the peak memory (MB) of each run, repeated `REPEAT` times unless ``repeats`` says.

    The runs take turns, so that a slow moment of the machine affects all of them.
    """
    results: dict[str, list[tuple[float, int]]] = {name: [] for name in runs}
    for turn in range(REPEAT):
        for name, run in runs.items():
            if turn < (repeats or {}).get(name, REPEAT):
                results[name].append(run())
    seconds = {name: statistics.median(second for second, megabytes in rows) for name, rows in results.items()}
    return seconds, {name: max(megabytes for second, megabytes in rows) for name, rows in results.items()}


def playbook(lab: Lab, play: Path, variables: dict[str, t.Any], *arguments: str) -> tuple[float, int]:
    """Run a playbook and return its seconds and the peak memory (MB) of its largest process."""
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as extra:
        yaml.safe_dump(variables, extra)
        extra.flush()
        command = [ANSIBLE_PLAYBOOK, "-e", f"@{extra.name}", *arguments, str(play)]
        quiet = {"ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_DEPRECATION_WARNINGS": "false"}
        return timed(command, {**quiet, "K8S_AUTH_KUBECONFIG": str(lab.kubeconfig)})


def module(collection: str, name: str, options: dict[str, t.Any], refused: str | None = None) -> tuple[float, int]:
    """Run an Ansible module in its own process and return its seconds and peak memory (MB), as `timed` does."""
    return process([MODULES.format(collection, name)], options, refused)


def process(command: list[str], options: dict[str, t.Any], refused: str | None = None) -> tuple[float, int]:
    """Run a Python module that is an Ansible module and return its seconds and peak memory (MB).

    The options follow the arguments in ``command``.
    """
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": options})
    return timed([sys.executable, "-m", *command, arguments], {"PYTHONPATH": str(ROOT / ".venv" / "share")}, refused)


def timed(command: list[str], environment: dict[str, str], refused: str | None = None) -> tuple[float, int]:
    """Run a command and return its seconds and peak memory (MB). Exit if it fails or its output matches ``refused``."""
    found = measured(command, environment, refused)
    return found["seconds"], found["megabytes"]


def measured(command: list[str], environment: dict[str, str], refused: str | None = None) -> dict[str, t.Any]:
    """Run a command and return its status, seconds, seconds of a core, and peak memory. Exit as `timed` does."""
    measure = [sys.executable, "-S", str(MEASURE), *command]
    with tempfile.TemporaryFile("w+") as output:
        streams: dict[str, t.Any] = {"stdout": subprocess.PIPE, "stderr": output, "text": True}
        process = subprocess.run(measure, cwd=ROOT, env={**os.environ, **environment}, check=True, **streams)
        found: dict[str, t.Any] = json.loads(process.stdout)
        output.seek(0)
        text = output.read()
        if found["status"] or (refused and re.search(refused, text)):
            raise SystemExit(f"{' '.join(command)} failed:\n{text[-3000:]}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
