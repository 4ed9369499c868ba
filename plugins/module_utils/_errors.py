# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one exception that everything below a module's ``main()`` raises."""

from __future__ import annotations

import typing as t


class GpuOpsError(Exception):
    """A failure that a user can act on.

    ``msg`` is one or two plain sentences: what is wrong, and the remedy. ``details`` become keys of the module's result
    (partial results such as a verdict ride here). The key ``reason`` is a CamelCase word for code that must tell failures
    apart, for example ``Unreachable``, ``Unauthorized``, ``Forbidden``, ``NotFound``, ``Conflict``, ``Invalid``, ``TimedOut``.
    """

    def __init__(self, msg: str, **details: t.Any) -> None:
        super().__init__(msg)
        self.msg = msg
        self.details = details

    @property
    def reason(self) -> str | None:
        """The failure's CamelCase word, or None when nobody needs to tell it apart."""
        return self.details.get("reason")
