# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Prometheus beside a lab, which reads the lab's exporters and has the rules that a playbook has written.

Debian's build knows no service discovery of Kubernetes. So the targets are those that the lab has when it starts.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from lab import ports, programs, prometheus
from lab.cluster.lab import Lab
from lab.cluster.nodes.fleet import NOTE
from lab.errors import LabError
from lab.process import Component

Json = dict[str, t.Any]

NAME = "prometheus"
_SCRAPED = "5s"


def dcgm_ports(lab: Lab) -> dict[str, int]:
    """Return the port on loopback of each node's DCGM exporter, by node."""
    return _ports(lab, "metrics-port")


def status_ports(lab: Lab) -> dict[str, int]:
    """Return the port on loopback of each node's status exporter, by node. It is off by default."""
    return _ports(lab, "status-port")


def _ports(lab: Lab, written: str) -> dict[str, int]:
    items = json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]
    notes = {item["metadata"]["name"]: item["metadata"].get("annotations") or {} for item in items}
    return {name: int(found[f"{NOTE}{written}"]) for name, found in notes.items() if f"{NOTE}{written}" in found}


def serve(lab: Lab, rules: Path) -> tuple[str, int]:
    """Start Prometheus with a file of rules, or start it again; return its address and how many nodes it reads."""
    if not rules.is_file():
        raise LabError(f"There is no file {rules}. The playbook monitoring.yml writes it into monitoring_folder.")
    found = dcgm_ports(lab)
    if not found:
        raise LabError("No exporter serves metrics yet. Run site.yml first.")
    folder = lab.folder / NAME
    folder.mkdir(exist_ok=True)
    (folder / "prometheus.yml").write_text(json.dumps(_configuration(lab, found, rules.resolve())))
    address = _address(lab)
    command = [
        str(programs.provide(NAME)),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    server = Component(NAME, command, folder / "log", folder)
    lab.add_component(server)
    try:
        prometheus.until_ready(server, f"http://{address}")
    except LabError:
        lab.remove_component(NAME)
        raise
    return f"http://{address}", len(found)


def _address(lab: Lab) -> str:
    """Return where Prometheus listens, which stays the same when it starts again."""
    running = lab.state.components.get(NAME)
    options = (word.partition("=") for word in (running.argv if running else ()))
    known = next((value for option, dummy, value in options if option == "--web.listen-address"), "")
    return known or f"127.0.0.1:{ports.free(1)[0]}"


def _configuration(lab: Lab, found: t.Mapping[str, int], rules: Path) -> Json:
    """Return the jobs with the labels that the role monitoring gives them in a cluster."""
    gpus = [_target(port, {"node": node}) for node, port in found.items()]
    status = [_target(port, {}) for port in status_ports(lab).values()]
    return {
        "global": {"scrape_interval": _SCRAPED, "evaluation_interval": _SCRAPED},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": "nvidia-dcgm-exporter", "static_configs": gpus},
            {"job_name": "nvidia-node-status-exporter", "static_configs": status},
        ],
    }


def _target(port: int, labels: Json) -> Json:
    return {"targets": [f"127.0.0.1:{port}"], "labels": labels}
