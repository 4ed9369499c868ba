# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m lab.cluster.operator.standin`` runs the stand-in on a cluster."""

from __future__ import annotations

import argparse
import os

from lab.cluster.api import Api
from lab.cluster.operator.standin.controllers.upgrade import Timing
from lab.cluster.operator.standin.operator import Operator

parser = argparse.ArgumentParser(
    prog="python -m lab.cluster.operator.standin", description="Act like NVIDIA's GPU Operator on a cluster."
)
parser.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG"), required="KUBECONFIG" not in os.environ)
parser.add_argument(
    "--upgrade-tick",
    type=float,
    default=120,
    metavar="SECONDS",
    help="interval between scheduled checks for driver upgrades (default: %(default)s)",
)
parser.add_argument(
    "--validation-seconds",
    type=float,
    default=600,
    metavar="SECONDS",
    help="time after which an upgrade fails whose validator is not ready (default: %(default)s)",
)
arguments = parser.parse_args()
Operator(Api(arguments.kubeconfig), Timing(arguments.upgrade_tick, arguments.validation_seconds)).run()
