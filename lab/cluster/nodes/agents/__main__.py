# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m lab.cluster.nodes.agents`` simulates the programs inside the pods of every node."""

from __future__ import annotations

import argparse
from pathlib import Path

from lab.cluster.api import Api
from lab.cluster.nodes.agents.agents import Agents
from lab.cluster.nodes.agents.managers.mig_manager import Timing
from lab.cluster.nodes.agents.real import RealAgents

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m lab.cluster.nodes.agents", description="Simulate the programs inside the pods of every node."
    )
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--mig-seconds", type=float, required=True)
    parser.add_argument("--mig-patience", type=float, required=True)
    parser.add_argument("--reboot-seconds", type=float, required=True)
    parser.add_argument("--manager-patience", type=float, required=True)
    parser.add_argument("--map-delay", type=float, required=True)
    parser.add_argument("--wipe-delay", type=float, required=True)
    parser.add_argument("--logs", type=Path, required=True, help="the folder for what the containers say")
    parser.add_argument("--agent", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--folder", type=Path, help="where vendors' programs find the nodes' NVML")
    given = parser.parse_args()
    timing = Timing(given.mig_seconds, given.mig_patience, given.reboot_seconds)
    commands = dict(item.split("=", 1) for item in given.agent)
    real = RealAgents(commands, given.folder, given.kubeconfig) if commands else None
    delays = (given.manager_patience, given.map_delay, given.wipe_delay)
    Agents(Api(given.kubeconfig), timing, given.logs, real, *delays).run()
