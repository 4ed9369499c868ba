# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.modprobe import (
    argument_blocks_module,
    blocks_module,
    files,
    text,
)

from tests.unit.fakes.host import FakeHost


@pytest.mark.parametrize(
    ("configuration", "blocked"),
    [
        ("blacklist nouveau\n", True),
        ("blacklist nova_core\nblacklist   nouveau\n", True),
        ("  blacklist   nouveau # the proprietary one\n", True),
        ("install nouveau /bin/false\n", True),
        ("# blacklist nouveau\n", False),
        ("blacklist nouveau_drm\n", False),
        ("options nouveau modeset=0\n", False),
        ("install nouveau /sbin/modprobe --ignore-install nouveau\n", False),
        ("install\nblacklist\n", False),
        ("install nouveau\n", False),
    ],
)
def test_what_keeps_a_module_from_being_loaded(configuration: str, blocked: bool) -> None:
    assert blocks_module(configuration, "nouveau") is blocked


@pytest.mark.parametrize(
    ("configuration", "module"), [("blacklist nova-core\n", "nova_core"), ("install nova_drm /bin/true\n", "nova-drm")]
)
def test_a_dash_and_an_underscore_are_the_same_in_a_modules_name(configuration: str, module: str) -> None:
    assert blocks_module(configuration, module)
    assert argument_blocks_module(f"modprobe.blacklist={module}", module.replace("-", "_"))


def test_of_files_with_the_same_name_the_one_in_etc_counts(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/usr/lib/modprobe.d/a.conf", "blacklist a\n")
    host.put("/etc/modprobe.d/a.conf", "# nothing\n")
    host.put("/run/modprobe.d/b.conf", "blacklist b")
    host.put("/etc/modprobe.d/c.conf.bak", "blacklist c")
    assert files(host) == ["/etc/modprobe.d/a.conf", "/run/modprobe.d/b.conf"]
    assert text(host) == "# nothing\nblacklist b"
