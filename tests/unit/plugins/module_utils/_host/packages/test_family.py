# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.apt import Apt
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.dnf import Dnf
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.family import Family


def test_both_package_managers_do_everything_that_a_family_does() -> None:
    for family in (Apt, Dnf):
        assert family.__abstractmethods__ == frozenset()


def test_only_a_family_that_knows_dgx_os_names_it() -> None:
    assert Family.dgx_release(t.cast("Family", None)) is None
