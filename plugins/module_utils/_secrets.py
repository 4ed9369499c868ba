# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which values in options, specs, Helm values and text are secret, and how results hide them. Pure.

Libraries that look for secrets (detect-secrets, scrubadub) are made for source code or for people's names. They judge
by entropy, which would hide digests and the UUIDs of GPUs, and they would have to be installed wherever a module runs.

There are two degrees. A secret is recognised by its name, its place or its form, and is hidden wherever it stands.
Beside these, the values of environment variables, arguments, annotations and kernel arguments are nobody's business,
unless their exact name is known to be harmless.
"""

from __future__ import annotations

import functools
import re
import typing as t
from urllib.parse import unquote

from ansible_collections.gpuops.nvidia.plugins.module_utils import _secret_names, _secret_text
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MASK = "VALUE_HIDDEN"

SECRET_LENGTH = 6
"""Shorter secrets are not hidden throughout a result, because that would also hide ordinary words."""

_SHORT = 200
"""Up to how many characters the result of masking a text is kept."""

_HARMLESS_VALUES = frozenset(("true", "false", "yes", "no", "enabled", "disabled", "required", "optional", MASK, ""))
"""Settings beneath a secret's name: ``auth: disabled``."""

_COPIES = ("kubectl.kubernetes.io/last-applied-configuration",)
"""Annotations that repeat a whole object as text."""

_ARGUMENTS = ("args", "command", "arguments")
_PROXY = re.compile(r"(?i)\b(?:https?|all|ftp)_proxy\\?[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?P<secret>[^\s\"',;]+)")
"""The setting of a proxy, as a whole."""


def mask(value: t.Any, key: str = "") -> t.Any:
    """Return a value as results show it: without secrets, and without values whose name is not known as harmless.

    ``key`` is the name under which the value stands.
    """
    return _Shown(_stays)(value, key)


def redacted(value: t.Any, labels: t.Collection[str] = ()) -> t.Any:
    """Return a value for a bundle of evidence, which leaves the house: masked, without proxies and foreign labels.

    ``labels`` are keys of labels of unknown domains that stay, because pods are placed by them.
    """
    return _Shown(_without_proxies, labels, is_leaving=True)(value)


def mask_field(path: str, value: t.Any) -> t.Any:
    """Return the value of a field at a dotted path as results show it."""
    parts = path.split(".")
    hides = {"env", "args", "annotations", "command"}.intersection(parts)
    if value in (None, [], {}) or isinstance(value, bool):
        return value
    return MASK if hides else mask({parts[-1]: value})[parts[-1]]


def mask_text(text: str) -> str:
    """Return a text of any length without what looks like a secret. It keeps its number of lines."""
    return _short_masked(text) if len(text) <= _SHORT else _masked_text(text)


@functools.lru_cache(maxsize=8192)
def _short_masked(text: str) -> str:
    """Mask a short text. A fleet says the same few of them thousands of times."""
    return _masked_text(text)


def _masked_text(text: str) -> str:
    pieces, place = [], 0
    for start, end in _secret_text.spans(text, MASK):
        pieces += [text[place:start], MASK + "\n" * text.count("\n", start, end)]
        place = end
    return "".join([*pieces, text[place:]])


def _stays(text: str) -> str:
    return text


def _without_proxies(text: str) -> str:
    return _PROXY.sub(lambda found: found[0][: found.start("secret") - found.start()] + MASK, text)


class _Shown:
    """Walks through a value, and hides what the name, the place and the form of each part call for."""

    def __init__(self, more: t.Callable[[str], str], labels: t.Collection[str] = (), is_leaving: bool = False) -> None:
        self._more, self._labels, self._is_leaving = more, labels, is_leaving

    def __call__(self, value: t.Any, key: str = "") -> t.Any:
        if isinstance(value, str):
            return self._text(value, key)
        if isinstance(value, (list, tuple)):
            return self._list(list(value), key)
        if not isinstance(value, dict):
            return value
        if key in ("annotations", "labels"):
            return self._marks(value, is_shown=key == "labels")
        secret = _secret_keys(value)
        if self._is_unknown_variable(value, key):
            secret.add("value")
        return {
            self._key(name): _masked(item) if name in secret else self(item, str(name)) for name, item in value.items()
        }

    def _key(self, name: t.Any) -> t.Any:
        return mask_text(name) if isinstance(name, str) else name

    def _text(self, text: str, key: str) -> str:
        if _is_command_line(key):
            return " ".join(_argument(word) for word in text.split(" "))
        return self._more(mask_text(text))

    def _list(self, items: list[t.Any], key: str) -> list[t.Any]:
        if key in _ARGUMENTS or _is_command_line(key):
            hidden, items = _values_of_flags(items), [_argument(each) for each in items]
        else:
            hidden = _secret_items(items)
        return [MASK if index in hidden else self(item, _inner(key)) for index, item in enumerate(items)]

    def _marks(self, entries: Json, is_shown: bool) -> Json:
        """Return labels or annotations. A value stands under a name that has a domain of somebody."""
        shown = {}
        for name, value in entries.items():
            is_known = _secret_names.is_known_label(str(name)) or name in self._labels
            if not is_known and self._is_leaving:
                continue
            hides = _is_secret_entry(name, value) or _is_secret_entry(_secret_names.last_part(str(name)), value)
            shown[self._key(name)] = MASK if value and (hides or not (is_known or is_shown)) else self(value)
        return shown

    def _is_unknown_variable(self, entry: Json, key: str) -> bool:
        name = entry.get("name")
        is_pair = bool(entry.get("value")) and isinstance(name, str) and set(entry) <= {"name", "value"}
        is_asked = is_pair and (self._is_leaving or key == "env")
        if not is_asked or (self._is_leaving and name in _secret_names.PROXIES):
            return is_asked
        return not _secret_names.is_plain_variable(str(name))


