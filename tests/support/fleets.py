# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleets as the module fleet_report returns them: for the tests of its page, and for the pictures in the docs."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]

H100, A100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"
TAKEN = "2026-11-23T12:00:00Z"


def part(devices: int, held: int | None, **changes: t.Any) -> Json:
    """Return what a node has of one kind of device."""
    resource = f"nvidia.com/mig-{changes['profile']}" if changes.get("profile") else "nvidia.com/gpu"
    made: Json = {"resource": resource, "profile": None, "devices": devices, "replicas": 1, **changes}
    number = devices * made["replicas"]
    return {"expected": number, "allocatable": number, "allocated": held, **made, **changes}


def row(name: str, product: str, *slices: Json, **changes: t.Any) -> Json:
    """Return a node as gpu_stack_info does."""
    return {
        "name": name,
        "product": product,
        "gpus": sum(each["devices"] or 0 for each in slices),
        "replicas": slices[0]["replicas"] if slices else None,
        "memory_mib": 81559,
        "driver": "580.95.05",
        "mig": {"capable": True, "strategy": "mixed", "config": "all-disabled", "state": "success"},
        "sharing": {"strategy": "none", "config": None},
        "slices": list(slices),
        "os": "ubuntu24.04",
        "kernel": "6.8.0-87-generic",
        "runtime": "containerd://2.1.4",
        "capacity": {},
        "allocatable": {},
        "allocated": {},
        "ready": True,
        "cordoned": False,
        "taints": [],
        "upgrade_state": "upgrade-done",
        "waiting_for": {},
        "claimable": False,
        "left_out": None,
        **changes,
    }


def finding(code: str, title: str, severity: str, nodes: t.Sequence[str], **changes: t.Any) -> Json:
    """Return a finding as `Finding.as_result` does."""
    page = "https://gpuops.github.io/gpuops.nvidia/main/reference/findings.html"
    return {
        "code": code,
        "title": title,
        "severity": severity,
        "certainty": "certain",
        "cause": f"{title}.",
        "remedy": "Correct it.",
        "nodes": list(nodes),
        "objects": [],
        "quotes": [],
        "consequences": [],
        "tell_apart": [],
        "url": f"{page}#{code.lower()}",
        **changes,
    }


def data(rows: t.Sequence[Json], **changes: t.Any) -> Json:
    """Return the result of the module for these nodes."""
    return {
        "taken": TAKEN,
        "took_s": 1.4,
        "stack": {
            "nodes": list(rows),
            "verdict": {"state": "ready", "message": "The GPU stack is ready.", "reasons": []},
        },
        "findings": [],
        "gaps": [],
        "pods": [],
        "usage": None,
        "hosts": {},
        **changes,
    }


def gpu(number: int, **changes: t.Any) -> Json:
    """Return a GPU as gpu_facts names it, as far as the module passes it on."""
    return {
        "pci_address": f"0000:{16 + number:02x}:00.0",
        "vbios": "96.00.74.00.01",
        "inforom": "G520.0200.00.05",
        "gsp": "580.95.05",
        "mig": {"mode": False, "gpu_instances": []},
        **changes,
    }


def usage(nodes: t.Mapping[str, float], **changes: t.Any) -> Json:
    """Return how much the GPUs of some nodes are used, as `collect.usage` does from a Prometheus of a week."""
    return {
        "source": "prometheus",
        "time_range": {"begin": "2026-11-16T12:00:00Z", "end": TAKEN, "step_s": 10080},
        "summary": {"mean_utilisation": 61.3, "held": 12, "idle": 2, "idle_cost": 300.0, "power_w": 41230.0},
        "namespaces": [space("batch", 4, 88.1), space("notebooks", 8, 12.4, idle=2, cost=300.0)],
        "idle_holders": [idle("jupyter-ada-0", 0, 96.0), idle("jupyter-grace-0", 1, 24.0)],
        "nodes": dict(nodes),
        **changes,
    }


def space(name: str, gpus: int, mean: float | None, idle: int = 0, cost: float | None = 0.0) -> Json:
    """Return what a namespace holds, as gpu_metrics_info does."""
    numbers = {"gpus": gpus, "mig_instances": 0, "idle": idle, "mean_utilisation": mean, "idle_cost": cost}
    return {"namespace": name, **numbers, "unnamed_pods": 0}


