# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which values are secret, and how results hide them."""

from __future__ import annotations

import time
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


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7x\nq9Zk3w==\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJncHUtb3BlcmF0b3IifQ.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"tls.key: |\n{PEM}\nafter", "MIIEowIBAAKCAQEA7x\nq9Zk3w=="),
        ("t1 -----BEGIN PRIVATE KEY-----\nt2 MIIEowIBAA", "MIIEowIBAA"),
        (
            "client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo=",
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo",
        ),
        ("found eyJhdXRocyI6eyJudmNyLmlvIjp7fX19", "eyJhdXRocyI6eyJudmNyLmlvIjp7fX19"),
        (f"level=info msg={JWT} done", JWT),
        ("Authorization: Basic YW5uOmh1bnRlcjIy", "YW5uOmh1bnRlcjIy"),
        ('"authorization": "Bearer abcdefgh"', "abcdefgh"),
        ("sent Bearer abc123def456ghi", "abc123def456ghi"),
        ("Set-Cookie: session=abcdef; Path=/", "session=abcdef; Path=/"),
        ("docker login nvcr.io with nvapi-Abc_123-xyz999", "nvapi-Abc_123-xyz999"),
        ("ghp_0123456789abcdefABCD", "ghp_0123456789abcdefABCD"),
        ("hf_abcdefghijklmnopqr", "hf_abcdefghijklmnopqr"),
        ("id AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("root:$6$salt$hashhashhash:19000", "$6$salt$hashhashhash"),
        ("run --registry-password hunter22 now", "hunter22"),
        ("run --api-key='two words' now", "two words"),
        ("curl -u ann:hunter22 https://x", "hunter22"),
        ("PGPASSWORD=hunter22 psql", "hunter22"),
        ('{"password":"hunter 22"}', "hunter 22"),
        ('{\\"password\\":\\"hunter22\\"}', "hunter22"),
        ("msg=login password: correct", "correct"),
        ("NGC_API_KEY=abc", "abc"),
        ("SECRET_ACCESS_KEY: wJalr+K7/MDENG", "wJalr+K7/MDENG"),
        ("token: 0a1b2c", "0a1b2c"),
        ("https://blob/x?sig=abcdefghijklmnopqrs&se=1", "abcdefghijklmnopqrs"),
        ('"auth": "YW5uOmh1bnRlcjIyMg=="', "YW5uOmh1bnRlcjIyMg=="),
        ("fetched http://ann:hunter22@proxy/x", "ann:hunter22"),
    ],
)
def test_secrets_in_text_are_hidden_and_the_rest_stays(text: str, secret: str) -> None:
    hidden = HIDDEN + "\n" * secret.count("\n")
    expected = text.replace(secret, hidden) if "BEGIN" not in text else None
    masked = _secrets.mask_text(text)
    assert secret not in masked and HIDDEN in masked
    assert masked.count("\n") == text.count("\n")
    if expected is not None:
        assert masked == expected or masked == text.replace(secret + "=", hidden)
    assert any(secret in found or found in secret for found in _secrets.secrets_in(text)) or len(secret) < 6


@pytest.mark.parametrize(
    "text",
    [
        'MountVolume.SetUp failed for volume "x" : secret "ngc-secret" not found',
        "Unable to retrieve some image pull secrets (ngc-secret); attempting to pull the image may not succeed.",
        'Www-Authenticate: Bearer realm="https://nvcr.io/proxy_auth?scope=repository"',
        "unauthorized: authentication required",
        "Error: token: expired",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        "NVRM: GPU at PCI:0000:18:00: GPU-4f8d2a10-6c1e-4a53-9b1d-0d6f0a3c1e01",
        "nvcr.io/nvidia/driver@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        "fetched https://nvcr.io/v2/nvidia/driver/manifests/595",
        "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert _secrets.mask_text(text) == text


@pytest.mark.parametrize("flag", ["--password", "-token", "--ngc-api-key", "--client-secret"])
def test_the_argument_after_a_flag_for_a_secret_is_hidden(flag: str) -> None:
    assert _secrets.mask({"args": ["run", flag, "hunter22", "x"]}) == {"args": ["run", flag, HIDDEN, "x"]}
    assert "hunter22" in set(_secrets.secrets_in({"args": ["run", flag, "hunter22", "x"]}))
    assert _secrets.mask([flag]) == [flag] and _secrets.mask([flag, 7]) == [flag, 7]


def test_a_bundle_shows_only_the_variables_of_the_stack() -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "CUSTOMER", "value": "acme"}]
    env += [{"name": "FROM_FIELD", "valueFrom": {"fieldRef": {}}}, {"name": "HTTPS_PROXY", "value": "http://p:1"}]
    shown = _secrets.redacted({"env": env})["env"]
    assert [each.get("value") for each in shown] == ["all", HIDDEN, None, HIDDEN]
    assert _secrets.redacted(["--password", "x", "y"]) == ["--password", HIDDEN, "y"]
    assert _secrets.redacted("export https_proxy=http://proxy.corp:3128 no_proxy=a") == (
        f"export https_proxy={HIDDEN} no_proxy=a"
    )
    copy = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x", "n": 3}
    assert _secrets.redacted(copy) == {"kubectl.kubernetes.io/last-applied-configuration": HIDDEN, "note": "x", "n": 3}
    assert _secrets.redacted({"nvapi-0123456789": "x"}) == {HIDDEN: "x"}


def test_a_condition_with_a_name_and_a_value_beside_others_is_no_variable() -> None:
    assert _secrets.redacted({"name": "a", "value": "b", "effect": "c"}) == {"name": "a", "value": "b", "effect": "c"}


@pytest.mark.parametrize(
    "piece", ["a", "password", "token=", "--", "-u a:", "://", "bearer ", "eyJ", "-----BEGIN ", "key "]
)
def test_long_adversarial_lines_are_masked_in_time_that_grows_with_their_length(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    started = time.process_time()
    _secrets.mask_text(text + " pass private key")
    assert time.process_time() - started < 5
