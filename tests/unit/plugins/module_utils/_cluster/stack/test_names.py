# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names that NVIDIA's operator, its chart and Node Feature Discovery use."""

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names

LABEL = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9][A-Za-z0-9._-]*")

STRINGS = {name: value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}


def test_no_name_has_two_constants() -> None:
    assert len(set(STRINGS.values())) == len(STRINGS)


def test_labels_are_spelled_as_kubernetes_allows() -> None:
    # A name that ends in * stands for all keys with this beginning.
    keys = [
        value.removesuffix("*") + "x" if value.endswith("*") else value
        for name, value in STRINGS.items()
        if "/" in value and not name.endswith("_PREFIX")
    ]
    keys += [*names.NFD_GPU_LABELS, *names.DRIVER_VERSION_PARTS]
    assert len(keys) > 20
    assert [key for key in keys if not LABEL.fullmatch(key)] == []


def test_each_set_of_upgrade_states_contains_the_one_before() -> None:
    finished, ended, idle = set(names.UPGRADE_FINISHED), set(names.UPGRADE_ENDED), set(names.UPGRADE_IDLE)
    assert finished < ended < idle
    assert ended - finished == {"upgrade-failed"} and idle - ended == {"upgrade-required"}