def idle(pod: str, number: int, hours: float | None, **changes: t.Any) -> Json:
    """Return a GPU that a pod leaves idle, as gpu_metrics_info does."""
    return {
        "node": "gpu-0003",
        "gpu": number,
        "uuid": f"GPU-{number}",
        "mig_profile": None,
        "mig_instance": None,
        "model": "NVIDIA H100 80GB HBM3",
        "pods": [{"namespace": "notebooks", "pod": pod, "container": "main"}],
        "utilisation": 0.0,
        "hours": hours,
        "cost_per_hour": 2.5,
        "cost": None if hours is None else hours * 2.5,
        **changes,
    }


# ---- a fleet of some size, with some of everything ------------------------------------------------------------------

_TEAMS = ("llm-training", "inference", "research", "batch", "vision", "notebooks")


def fleet(count: int = 1000) -> Json:
    """Return a fleet of several models, a few nodes of which are in trouble. The same number gives the same fleet."""
    rows = [_node(number) for number in range(count)]
    names = [each["name"] for each in rows]
    pods = [pod for number, each in enumerate(rows) for pod in _pods(number, each)]
    hosts = {
        name: {"gpus": [gpu(index) for index in range(8)]}
        for number, name in enumerate(names)
        if rows[number]["product"] == H100
    }
    found = _trouble(rows, hosts)
    serving = sum(_serves(each) for each in rows)
    message = f"The GPU stack is not ready: {serving} of {count} GPU nodes have allocatable GPUs."
    verdict = {"state": "failed", "message": message, "reasons": []}
    return data(
        rows,
        stack={"nodes": rows, "verdict": verdict},
        pods=pods,
        usage=_usage(names, pods),
        hosts=hosts,
        findings=found,
        gaps=[
            {
                "what": f"the hosts of {count - len(hosts)} GPU nodes",
                "why": "Kernel log, driver modules, services and container runtime were not looked at. Put the hosts "
                "into the group gpu_hosts of the inventory, and run playbooks/diagnose.yml.",
            }
        ],
    )


def _usage(names: t.Sequence[str], pods: t.Sequence[Json]) -> Json:
    """Return how much these pods use what they hold. The notebooks leave every third device idle."""
    held = dict.fromkeys(_TEAMS, 0)
    for pod in pods:
        held[pod["namespace"]] += sum(pod["gpus"].values())
    waste = held["notebooks"] // 3
    spaces = [space(name, held[name], 91.5 - 13.7 * number) for number, name in enumerate(_TEAMS[:-1])]
    spaces.append(space("notebooks", held["notebooks"], 8.4, idle=waste, cost=waste * 120.0))
    total = {"mean_utilisation": 61.3, "held": sum(held.values()), "idle": waste, "idle_cost": waste * 120.0}
    holders = [
        idle(f"jupyter-{number}", number % 8, 168.0 - number, node=names[number * 3 % len(names)])
        for number in range(waste)
    ]
    return usage(
        {name: float(number * 7 % 100) for number, name in enumerate(names)},
        summary={**total, "power_w": 350.0 * sum(held.values())},
        namespaces=spaces,
        idle_holders=holders,
    )


def _serves(node: Json) -> bool:
    return bool(node["ready"] and not node["waiting_for"] and any(each["allocatable"] for each in node["slices"]))


def _node(number: int) -> Json:
    name = f"gpu-{number:04d}"
    kind = number % 20
    if kind < 12:
        return row(name, H100, part(8, (number * 7) % 9))
    if kind < 15:
        parts = (part(8, number % 6, profile="3g.40gb"), part(16, number % 15, profile="1g.10gb"))
        mig = {"capable": True, "strategy": "mixed", "config": "3g-and-1g", "state": "success"}
        return row(name, A100, *parts, gpus=8, mig=mig)
    if kind < 17:
        mig = {"capable": True, "strategy": "mixed", "config": "all-1g.10gb", "state": "success"}
        return row(name, A100, part(56, (number * 5) % 57, profile="1g.10gb"), gpus=8, mig=mig)
    share = {"strategy": "time-slicing", "config": "four"}
    mig = {"capable": False, "strategy": None, "config": None, "state": None}
    return row(name, L4, part(4, number % 17, replicas=4), gpus=4, sharing=share, mig=mig, os="rhel9.6")


