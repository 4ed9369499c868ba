# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A write that depends on an object as it was read: it is tried again while others write to the object."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

ATTEMPTS = 10
"""How often such a write is tried. The operator with its status, kubelets and others write to the same objects."""

Done = t.TypeVar("Done")


def settled(write: t.Callable[[], Done], what: str) -> Done:
    """Return what ``write`` returns, which reads its object and writes it with the version that it has read.

    An API server that says Conflict has a newer version, so the next try begins with that.
    """
    for dummy in range(ATTEMPTS):
        try:
            return write()
        except GpuOpsError as e:
            if e.reason != "Conflict":
                raise
    raise GpuOpsError(f"{what} changes faster than it can be patched. Run it again.", reason="Conflict")
