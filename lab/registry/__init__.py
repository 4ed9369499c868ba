# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container registry on loopback, with or without authentication and TLS. README.md in this folder describes it."""

from __future__ import annotations

from lab.registry.client import Credentials, trouble
from lab.registry.registry import Registry, running

__all__ = ["Credentials", "Registry", "running", "trouble"]
