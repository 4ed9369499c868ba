# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run `gpu_facts` in its own process on a simulated host: `python -m benchmarks.gpu_host FOLDER ARGUMENTS`.

The host's files are in the folder, NVML is the fake library in it, and the commands are those of this machine.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.modules import gpu_facts


def main(folder: str) -> None:
    """Run the module on the host in a folder."""
    os.environ["FAKE_NVML_STATE"] = f"{folder}/nvml.state"
    # Once it is loaded, pynvml finds it by its name.
    ctypes.CDLL(f"{folder}/libnvidia-ml.so.1", mode=ctypes.RTLD_GLOBAL)
    gpu_facts.Host = functools.partial(Host, folder)
    gpu_facts.main()


if __name__ == "__main__":
    main(sys.argv.pop(1))
