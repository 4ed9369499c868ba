# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NVIDIA's own mig-parted says of a thousand documents, right and wrong ones.

    python -m tests.unit.plugins.module_utils._mig.verdicts PATH/TO/nvidia-mig-parted

records ``fixtures/mig/mig_parted_verdicts.jsonl`` again: each line has a document, the exit status of
``nvidia-mig-parted assert --valid-config``, and its message. It needs no GPU. Recorded with v0.15.0.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

RECORDED = Path(__file__).parents[3] / "fixtures" / "mig" / "mig_parted_verdicts.jsonl"
COUNT, SEED = 1000, 14
LAYOUT = "x"
PREFIX = "Error parsing config file: unmarshal error: error unmarshaling JSON: while decoding JSON: "
PROFILES = ("1g.5gb", "1g.10gb", "1g.10gb+me", "1g.24gb-me", "1g.24gb+me.all", "2g.20gb", "3g.40gb", "4g.40gb")
PROFILES += ("7g.80gb", "1c.3g.40gb", "3c.3g.40gb", "1g.6gb", "1g.24gb+gfx", "9g.999gb", "07g.80gb")
BROKEN = ("banana.99gb", "1g.10gb.me", "1g.10gb+", "1g.10gb+me-me", "1g.10gb+me,me", "1g", "1g.10g", " 1g.10gb")
BROKEN += ("1G.10GB", "1g.10gb+1x", "1g.10gb+.me", "x1g.10gb", "1g.10gb-2", "")
COUNTS: tuple[t.Any, ...] = (*[1, 2, 3, 4, 7] * 10, 0, 9, -1, 2.0, 1.5, "2", None, True)
SOME: tuple[t.Any, ...] = (*["all"] * 50, *[[0], [0, 1]] * 6)
DEVICES: tuple[t.Any, ...] = (*SOME, [7], [], [-1], [1.0], ["0"], "none", None, 0, [0.5], {})
GOOD: tuple[t.Any, ...] = ("0x20B010DE", ["0x20B010DE", "0x233010DE"])
FILTERS: tuple[t.Any, ...] = (*GOOD * 9, "garbage", "", [], [""], [None], None, 1, [1])
ENABLED: tuple[t.Any, ...] = (*[True] * 60, *[False] * 20, None, "true", 1)


def _mig_devices(pick: random.Random) -> t.Any:
    if pick.random() < 0.03:
        return pick.choice([None, [], "1g.10gb", 7])
    profiles = [
        pick.choice(BROKEN if pick.random() < 0.03 else PROFILES) for dummy in range(pick.choice((0, 1, 1, 2, 3)))
    ]
    return {profile: pick.choice(COUNTS) for profile in profiles}


def _entry(pick: random.Random) -> t.Any:
    if pick.random() < 0.02:
        return pick.choice([None, "all", [], 1])
    enabled = pick.choice(ENABLED)
    entry = {"devices": pick.choice(DEVICES), "mig-enabled": enabled}
    if (enabled is True and pick.random() < 0.97) or pick.random() < 0.06:
        entry["mig-devices"] = _mig_devices(pick)
    if pick.random() < 0.3:
        entry["device-filter"] = pick.choice(FILTERS)
    for name in ("devices", "mig-enabled"):
        if pick.random() < 0.02:
            del entry[name]
    if pick.random() < 0.02:
        entry[pick.choice(["mig_devices", "device_filter", "Devices", "extra"])] = True
    return entry


def _document(pick: random.Random) -> t.Any:
    chance = pick.random()
    if chance < 0.02:
        return pick.choice([None, {}, [], "v1", {"version": "v1"}, {"version": "v1", "mig-configs": None}])
    entries: t.Any = [_entry(pick) for dummy in range(pick.choice((1, 1, 1, 2, 0 if chance < 0.1 else 3)))]
    layouts: t.Any = {LAYOUT: entries if chance < 0.97 else pick.choice([None, {}, "all"])}
    if chance > 0.9:
        layouts["other"] = [_entry(pick)]
    document = {"version": pick.choice(["v1"] * 40 + ["v2", 1, None]), "mig-configs": layouts}
    if pick.random() < 0.02:
        document[pick.choice(["mig_configs", "extra"])] = {}
    if pick.random() < 0.02:
        del document[pick.choice(["version", "mig-configs"])]
    return document


def documents() -> t.Iterator[t.Any]:
    """Yield a thousand documents, always the same."""
    pick = random.Random(SEED)
    for dummy in range(COUNT):
        yield _document(pick)


def judged(binary: str, document: t.Any) -> tuple[int, str]:
    """Return what mig-parted says of a document: its exit status, and its message."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(document, file)
        file.flush()
        command = [binary, "assert", "--valid-config", "-f", file.name, "-c", LAYOUT]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    message = re.search(r'level=\w+ msg="?(.*?)"?$', answer.stderr.strip())
    text = (message[1] if message else answer.stderr.strip()).replace('\\"', '"')
    return answer.returncode, text.removeprefix(PREFIX)


def read() -> list[dict[str, t.Any]]:
    """Return the recorded verdicts."""
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def main() -> None:
    with RECORDED.open("w") as file:
        for document in documents():
            status, message = judged(sys.argv[1], document)
            row = {"document": document, "status": status, "message": message}
            file.write(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
