# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which values in options, specs and Helm values are secret, and how results hide them. Pure."""

from __future__ import annotations

import re
import typing as t
from urllib.parse import unquote

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MASK = "VALUE_HIDDEN"

SECRET_LENGTH = 6
"""Shorter secrets are not hidden throughout a result, because that would also hide ordinary words."""

_SECRET_VARIABLE = re.compile(r"(?i)(token|password|passwd|secret|credential|api_?key)")
"""Part of the name of an environment variable whose value is secret."""

_SECRET_KEY = re.compile(r"(?i)(token|password|passwd|credentials?|(api|private|secret|access)_?key)$")
"""End of a key whose value is secret. Keys such as secretName and pullSecret hold the name of an object."""

_CREDENTIALS = re.compile(r"""(?<=://)[^\s/"'<>]+(?=@)|^[^\s/@:]+:[^\s/@]+(?=@(?!sha256:))""")
"""The user and the password in a URL, or in an address without a scheme (``user:password@proxy:3128``)."""


def mask(value: t.Any) -> t.Any:
    """Return the value without its secrets: in environment variables, keys, Secret objects and URLs."""
    if isinstance(value, str):
        return _CREDENTIALS.sub(MASK, value)
    if isinstance(value, list):
        return [mask(item) for item in value]
    if not isinstance(value, dict):
        return value
    secret = _secret_keys(value)
    return {key: _masked(item) if key in secret else mask(item) for key, item in value.items()}


def _masked(value: t.Any) -> t.Any:
    return dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK


def _secret_keys(entry: Json) -> set[str]:
    """Return the keys of a mapping whose values are secret as a whole."""
    keys = {key for key, item in entry.items() if item and isinstance(item, str) and _SECRET_KEY.search(str(key))}
    if _is_secret_variable(entry):
        keys.add("value")
    if entry.get("kind") == "Secret":
        keys |= {key for key in ("data", "stringData") if entry.get(key)}
    return keys


def _is_secret_variable(entry: Json) -> bool:
    name = entry.get("name")
    return bool(entry.get("value")) and isinstance(name, str) and bool(_SECRET_VARIABLE.search(name))


def secrets_in(value: t.Any) -> t.Iterator[str]:
    """Yield the secrets that `mask` hides, except very short ones. A module adds them to its ``no_log_values``."""
    for secret in _hidden(value):
        if len(secret) >= SECRET_LENGTH:
            yield secret


def _hidden(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, str):
        for found in _CREDENTIALS.findall(value):
            password = found.partition(":")[2]
            yield from {found, password, unquote(password)}
    elif isinstance(value, list):
        for item in value:
            yield from _hidden(item)
    elif isinstance(value, dict):
        secret = _secret_keys(value)
        for key, item in value.items():
            yield from _texts(item) if key in secret else _hidden(item)


def _texts(value: t.Any) -> t.Iterator[str]:
    yield from map(str, value.values()) if isinstance(value, dict) else [str(value)]
