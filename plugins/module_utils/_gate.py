# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The gate through which everything goes to a screen, a file or an event: without secrets, and printable. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _text
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask, mask_text
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def shown(value: t.Any) -> t.Any:
    """Return a value of JSON as anybody may see it."""
    return _text.all_printable(mask(value))


def result(given: Json, passed_on: t.Collection[str] = ()) -> Json:
    """Return a module's result as anybody may see it, apart from keys that the next task writes to the cluster."""
    seen: Json = shown({key: value for key, value in given.items() if key not in passed_on})
    return {**seen, **{key: _text.all_printable(given[key]) for key in passed_on if key in given}}


def sentence(text: str) -> str:
    """Return a sentence for people as anybody may see it."""
    return _text.message(mask_text(text))
