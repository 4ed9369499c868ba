# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m lab.hosts.vm.supervisor FOLDER``: keep a machine running.

qemu ends when the guest reboots, and the supervisor starts a new one.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lab.hosts.vm import qemu
from lab.hosts.vm.hosts import Settings


def main(folder: Path) -> int:
    """Run until qemu fails. Killing the process group of the supervisor also kills qemu."""
    settings = Settings.read(folder)
    load = settings.saved
    while True:
        with (folder / "boots.log").open("a") as log:
            log.write(f"{time.time():.1f} {'saved state' if load else 'cold'}\n")
        status = qemu.start(settings.shape, folder / "disk.qcow2", settings.port, folder, load).wait()
        if status:
            return status
        load = False


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
