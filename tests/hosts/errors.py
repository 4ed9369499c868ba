# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exceptions of the test hosts."""

from __future__ import annotations


class HostsError(Exception):
    """Something that the person at the keyboard can act on; its text is all that they see."""


class UnavailableError(HostsError):
    """This machine cannot run such hosts; the text says why in one sentence, and tests skip with it."""