def _inner(key: str) -> str:
    """Return the name that the items of a list stand under: a variable has to know that it is one."""
    return key if key == "env" else ""


def _is_command_line(key: str) -> bool:
    """Return whether a key names arguments of the kernel."""
    found = _secret_names.words(key)
    return "cmdline" in found and found[-1] != "source"


def _argument(item: t.Any) -> t.Any:
    """Return an argument with its value hidden, unless its name is known to be harmless: ``--flag=value``."""
    name, separator, value = item.partition("=") if isinstance(item, str) else ("", "", "")
    if not (separator and value) or not re.fullmatch(r"[\w.-]+", name) or _secret_names.is_plain_argument(name):
        return item
    return f"{name}={MASK}"


def _values_of_flags(items: list[t.Any]) -> set[int]:
    """Return the places of values that follow a flag, unless the flag is known to be harmless."""
    return {
        place
        for place, item in enumerate(items)
        if place and isinstance(item, str) and not _is_flag(item) and _is_unknown_flag(items[place - 1])
    } | {place for place, item in enumerate(items) if _is_short_password(item)}


def _is_flag(item: t.Any) -> bool:
    return isinstance(item, str) and bool(re.fullmatch(r"--?[A-Za-z][\w.-]*", item))


def _is_unknown_flag(item: t.Any) -> bool:
    return _is_flag(item) and not _secret_names.is_plain_argument(item)


def _is_short_password(item: t.Any) -> bool:
    """Return whether an argument is ``-p`` with what MySQL and sshpass take as a password."""
    return isinstance(item, str) and bool(re.match(r"-p[^\s-]", item)) and not re.fullmatch(r"-p\d{1,5}(:\d+)?", item)


def _secret_items(items: list[t.Any]) -> set[int]:
    """Return the places in a list that follow a flag for a secret: ``["--password", "x"]``."""
    flags = (index for index, item in enumerate(items[:-1]) if _is_flag(item) and _secret_names.is_secret(item))
    return {index + 1 for index in flags if isinstance(items[index + 1], str)}


def _masked(value: t.Any) -> t.Any:
    if isinstance(value, list):
        return [MASK] * len(value)
    return dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK


def _secret_keys(entry: Json) -> set[str]:
    """Return the keys of a mapping whose values are secret as a whole."""
    keys = {key for key, item in entry.items() if _is_secret_entry(key, item)}
    if entry.get("value") and isinstance(entry.get("name"), str) and _secret_names.is_secret(entry["name"]):
        keys.add("value")
    if entry.get("kind") == "Secret":
        keys |= {key for key in ("data", "stringData") if entry.get(key)}
    return keys


def _is_secret_entry(key: t.Any, item: t.Any) -> bool:
    """Return whether a text, a number of a password, or a list of texts stands under a secret's name."""
    if isinstance(item, bool) or not item or not isinstance(key, str):
        return False
    if key in _COPIES:
        return True
    is_text = isinstance(item, str) and item not in _HARMLESS_VALUES
    is_list = isinstance(item, list) and all(isinstance(each, str) for each in item)
    is_number = isinstance(item, int) and _secret_names.is_password(key)
    return (is_text or is_list or is_number) and _secret_names.is_secret(key)


def secrets_in(value: t.Any) -> t.Iterator[str]:
    """Yield the secrets that `mask` hides, except very short ones. A module adds them to its ``no_log_values``."""
    for secret in _hidden(value):
        if len(secret) >= SECRET_LENGTH and secret.lower() not in _HARMLESS_VALUES:
            yield secret


def _hidden(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, str):
        yield from _hidden_in_text(value)
    elif isinstance(value, list):
        places = _secret_items(value)
        for index, item in enumerate(value):
            yield from [item] if index in places else _hidden(item)
    elif isinstance(value, dict):
        secret = _secret_keys(value)
        for key, item in value.items():
            yield from _texts(item) if key in secret else _hidden(item)


def _hidden_in_text(text: str) -> t.Iterator[str]:
    for found in _secret_text.logins(text):
        password = found.partition(":")[2]
        yield from {found, password, unquote(password)}
    yield from (text[start:end] for start, end in _secret_text.spans(text, MASK))


def _texts(value: t.Any) -> t.Iterator[str]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    yield from map(str, items)
