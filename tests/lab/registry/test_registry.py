# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry answers as real ones do: what it has, what it lacks, and who may ask."""

from __future__ import annotations

import json
import typing as t
import urllib.error
import urllib.request

import pytest

from lab.errors import LabError
from lab.registry import Credentials, Registry, trouble
from lab.registry.client import Reference
from tests.support.registries import running_registry

TAG = "595.99.02-ubuntu24.04"
ACCOUNT = Credentials("lab", "lab-password")


def test_what_it_has_and_what_it_lacks(registry: Registry) -> None:
    registry.push("nvidia/driver", TAG)
    assert trouble(registry.image("nvidia/driver", TAG)) is None
    assert trouble(registry.image("nvidia/driver", "595.99.02-rhel9")) == "image-pull-backoff"
    assert trouble(registry.image("nvidia/vgpu", TAG)) == "image-pull-backoff"


def test_an_image_is_found_by_its_digest_until_it_is_deleted(registry: Registry) -> None:
    digest = registry.push("nvidia/digest", "1")
    name = f"{registry.host}/nvidia/digest@{digest}"
    assert trouble(name) is None
    registry.delete("nvidia/digest", digest)
    assert trouble(name) == "image-pull-backoff"


def test_a_list_names_its_architectures(registry: Registry) -> None:
    registry.push("nvidia/list", "1", ["amd64", "arm64"])
    accept = {"Accept": "application/vnd.docker.distribution.manifest.list.v2+json"}
    request = urllib.request.Request(f"{registry.url}/v2/nvidia/list/manifests/1", headers=accept)
    with urllib.request.urlopen(request, timeout=10) as answer:
        platforms = [entry["platform"]["architecture"] for entry in json.load(answer)["manifests"]]
    assert platforms == ["amd64", "arm64"]


def test_its_log_tells_who_asked_for_what(registry: Registry) -> None:
    registry.push("nvidia/log", "1")
    trouble(registry.image("nvidia/log", "2"))
    assert "HEAD /v2/nvidia/log/manifests/2" in registry.requests()


def test_a_registry_that_is_down_keeps_its_images(registry: Registry) -> None:
    registry.push("nvidia/kept", "1")
    registry.stop()
    assert trouble(registry.image("nvidia/kept", "1")) == "image-unreachable"
    registry.start()
    assert trouble(registry.image("nvidia/kept", "1")) is None


@pytest.mark.parametrize("auth", ["basic", "token"])
def test_only_the_account_may_ask(auth: str) -> None:
    with running_registry(auth) as registry:
        registry.push("nvidia/driver", TAG)
        name = registry.image("nvidia/driver", TAG)
        assert trouble(name) == "image-unauthorized"
        assert trouble(name, Credentials("lab", "wrong")) == "image-unauthorized"
        assert trouble(name, ACCOUNT) is None
        assert trouble(registry.image("nvidia/driver", "0"), ACCOUNT) == "image-pull-backoff"


def test_a_token_server_is_named_by_the_registry(token_registry: Registry) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{token_registry.url}/v2/nvidia/driver/manifests/1", timeout=10)
    challenge = refused.value.headers["WWW-Authenticate"]
    assert challenge.startswith('Bearer realm="http://127.0.0.1:')
    assert 'scope="repository:nvidia/driver:pull"' in challenge


def test_tls_with_its_own_authority() -> None:
    with running_registry(tls=True) as registry:
        registry.push("nvidia/driver", TAG)
        assert registry.url.startswith("https://")
        assert registry.ca is not None
        assert trouble(registry.image("nvidia/driver", TAG)) is None


def test_a_pull_secret_has_the_account_or_a_wrong_one(token_registry: Registry) -> None:
    account = token_registry.docker_config()["auths"][token_registry.host]
    assert (account["username"], account["password"]) == ("lab", "lab-password")
    wrong = token_registry.pull_secret("mirror", password="old")
    assert wrong["type"] == "kubernetes.io/dockerconfigjson"
    assert wrong["data"] != token_registry.pull_secret("mirror")["data"]


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("127.0.0.1:5000/nvidia/driver:595-ubuntu24.04", ("127.0.0.1:5000", "nvidia/driver", "595-ubuntu24.04")),
        ("nvcr.io/nvidia/driver", ("nvcr.io", "nvidia/driver", "latest")),
        ("localhost:5000/driver:595@sha256:ab", ("localhost:5000", "driver", "sha256:ab")),
    ],
)
def test_the_parts_of_a_name(image: str, parts: tuple[str, str, str]) -> None:
    found = Reference.of(image)
    assert (found.host, found.repository, found.tag) == parts


def test_nobody_outside_of_the_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: t.Any, **settings: t.Any) -> t.NoReturn:
        raise AssertionError("a request")

    monkeypatch.setattr("urllib3.PoolManager.request", fail)
    assert trouble("nvcr.io/nvidia/driver:0-solaris") is None
    assert trouble("localhost.example.com/nvidia/driver:0") is None


def test_an_unknown_authentication_is_refused() -> None:
    with pytest.raises(LabError, match="choose from none, basic, token"):
        Registry("kerberos")
