# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bundle of evidence: what is in it, what is not, and that it is read back."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle import pack
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap

MIB = 1 << 20


def contents(archive: bytes) -> dict[str, str]:
    """Return the files of an archive by name."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as opened:
        return {
            member.name: t.cast("io.BufferedReader", opened.extractfile(member)).read().decode() for member in opened
        }


def packed(evidence: Evidence, findings: t.Sequence[dict[str, t.Any]] = (), limit: int = MIB) -> dict[str, str]:
    return contents(pack.pack(evidence, findings, "text", limit))


def manifest_of(files: dict[str, str]) -> dict[str, t.Any]:
    return json.loads(files[pack.MANIFEST])


# ---- secrets ------------------------------------------------------------------------------------------------------

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJOTFMgU2VydmljZSJ9.dkdQVS1saWNlbnNlLXRva2Vu"
PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj"
SECRETS = {
    "env": "plain-looking-customer-name",
    "env_token": "tok-3f9a",
    "arg": "argument-hunter22",
    "inline": "inline-hunter22",
    "annotation": "nvapi-Annotation_0123456789",
    "configmap": "configmap-hunter22",
    "proxy": "proxy-host.corp.example",
    "proxy_password": "proxy-hunter22",
    "basic": base64.b64encode(b"ann:basic-hunter22").decode(),
    "jwt": JWT,
    "pem": PEM_BODY,
    "kubeconfig_token": "sha256~Kube0config1token2value",
    "kubeconfig_key": base64.b64encode(b"-----BEGIN RSA PRIVATE KEY-----\nMIIE").decode(),
    "dockerconfig": base64.b64encode(b'{"auths":{"nvcr.io":{"auth":"x"}}}').decode(),
    "event": "event-hunter22",
    "log": "log-hunter22",
    "host": "host-hunter22",
    "quote": "quote-hunter22",
    "gap": "gap-hunter22",
    "copied": "last-applied-hunter22",
}
NVIDIA_ENV = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}


def planted() -> Evidence:
    """Return evidence with a secret in every place where one could be."""
    pod = {
        "metadata": {
            "namespace": "gpu-operator",
            "name": "nvidia-driver-daemonset-x7k2p",
            "annotations": {
                "note": f"key {SECRETS['annotation']}",
                "kubectl.kubernetes.io/last-applied-configuration": f'{{"x": "{SECRETS["copied"]}"}}',
            },
        },
        "spec": {
            "containers": [
                {
                    "name": "ctr",
                    "env": [
                        {"name": "CUSTOMER", "value": SECRETS["env"]},
                        {"name": "A_TOKEN", "value": SECRETS["env_token"]},
                        {"name": "HTTPS_PROXY", "value": f"http://u:{SECRETS['proxy_password']}@{SECRETS['proxy']}:1"},
                        NVIDIA_ENV,
                    ],
                    "args": ["run", "--registry-password", SECRETS["arg"]],
                    "command": ["sh", "-c", f"curl -u ann:{SECRETS['inline']} https://x"],
                }
            ]
        },
    }
    kubeconfig = f"users:\n- user:\n    token: {SECRETS['kubeconfig_token']}\n"
    kubeconfig += f"    client-key-data: {SECRETS['kubeconfig_key']}\n"
    configmaps = [
        {"metadata": {"name": "a"}, "data": {"config.yaml": f"password: {SECRETS['configmap']}\n", "kube": kubeconfig}},
        {"metadata": {"name": "b"}, "data": {"client_configuration_token.tok": JWT, "d": SECRETS["dockerconfig"]}},
    ]
    lines = [
        TextLine(f"level=info api_key={SECRETS['log']}", "pod", "pod a/b, container c"),
        TextLine(f"curl failed for {SECRETS['arg']}", "pod", "pod a/b, container c"),
        TextLine("-----BEGIN PRIVATE KEY-----", "pod", "pod a/b, container d"),
        TextLine(PEM_BODY, "pod", "pod a/b, container d"),
        TextLine("-----END PRIVATE KEY-----", "pod", "pod a/b, container d"),
        TextLine(f"Failed to pull: https://ann:{SECRETS['event']}@nvcr.io/v2", "event", "event of pod a/b"),
    ]
    return Evidence(
        spec={"driver": {"env": [{"name": "HTTP_PROXY", "value": f"http://{SECRETS['proxy']}:3128"}]}},
        stack={"nodes": [], "policy": f"Authorization: Basic {SECRETS['basic']}"},
        pods=[pod],
        objects={"configmaps": configmaps, "events": [{"message": f"https_proxy=http://{SECRETS['proxy']}:3128"}]},
        hosts={"gpu1": {"state": {"files": {"config.toml": f'password = "{SECRETS["host"]}"'}}, "facts": {"a": JWT}}},
        lines=lines,
        gaps=[Gap("logs", f"--token {SECRETS['gap']}")],
    )


def test_no_planted_secret_is_in_a_bundle() -> None:
    quote = {"text": f"passphrase: {SECRETS['quote']}", "source": "kernel log", "node": "gpu1"}
    files = packed(planted(), [{"code": "X", "quotes": [quote]}])
    found = {name: path for path, content in files.items() for name, secret in SECRETS.items() if secret in content}
    assert found == {}
    assert "VALUE_HIDDEN" in files["gpuops-bundle/pods.json"]


def test_what_is_no_secret_stays() -> None:
    everything = "".join(packed(planted()).values())
    for kept in ("compute,utility", "nvidia-driver-daemonset-x7k2p", "level=info", "Failed to pull", "config.toml"):
        assert kept in everything


# ---- size and form ------------------------------------------------------------------------------------------------


def test_equal_evidence_gives_equal_bytes() -> None:
    assert pack.pack(planted(), [], "", MIB) == pack.pack(planted(), [], "", MIB)


def test_the_manifest_names_the_release_that_wrote_the_bundle() -> None:
    galaxy = yaml.safe_load((Path(__file__).parents[6] / "galaxy.yml").read_text())
    manifest = manifest_of(packed(planted()))
    assert (manifest["version"], manifest["format"]) == (galaxy["version"], pack.BUNDLE_FORMAT)


def test_names_from_outside_become_no_paths() -> None:
    evil = "../../etc/cron.d/x"
    evidence = Evidence(
        objects={evil: [{"a": 1}]}, hosts={evil: {"facts": {}}}, lines=[TextLine("x", "pod", evil, evil, evil)]
    )
    files = packed(evidence)
    assert all(name.startswith("gpuops-bundle/") and ".." not in name for name in files)
    assert {"gpuops-bundle/objects/0001.json", "gpuops-bundle/hosts/0001.json", "gpuops-bundle/logs/0001.log"} <= set(
        files
    )
    assert evil in files[pack.MANIFEST]


def test_a_large_log_is_cut_and_the_small_one_and_the_quoted_line_stay() -> None:
    large = [TextLine(f"line {number} {'x' * 100}", "pod", "large") for number in range(50_000)]
    small = [TextLine("one", "kernel", "small")]
    quoted = {"text": large[25_000].text, "source": "large", "node": ""}
    files = packed(Evidence(lines=[*large, *small]), [{"code": "X", "quotes": [quoted]}], limit=MIB)
    assert sum(len(content.encode()) for content in files.values()) < MIB
    log = files["gpuops-bundle/logs/0001.log"].splitlines()
    assert log[0].startswith("line 0 ") and log[-1].startswith("line 49999 ") and large[25_000].text in log
    assert files["gpuops-bundle/logs/0002.log"] == "one\n"
    entry = next(each for each in manifest_of(files)["files"] if each.get("source") == "large")
    assert entry["left_out"] == 50_000 - len(log)


def test_many_objects_are_cut_to_whole_objects() -> None:
    pods = [{"metadata": {"name": f"p{number}"}, "x": "y" * 1000} for number in range(2000)]
    files = packed(Evidence(pods=pods), limit=MIB)
    kept = json.loads(files["gpuops-bundle/pods.json"])
    assert 300 < len(kept) < 1100
    entry = next(each for each in manifest_of(files)["files"] if each["what"] == "pods")
    assert entry["left_out"] == 2000 - len(kept)


def test_a_line_is_printable_and_stays_one_line() -> None:
    files = packed(Evidence(lines=[TextLine("a\x1b[31m\nb\x00", "text", "x\x07")]))
    assert files["gpuops-bundle/logs/0001.log"] == "a\\x1b[31m b\\x00\n"
    assert manifest_of(files)["files"][-1]["source"] == "x\\x07"


@pytest.mark.parametrize("limit", [0, 1000, 100_000])
def test_a_limit_that_is_too_small_still_gives_a_manifest(limit: int) -> None:
    assert manifest_of(packed(planted(), limit=limit))["format"] == pack.BUNDLE_FORMAT
