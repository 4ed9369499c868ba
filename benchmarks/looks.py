# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`python -m benchmarks.looks KUBECONFIG`: the seconds of a wait's first two looks, and the peak memory, as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time

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
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    json.dump({"look_s": took[0], "second_look_s": took[1], "look_mb": peak_kb // 1024}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