def _pods(number: int, node: Json) -> t.Iterator[Json]:
    for each in node["slices"]:
        left, index = each["allocated"] or 0, 0
        while left > 0:
            size = min(left, 4 if each["profile"] is None and each["replicas"] == 1 and index == 0 else 1)
            team = _TEAMS[(number + index * index) % len(_TEAMS)]
            name = f"{team}-worker-{number * 13 % 997:03d}-{index}"
            yield {"namespace": team, "name": name, "node": node["name"], "gpus": {each["resource"]: size}}
            left, index = left - size, index + 1


def _trouble(rows: list[Json], hosts: dict[str, Json]) -> list[Json]:
    """Change some nodes, and return what a diagnosis says about them."""
    of_model = {model: [each for each in rows if each["product"] == model] for model in (H100, A100, L4)}
    few = max(1, len(rows) // 250)
    lost, broken, upgrading = of_model[H100][1], of_model[H100][3 : 3 + few], of_model[H100][8 : 8 + 2 * few]
    lost["slices"][0].update(allocatable=7, allocated=min(7, lost["slices"][0]["allocated"]))
    for each in broken:
        each["waiting_for"] = {"driver": "CrashLoopBackOff", "toolkit": "Init:0/1"}
        each["slices"][0].update(allocatable=0, allocated=0)
    for each in upgrading:
        each.update(upgrade_state="pod-restart-required", cordoned=True)
    for each in of_model[A100][2 : 2 + few]:
        each["cordoned"] = True
        each["taints"] = ["node.kubernetes.io/unschedulable:NoSchedule"]
    for each in of_model[L4][4:5]:
        each["left_out"] = "OperandsSwitchedOff"
    odd = [each["name"] for each in of_model[H100][-2 * few :]]
    for name in odd:
        hosts[name]["gpus"] = [gpu(index, vbios="96.00.5E.00.01") for index in range(8)]
    return [
        finding(
            "XidOffTheBus",
            "A GPU has fallen off the bus",
            "failure",
            [lost["name"]],
            cause="The GPU no longer answers on the PCI bus. Its link or its power has failed.",
            remedy="Drain the node and power it off and on. If the GPU is lost again, have the machine serviced.",
            objects=["GPU 0000:b9:00.0"],
            quotes=[
                {
                    "text": "NVRM: Xid (PCI:0000:b9:00): 79, pid='<unknown>', name=<unknown>, "
                    "GPU has fallen off the bus.",
                    "source": "kernel log",
                    "node": lost["name"],
                }
            ],
            consequences=[{"code": "FewerGPUs", "title": "Fewer GPUs allocatable than present", "nodes": []}],
        ),
        finding(
            "DriverImageMissing",
            "There is no driver image for this kernel",
            "failure",
            [each["name"] for each in broken],
            cause="The registry has no image of driver 580.95.05 for the kernel 6.8.0-88-generic.",
            remedy="Set driver.version in driver_container to a version that has images for this kernel, or run "
            "playbooks/upgrade_kernel.yml with another kernel.",
            quotes=[
                {
                    "text": 'Failed to pull image "nvcr.io/nvidia/driver:580-6.8.0-88-generic-ubuntu24.04": not found',
                    "source": "event of pod gpu-operator/nvidia-driver-daemonset-x7k2p",
                    "node": broken[0]["name"],
                }
            ],
            consequences=[{"code": "OperandWaiting", "title": "An operand is not ready", "nodes": []}],
        ),
        finding(
            "PluginConfigStale",
            "The device plugin has not read its new configuration",
            "warning",
            [each["name"] for each in of_model[L4][6 : 6 + 2 * few]],
            certainty="likely",
            cause="The ConfigMap has changed, and the pods of the device plugin still offer the former shares.",
            remedy="Run playbooks/sharing.yml, which restarts the device plugin and proves the shares on each node.",
        ),
        finding(
            "FleetDriftVBIOS",
            "VBIOS unlike that of equal machines",
            "warning",
            odd,
            cause=f"The VBIOS is 96.00.5E.00.01, while most GPUs in machines with 8 x {H100} have 96.00.74.00.01.",
            remedy="Take the node out of service, and install the vendor's firmware bundle of the other machines.",
        ),
    ]
