# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every controller writes."""

from __future__ import annotations

from lab.cluster.operator.standin.objects import condition


def test_transition_time_moves_with_the_status_only() -> None:
    before = {"type": "Ready", "status": "True", "reason": "NoGPUNodes", "message": "", "lastTransitionTime": "then"}
    assert condition("Ready", ("True", "Reconciled", "m"), before)["lastTransitionTime"] == "then"
    assert condition("Ready", ("False", "Error", ""), before)["lastTransitionTime"] != "then"
