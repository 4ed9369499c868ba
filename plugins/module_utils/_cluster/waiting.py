# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What modules that wait and the controller that shows how far they are have in common.

It imports nothing: Ansible loads action plugins in every run, and the Kubernetes client would make each start half a second later.
"""

from __future__ import annotations

POLL_S = 2.0
OUTAGE_S = 60
"""How long the API server may be away in the middle of a wait: a control plane upgrade restarts it for some seconds."""
AWAY = ("Unreachable", "ServerError", "TooManyRequests")
"""Reasons of a failure after which the API server may come back."""


def timeout_message(message: str, seconds: float) -> str:
    """Say that time is up, and what was missing."""
    return f"The GPU stack is not ready after {int(seconds)} s: {message}"
