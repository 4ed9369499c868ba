# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exceptions of the lab. Their text is all that the user sees."""

from __future__ import annotations


class LabError(Exception):
    """A failure that the user can act on. The text gives the cause and the remedy."""


class UnavailableError(LabError):
    """This machine cannot run such hosts. The text gives the reason in one sentence, which skipped tests show."""
