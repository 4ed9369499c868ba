# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which operands a ClusterPolicy enables."""

from __future__ import annotations

from lab.cluster.operator.standin.operands import OPERANDS
from tests.lab.cluster.operator.standin.builders import BY_STATE


def test_defaults_of_an_empty_spec() -> None:
    enabled = {operand.state for operand in OPERANDS if operand.enabled({})}
    assert "state-dcgm" in enabled
    assert "state-node-status-exporter" not in enabled
    assert not any(operand.sandbox is not None for operand in OPERANDS if operand.state in enabled)


def test_sandbox_modes() -> None:
    spec = {
        "sandboxWorkloads": {"enabled": True, "mode": "kata"},
        "ccManager": {"enabled": True},
        "sandboxDevicePlugin": {"enabled": True},
    }
    assert BY_STATE["state-cc-manager"].enabled(spec)
    assert not BY_STATE["state-sandbox-device-plugin"].enabled(spec)
