# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors of DCGM that monitors of nodes report."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import dcgm_errors


def test_each_number_and_each_name_is_there_once() -> None:
    assert len(dcgm_errors.BY_NAME) == len(dcgm_errors.BY_NUMBER) == len(dcgm_errors.ERRORS) > 70
    assert dcgm_errors.BY_NUMBER[120].name == "FALLEN_OFF_BUS"
