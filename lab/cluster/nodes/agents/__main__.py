# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m lab.cluster.nodes.agents`` simulates the programs inside the pods of every node."""

from __future__ import annotations

import argparse

from lab.cluster.api import Api
from lab.cluster.nodes.agents.agents import Agents

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m lab.cluster.nodes.agents", description="Simulate the programs inside the pods of every node."
    )
    parser.add_argument("--kubeconfig", required=True)
    Agents(Api(parser.parse_args().kubeconfig)).run()
