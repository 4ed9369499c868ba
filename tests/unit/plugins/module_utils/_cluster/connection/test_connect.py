# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import client, connect, plain


def kubeconfig(folder: Path, **user: str) -> str:
    """Write a kubeconfig for a server that is trusted unseen, and return its path."""
    config = {
        "current-context": "mine",
        "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}},
        ],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection but that of the test, and none for later tests."""
    monkeypatch.setattr("kubernetes.client.Configuration._default", None)
    for name in ("K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_kubeconfig_with_a_token_is_connected_plainly(tmp_path: Path) -> None:
    made = connect.connect({"kubeconfig": kubeconfig(tmp_path, token="token-1")})
    assert isinstance(made, plain.Plain) and made.headers() == {"authorization": "Bearer token-1"}


def test_what_is_less_plain_is_left_to_the_client(url: str) -> None:
    made = connect.connect({"host": url, "api_key": "token-1"})
    assert isinstance(made, client.Client) and made.host == url
    assert made.headers()["authorization"] == "Bearer token-1"
