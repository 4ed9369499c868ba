# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which values are secret, and how results hide them."""

from __future__ import annotations

import itertools
import json
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
        ("sshpass -p hunter ssh gpu-1", "hunter"),
        ("/usr/bin/sshpass -v -phunter scp", "hunter"),
        ("mysql -u root -phunter gpus", "hunter"),
        ("mysqldump --all-databases -p'two words'", "two words"),
        ('auth = "dTpwYXNz"', "dTpwYXNz"),
        ("auth='YW5uOmh1bnRlcg=='", "YW5uOmh1bnRlcg=="),
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
        "mkdir -p /etc/gpuops && ssh -p 22 gpu-1 && mysql --port 3306 -u root -p",
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


# ---- every word, in every spelling, at every place ----------------------------------------------------------------

WORDS = ["pw", "pwd", "pass", "passwd", "password", "passphrase", "pat", "psk", "auth", "token", "secret", "credential"]
WORDS += ["credentials", "cookie", "jwt", "licence", "license", "sshpw", "rootpw", "apikey", "api_key"]
MADE, PLAIN = "Zq7x4Marker9", "purplemonkey"
"""A value that looks made up, and one that might be a word."""


def spellings(word: str) -> list[str]:
    """Return names with the word: alone, at each end, in the middle, and with each separator and case."""
    joined = ["my" + word.title(), f"{word}Of", f"hubX{word.title()}Y"] if "_" not in word else []
    separated = [first.format(word) for first in ("hf_{}", "hf-hub-{}", "x.{}", "{}_of_it", "DRIVER_{}", "NVIDIA_{}_X")]
    names = [word, *separated, *joined]
    return [*names, *(name.upper() for name in names if not joined or name not in joined)]


PLACES: dict[str, t.Callable[[str, str], t.Any]] = {
    "variable": lambda name, value: {"env": [{"name": name, "value": value}]},
    "variable elsewhere": lambda name, value: {"set": [{"name": name, "value": value}]},
    "key": lambda name, value: {"spec": {name: value}},
    "keys of lists": lambda name, value: {"spec": {name: [value]}},
    "argument": lambda name, value: {"args": [f"--{name}", value]},
    "argument with =": lambda name, value: {"args": [f"--{name}={value}"]},
    "argument with one hyphen": lambda name, value: {"command": ["run", f"-{name}={value}", "x"]},
    "any list": lambda name, value: ["run", f"--{name}", value, f"--{name}={value}"],
    "annotation": lambda name, value: {"metadata": {"annotations": {f"ex.com/{name}": value}}},
    "known annotation": lambda name, value: {"metadata": {"annotations": {f"nvidia.com/{name}": value}}},
    "label": lambda name, value: {"metadata": {"labels": {f"nvidia.com/{name}": value}}},
    "kernel argument": lambda name, value: {"kernel": {"cmdline": ["ro", f"inst.{name}={value}"]}},
    "kernel command line": lambda name, value: {"cmdline_configured": f"BOOT_IMAGE=/x rd.{name}={value} ro"},
    "text with =": lambda name, value: f"level=info {name}={value} done",
    "text with quotes": lambda name, value: f"started with {name}='{value}' and more",
    "command in a text": lambda name, value: f"exec /bin/run --{name} {value} --verbose",
    "JSON": lambda name, value: json.dumps({"a": 1, name: value}),
    "JSON in JSON": lambda name, value: json.dumps({"msg": json.dumps({name: value, "b": 2})}),
    "variable in JSON": lambda name, value: json.dumps([{"name": name, "value": value}]),
    "variable in YAML": lambda name, value: f"env:\n- name: {name}\n  value: {value}\n",
}


def seen(value: t.Any) -> str:
    return json.dumps([_secrets.mask(value), _secrets.redacted(value)])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("word", WORDS)
def test_no_place_shows_a_value_under_a_secrets_name(word: str, place: str) -> None:
    shown = [name for name in spellings(word) if MADE in seen(PLACES[place](name, MADE))]
    assert shown == []


@pytest.mark.parametrize("word", ["pw", "pwd", "passwd", "password", "passphrase", "psk"])
def test_a_password_may_be_a_word_and_follow_a_colon(word: str) -> None:
    lines = (f"{word}: {{}}", f"the {word} is {{}}", f"DB_{word.upper()}: {{}}", f"the {word} was {{}} before")
    for line, value in itertools.product(lines, (MADE, PLAIN)):
        assert value not in seen(line.format(value)), line


@pytest.mark.parametrize(
    "text",
    [
        "netroot=iscsi:u:{}@192.0.2.1::3260::iqn.x ro",
        "boot with ks=http://ku:{}@h/ks and more",
        "connect to u:{}@db:5432 failed",
        '{{"proxy": "http://u:{}@h:3128", "x": 1}}',
        "fetching https://{}@example.com/x.git",
        "mysql -h db -u root -p{} -e x",
        "mysqldump --all -p{}",
        "sshpass -p {} ssh h",
        "curl -u u:{} https://x",
        "pass: {}",
        "auth: {}",
        "Authorization: Bearer {}aaaa",
    ],
)
def test_no_text_shows_a_login(text: str) -> None:
    assert MADE not in seen(text.format(MADE))
    assert MADE not in seen({"message": f"07:12 unit[3]: {text.format(MADE)} (again)"})


