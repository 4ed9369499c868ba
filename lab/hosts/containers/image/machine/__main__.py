# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python3 -m machine COMMAND``: the boot, and the commands that talk to the kernel."""

from __future__ import annotations

import sys

from . import boot, modules, nvidia_smi

COMMANDS = {
    "boot": boot.main,
    "modprobe": modules.modprobe,
    "rmmod": modules.rmmod,
    "lsmod": modules.lsmod,
    "nvidia-smi": nvidia_smi.main,
}

sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
