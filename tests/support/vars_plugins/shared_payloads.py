# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let runs of ansible-playbook share the zip files of modules, in the folder that GPUOPS_PAYLOADS names.

Otherwise, each run collects the files of each module again. Ansible loads every vars plugin before the first task.
"""

from __future__ import annotations

import os
import typing as t

from ansible import constants
from ansible.plugins.vars import BaseVarsPlugin

_OWN = os.path.join(t.cast(t.Any, constants).DEFAULT_LOCAL_TMP, "ansiballz_cache")
if not os.path.lexists(_OWN):
    os.symlink(os.environ["GPUOPS_PAYLOADS"], _OWN)


class VarsModule(BaseVarsPlugin):
    """Sets no variables."""

    def get_vars(self, loader: t.Any, path: str, entities: t.Any) -> dict[str, t.Any]:
        """Return no variables."""
        return {}