@pytest.mark.parametrize(
    "token",
    ["sk-proj-abcDEF0123456789abcd", "sk-abcDEF0123456789abcd", "hf_abcdefghijklmnopqr", "ghp_0123456789abcdefABCD",
     "nvapi-Abc_123-xyz999", "glpat-abcdefghij0123456789", "github_pat_0123456789abcdefABCD"],
)  # fmt: skip
def test_a_token_of_a_known_form_is_hidden_wherever_it_stands(token: str) -> None:
    for value in (f"sent {token} to it", {"x": [token]}, {"args": [token]}, {"metadata": {"labels": {"a": token}}}):
        assert token not in seen(value)


@pytest.mark.parametrize(
    "items",
    [["mysql", "-p" + MADE], ["sshpass", "-p", MADE, "ssh", "h"], ["-p" + MADE, "-e", "x"], ["--foo", MADE],
     ["--license-server", MADE], [f"--foo={MADE}"], [f"customer={MADE}"]],
)  # fmt: skip
def test_arguments_whose_name_is_not_known_as_harmless_are_hidden(items: list[str]) -> None:
    assert MADE not in seen({"args": items})


def test_variables_and_annotations_whose_name_is_not_known_as_harmless_are_hidden() -> None:
    for name in ("DRIVER_AUTH", "NVIDIA_LIC", "CONTAINERD_PWD", "DCGM_REMOTE_PASS", "NVIDIA_CUSTOMER", "DRIVER_X"):
        assert MADE not in seen({"env": [{"name": name, "value": MADE}]})
    assert MADE not in seen({"annotations": {"ex.com/note": MADE}})
    assert "ex.com/note" not in _secrets.redacted({"annotations": {"ex.com/note": "x"}})["annotations"]
    foreign = {"labels": {"ex.com/pool": "a", "ex.com/team": "b", "nvidia.com/gpu.count": "8"}}
    assert _secrets.redacted(foreign, {"ex.com/pool"}) == {"labels": {"ex.com/pool": "a", "nvidia.com/gpu.count": "8"}}
    assert _secrets.mask(foreign) == foreign


@pytest.mark.parametrize(
    "value",
    [
        {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "WITH_REBOOT", "value": "false"}]},
        {"env": [{"name": "KERNEL_MODULE_TYPE", "value": "open"}, {"name": "PASS_DEVICE_SPECS", "value": "true"}]},
        {"args": ["--mig-strategy=mixed", "--leader-elect", "--zap-log-level", "info", "init"]},
        {"command": ["sh", "-c", "until [ -f /run/nvidia/validations/toolkit-ready ]; do sleep 5; done"]},
        {"cmdline": ["BOOT_IMAGE=/vmlinuz-6.8.0-87-generic", "root=/dev/sda2", "ro", "iommu=pt", "hugepages=16"]},
        {"cmdline": "root=UUID=1-2 ro quiet modprobe.blacklist=nouveau rd.driver.blacklist=nouveau"},
        {"metadata": {"annotations": {"nvidia.com/gpu-driver-upgrade-enabled": "true"}, "labels": {"app": "x"}}},
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "topologyKey": "kubernetes.io/hostname"},
        {"volumes": [{"secret": {"secretName": "licence"}}], "imagePullSecrets": [{"name": "ngc-secret"}]},
        {"licensingConfig": {"secretName": "licensing", "nlsEnabled": True}, "secretEnv": "env-secret"},
        "NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x22:0x40:762)",
        'pod "a" failed: secret "ngc-secret" not found, image pull secret: missing',
        "x86/PAT: Configuration [0-7]: WB  WC  UC- UC",
        "12:30:45 nvidia-smi[7]: driver 595.91.07 on node gpu-0001 at 10.0.0.1:6443",
        "failed to load module nvidia: key was rejected, licence: required",
        "password is required, token is expired",
    ],
)
def test_harmless_values_stay_readable(value: t.Any) -> None:
    assert _secrets.mask(value) == value
    assert _secrets.redacted(value) == value


def test_a_field_shows_its_value_unless_it_holds_variables_or_a_secret() -> None:
    assert _secrets.mask_field("driver.version", "595.91.07") == "595.91.07"
    assert _secrets.mask_field("driver.enabled", False) is False
    assert _secrets.mask_field("driver.env", [{"name": "A", "value": MADE}]) == HIDDEN
    assert _secrets.mask_field("toolkit.args", []) == []
    assert _secrets.mask_field("daemonsets.annotations.ex.com/x", MADE) == HIDDEN
    assert _secrets.mask_field("driver.apiKey", MADE) == HIDDEN


def test_a_secret_as_a_number_is_hidden_and_a_count_is_not() -> None:
    assert _secrets.mask({"password": 123456, "tokens": 7, "pass": 3}) == {"password": HIDDEN, "tokens": 7, "pass": 3}
