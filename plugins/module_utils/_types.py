# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The types that every part of the collection shares."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]
"""A JSON object: an object of the Kubernetes API, a module's result, or a fact."""
