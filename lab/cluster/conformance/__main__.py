# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m lab.cluster.conformance FOLDER`` rewrites vendor.json from recordings of NVIDIA's operator.

FOLDER has one file for each scenario.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lab.cluster.conformance.facts import facts
from lab.cluster.conformance.scenarios import SCENARIOS

kept = {}
for scenario in SCENARIOS:
    recording = [json.loads(line) for line in (Path(sys.argv[1]) / f"{scenario.name}.jsonl").read_text().splitlines()]
    everything = facts(recording)
    kept[scenario.name] = {part: everything[part] for part in (*scenario.compared, "moments")}
Path(__file__).with_name("vendor.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
