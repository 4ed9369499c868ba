# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`python -m benchmarks.looks KUBECONFIG`: the seconds of a wait's first two looks, and the peak memory, as JSON."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe


def main(kubeconfig: str) -> None:
    """Look twice, and print what it took."""
    observer = observe.Observer(Cluster({"kubeconfig": kubeconfig}), "gpu-operator", "cluster-policy")
    took = []
    for _ in range(2):
        started = time.monotonic()
        judge.judge(observer.look())
        took.append(round(time.monotonic() - started, 2))
    json.dump({"look_s": took[0], "second_look_s": took[1], "look_mb": peak_mb()}, sys.stdout)


def peak_mb() -> int:
    """Return this program's peak memory. `getrusage` would count the memory of the process that started it, too."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) // 1024 if found else 0


if __name__ == "__main__":
    main(sys.argv[1])
