# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m lab.cluster.conformance FOLDER`` renews vendor.json from recordings of NVIDIA's operator.

FOLDER has one file for each scenario that was recorded. What is known of other scenarios stays.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lab.cluster.conformance.facts import facts
from lab.cluster.conformance.rollouts import ROLLOUTS
from lab.cluster.conformance.scenarios import SCENARIOS

VENDOR = Path(__file__).with_name("vendor.json")
kept = json.loads(VENDOR.read_text())
for scenario in (*SCENARIOS, *ROLLOUTS):
    file = Path(sys.argv[1]) / f"{scenario.name}.jsonl"
    if file.exists():
        everything = facts([json.loads(line) for line in file.read_text().splitlines()])
        kept[scenario.name] = {part: everything[part] for part in (*scenario.compared, "moments")}
VENDOR.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
