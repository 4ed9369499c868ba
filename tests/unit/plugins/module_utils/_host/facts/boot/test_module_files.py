# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.module_files import states

from tests.unit.fakes.host import FakeHost

DEP, BUILTIN = "/lib/modules/6.8/modules.dep", "/lib/modules/6.8/modules.builtin"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({}, None),
        ({"/sys/module/vfio_pci/initstate": "live", DEP: ""}, "loaded"),
        ({"/sys/module/vfio_pci/parameters/ids": "", DEP: ""}, "builtin"),
        ({BUILTIN: "kernel/drivers/vfio/pci/vfio-pci.ko\n"}, "builtin"),
        ({DEP: "kernel/drivers/vfio/pci/vfio-pci.ko.zst: kernel/x.ko\n"}, "available"),
        ({DEP: "kernel/drivers/vfio/pci/vfio_pci.ko:\n"}, "available"),
        ({DEP: "kernel/a/my-vfio-pci.ko: kernel/b/x.ko\n"}, "missing"),
        ({DEP: ""}, "missing"),
        ({BUILTIN: ""}, None),
    ],
)
def test_the_state_of_a_module(tmp_path: Path, files: dict[str, str], state: str | None) -> None:
    host = FakeHost(tmp_path)
    host.put("/proc/sys/kernel/osrelease", "6.8\n")
    for path, text in files.items():
        host.put(path, text)
    assert states(host, ["vfio_pci"]) == {"vfio_pci": state}
