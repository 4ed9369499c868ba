# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What check mode does where a run would refuse to go on: it fails as the run would, or warns if that was asked for.

Gates and approvals rest on the exit status of a check. Options are described in doc_fragments/check_refusal.py.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

CHECK_REFUSAL = ArgumentSpec({"check_refusal": {"type": "str", "choices": ["fail", "warn"], "default": "fail"}})

WOULD_STOP = "A run would stop here: "


def only_warns(options: t.Mapping[str, t.Any], check_mode: bool) -> bool:
    """Return whether a refusal is a warning in this call."""
    return check_mode and options["check_refusal"] == "warn"


def refuse(error: GpuOpsError, warns: bool) -> str:
    """Raise a refusal, or return it as a warning."""
    if not warns:
        raise error
    return f"{WOULD_STOP}{error.msg}"
