# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The credentials in pull secrets. All of it is kept out of messages."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import fnmatch
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_FILES = (".dockerconfigjson", ".dockercfg")
_HUB_KEYS = ("index.docker.io", "registry-1.docker.io", "docker.io")


@dataclasses.dataclass(frozen=True)
class Key:
    """A user and a password. They are left out of the representation, which may be printed."""

    username: str = dataclasses.field(repr=False)
    password: str = dataclasses.field(repr=False)

    @property
    def basic(self) -> str:
        """The value of a header Authorization."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


Keys = t.Mapping[str, Key]
"""Credentials by registry, or by registry and folder."""


def of_secret(secret: Json) -> dict[str, Key]:
    """Return the credentials of a pull secret by registry. What cannot be read is left out."""
    found: dict[str, Key] = {}
    for name in _FILES:
        text = (secret.get("data") or {}).get(name)
        content = _decoded(text) if text else {}
        entries = content.get("auths", {}) if name == ".dockerconfigjson" else content
        for address, entry in entries.items() if isinstance(entries, dict) else ():
            key = _key(entry) if isinstance(entry, dict) else None
            if key:
                found[_place(address)] = key
    return found


def _decoded(text: str) -> Json:
    try:
        content = json.loads(base64.b64decode(text))
    except (ValueError, binascii.Error):
        return {}
    return content if isinstance(content, dict) else {}


def _key(entry: Json) -> Key | None:
    username, password = entry.get("username"), entry.get("password")
    if not username and entry.get("auth"):
        try:
            username, dummy, password = base64.b64decode(entry["auth"]).decode().partition(":")
        except (ValueError, binascii.Error):
            return None
    return Key(str(username), str(password)) if username and password else None


def _place(address: str) -> str:
    """Return a registry's address as images spell it: pull secrets often have a scheme and the API's version."""
    place = address.partition("://")[2] if "://" in address else address
    for end in ("/v1", "/v2"):
        place = place.rstrip("/").removesuffix(end)
    host, slash, folder = place.rstrip("/").partition("/")
    return f"{'docker.io' if host in _HUB_KEYS else host}{slash}{folder}"


def key_for(keys: Keys, host: str, repository: str) -> Key | None:
    """Return the credentials for a repository, as the kubelet does: hosts may have wildcards, and the longest wins."""
    whole = f"{host}/{repository}/"
    fitting = [place for place in keys if _fits(place, host, whole)]
    return keys[max(fitting, key=len)] if fitting else None


def _fits(place: str, host: str, whole: str) -> bool:
    own, dummy, folder = place.partition("/")
    same_length = own.count(".") == host.count(".")
    is_host = own == host or (same_length and fnmatch.fnmatchcase(host, own))
    return is_host and (not folder or whole.startswith(f"{host}/{folder}/"))
