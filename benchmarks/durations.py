# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Time the playbooks on the lab, for docs/reference/durations.md: `python -m benchmarks.durations [NODES...]`.

Each run prints a JSON line with the seconds of a clock, the seconds of a core that the controller used, and the load of
the machine. The runs after the first ask for what the cluster already has. Nodes beyond 100 are written into etcd
without simulated life (lab/cluster/nodes/bulk.py), so that only runs that look are timed there.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import typing as t
from pathlib import Path

import yaml

from benchmarks.__main__ import ANSIBLE_PLAYBOOK, GPU_PRESENT, ROOT, deployed, fresh, measured
from lab.cluster import Lab, Options
from lab.cluster.nodes import bulk

LIVE = 100
"""The most nodes that the lab simulates on two cores."""
ALL = {GPU_PRESENT: "true"}
MIG = {"mig_layouts": [{"layout": "all-disabled", "node_selector": ALL}], "mig_max_unavailable": "100%"}
SHARING = {
    "sharing_configs": [{"name": "four", "strategy": "time-slicing", "replicas": 4, "node_selector": ALL}],
    "sharing_max_unavailable": "100%",
}


def main(sizes: list[str]) -> None:
    for nodes in [int(size) for size in sizes] or [4, 100, 1000]:
        with tempfile.TemporaryDirectory() as folder:
            page = {"report_path": str(Path(folder, "fleet.html"))}
            (live if nodes <= LIVE else large)(nodes, page)


def live(nodes: int, page: dict[str, t.Any]) -> None:
    """Time what deploys, proves, reads and divides, on nodes whose pods become ready at once."""
    with fresh(f"durations-{nodes}", Options(nodes=nodes, pods="instant", mig_seconds=0.5, map_delay=1)) as lab:
        site = {"operator_chart_ref": lab.chart, "operator_helm_path": str(lab.helm), "operator_wait_timeout": 1800}
        runs = [("site, first", "site", site), ("site", "site", site), ("verify", "verify", {})]
        runs += [("diagnose", "diagnose", {})]
        runs += [("report, first", "report", page), ("report", "report", page)]
        runs += [("mig, first", "mig", MIG), ("mig", "mig", MIG)]
        runs += [("sharing, first", "sharing", SHARING), ("sharing", "sharing", SHARING)]
        for name, playbook, variables in runs:
            time_one(lab, nodes, name, playbook, variables)


def large(nodes: int, page: dict[str, t.Any]) -> None:
    """Time what only looks."""
    with deployed(f"durations-{nodes}", Options(nodes=1, pods="instant", mig_seconds=0.5, map_delay=1)) as lab:
        for name, variables in (("mig", MIG), ("sharing", SHARING)):
            time_one(lab, 1, f"{name}, first", name, variables)
        bulk.multiply(lab, nodes)
        time_one(lab, nodes, "report, first", "report", page)
        for name, variables in (("diagnose", {}), ("report", page), ("mig", MIG), ("sharing", SHARING)):
            time_one(lab, nodes, name, name, variables)


def time_one(lab: Lab, nodes: int, name: str, playbook: str, variables: dict[str, t.Any]) -> None:
    """Run a playbook once and print what it took."""
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as extra:
        yaml.safe_dump({"gpuops_kubeconfig": str(lab.kubeconfig), **variables}, extra)
        extra.flush()
        command = [ANSIBLE_PLAYBOOK, "-e", f"@{extra.name}", str(ROOT / "playbooks" / f"{playbook}.yml")]
        environment = {"ANSIBLE_LOCALHOST_WARNING": "false", "K8S_AUTH_KUBECONFIG": str(lab.kubeconfig)}
        found = measured(command, environment, None if name.endswith("first") else r"changed=[1-9]")
    took = {"seconds": round(found["seconds"], 1), "core_s": round(found["cpu_seconds"], 1)}
    print(json.dumps({"run": name, "nodes": nodes, **took, "load": round(os.getloadavg()[0], 1)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
