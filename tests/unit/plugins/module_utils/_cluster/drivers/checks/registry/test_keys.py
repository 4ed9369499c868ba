# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry.keys import (
    Key,
    key_for,
    of_secret,
)


def secret(name: str, content: object) -> dict:
    return {"data": {name: base64.b64encode(json.dumps(content).encode()).decode()}}


def auth(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_both_forms_of_pull_secrets_are_read() -> None:
    new = secret(".dockerconfigjson", {"auths": {"https://nvcr.io/v1/": {"username": "a", "password": "b"}}})
    old = secret(".dockercfg", {"nvcr.io": {"auth": auth("a:b:c")}})
    assert of_secret(new) == {"nvcr.io": Key("a", "b")} and of_secret(old) == {"nvcr.io": Key("a", "b:c")}


@pytest.mark.parametrize("address", ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"])
def test_dockers_registry_has_several_names(address: str) -> None:
    made = secret(".dockerconfigjson", {"auths": {address: {"auth": auth("a:b")}}})
    assert of_secret(made) == {"docker.io": Key("a", "b")}


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"data": {".dockerconfigjson": "no base64!"}},
        {"data": {".dockerconfigjson": base64.b64encode(b"no json").decode()}},
        secret(".dockerconfigjson", ["a list"]),
        secret(".dockerconfigjson", {"auths": ["a list"]}),
        secret(".dockerconfigjson", {"auths": {"nvcr.io": "text"}}),
        secret(".dockerconfigjson", {"auths": {"nvcr.io": {}}}),
        secret(".dockerconfigjson", {"auths": {"nvcr.io": {"auth": "/"}}}),
    ],
)
def test_what_cannot_be_read_is_left_out(made: dict) -> None:
    assert of_secret(made) == {}


@pytest.mark.parametrize(
    ("place", "fits"),
    [
        ("nvcr.io", True),
        ("nvcr.io/nvidia", True),
        ("nvcr.io/nvidia/driver", True),
        ("nvcr.io/nv", False),
        ("*.io", True),
        ("*.example.com", False),
        ("*", False),
    ],
)
def test_credentials_are_for_a_registry_or_a_folder_of_it(place: str, fits: bool) -> None:
    assert (key_for({place: Key("a", "b")}, "nvcr.io", "nvidia/driver") is not None) is fits


def test_the_longest_place_wins() -> None:
    keys = {"nvcr.io": Key("a", "b"), "nvcr.io/nvidia": Key("c", "d")}
    assert key_for(keys, "nvcr.io", "nvidia/driver") == Key("c", "d")
    assert key_for(keys, "nvcr.io", "other") == Key("a", "b")


def test_a_key_does_not_show_itself() -> None:
    assert repr(Key("user", "password")) == "Key()"
    assert Key("user", "password").basic == "Basic dXNlcjpwYXNzd29yZA=="


@pytest.mark.parametrize("entry", [{"username": "a"}, {"password": "b"}, {"auth": auth("a:")}, {"auth": auth(":b")}])
def test_half_a_key_is_none(entry: dict[str, str]) -> None:
    assert of_secret(secret(".dockerconfigjson", {"auths": {"nvcr.io": entry}})) == {}
