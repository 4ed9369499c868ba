# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which values are secret, and how results hide them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _secrets

HIDDEN = "VALUE_HIDDEN"


@pytest.mark.parametrize(
    ("value", "masked", "secrets"),
    [
        ({"name": "NGC_API_KEY", "value": "nvapi-secret"}, {"name": "NGC_API_KEY", "value": HIDDEN}, {"nvapi-secret"}),
        ({"name": "RHSM_PASSWORD", "value": "pw"}, {"name": "RHSM_PASSWORD", "value": HIDDEN}, set()),
        ({"name": "A_TOKEN"}, {"name": "A_TOKEN"}, set()),
        ({"name": "A_TOKEN", "value": ""}, {"name": "A_TOKEN", "value": ""}, set()),
        ({"value": "gpu", "key": "dedicated"}, {"value": "gpu", "key": "dedicated"}, set()),
        ({"name": 7, "value": "x"}, {"name": 7, "value": "x"}, set()),
        ({"registryPassword": "hunter22"}, {"registryPassword": HIDDEN}, {"hunter22"}),
        ({"ngc": {"apiKey": "nvapi-secret"}}, {"ngc": {"apiKey": HIDDEN}}, {"nvapi-secret"}),
        ({"automountServiceAccountToken": True}, {"automountServiceAccountToken": True}, set()),
        ({"secretName": "licence", "secretEnv": "x"}, {"secretName": "licence", "secretEnv": "x"}, set()),
        ({"imagePullSecrets": ["ngc-secret"]}, {"imagePullSecrets": ["ngc-secret"]}, set()),
        (
            [{"kind": "Secret", "data": {"a": "c2VjcmV0"}, "stringData": {"b": "plain-text"}}],
            [{"kind": "Secret", "data": {"a": HIDDEN}, "stringData": {"b": HIDDEN}}],
            {"c2VjcmV0", "plain-text"},
        ),
        ({"kind": "ConfigMap", "data": {"a": "b"}}, {"kind": "ConfigMap", "data": {"a": "b"}}, set()),
    ],
)
def test_secrets_are_known_by_the_name_of_their_variable_key_or_object(
    value: t.Any, masked: t.Any, secrets: set[str]
) -> None:
    assert _secrets.mask(value) == masked
    assert set(_secrets.secrets_in(value)) == secrets


@pytest.mark.parametrize(
    ("text", "masked", "secrets"),
    [
        ("http://ann:hunter22@proxy:3128", f"http://{HIDDEN}@proxy:3128", {"ann:hunter22", "hunter22"}),
        ("http://ann:hunt%40er@proxy", f"http://{HIDDEN}@proxy", {"ann:hunt%40er", "hunt%40er", "hunt@er"}),
        ("http://ann:p@ss-word@proxy/x", f"http://{HIDDEN}@proxy/x", {"ann:p@ss-word", "p@ss-word"}),
        ("https://ghp_secret@example.com/x.git", f"https://{HIDDEN}@example.com/x.git", {"ghp_secret"}),
        ("ann:hunter22@proxy:3128", f"{HIDDEN}@proxy:3128", {"ann:hunter22", "hunter22"}),
        ("a http://u:pass-1@h and http://u:pass-2@h", f"a http://{HIDDEN}@h and http://{HIDDEN}@h", None),
        ("http://proxy:3128/a@b", "http://proxy:3128/a@b", set()),
        ("driver:595@sha256:abc", "driver:595@sha256:abc", set()),
        ("nvcr.io/nvidia/driver@sha256:abc", "nvcr.io/nvidia/driver@sha256:abc", set()),
        ("someone@example.com", "someone@example.com", set()),
    ],
)
def test_credentials_in_addresses_are_hidden(text: str, masked: str, secrets: set[str] | None) -> None:
    value = {"driver": {"env": [{"name": "HTTP_PROXY", "value": text}]}}
    assert _secrets.mask(value) == {"driver": {"env": [{"name": "HTTP_PROXY", "value": masked}]}}
    if secrets is not None:
        assert set(_secrets.secrets_in(value)) == secrets


def test_a_secret_of_five_characters_is_too_short_to_be_searched_for() -> None:
    """A module would otherwise hide every such word in its result."""
    variables = [{"name": "TOKEN", "value": value} for value in ("12345", "123456")]
    assert list(_secrets.secrets_in({"env": variables})) == ["123456"]


def test_other_values_stay_as_they_are() -> None:
    value = {"enabled": True, "number": 3, "nothing": None, "list": [1, "two"]}
    assert _secrets.mask(value) == value
    assert list(_secrets.secrets_in(value)) == []
