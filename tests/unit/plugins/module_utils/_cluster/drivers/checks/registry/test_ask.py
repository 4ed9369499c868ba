# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry.ask import (
    Asker,
    RegistrySettings,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry.keys import Key

from tests.unit.fakes.upgrades import registry as fake

TAG = "595.91.07-ubuntu24.04"


@pytest.fixture
def registry() -> t.Iterator[fake.FakeRegistry]:
    with fake.serving() as made:
        made.push("nvidia/driver", TAG)
        yield made


def image(registry: fake.FakeRegistry, tag: str = TAG) -> str:
    return f"{registry.host}/nvidia/driver:{tag}"


def asker(registry: fake.FakeRegistry, **settings: t.Any) -> Asker:
    return Asker(RegistrySettings(insecure=[registry.host], timeout_s=2, **settings))


def right(registry: fake.FakeRegistry) -> dict[str, Key]:
    return {registry.host: Key(registry.user, registry.password)}


def test_an_image_exists_or_not(registry: fake.FakeRegistry) -> None:
    ask = asker(registry).ask
    assert ask(image(registry), {}).state == "exists"
    missing = ask(image(registry, "none"), {})
    assert missing.state == "missing" and missing.message == f"{image(registry, 'none')} does not exist"
    assert [method for method, dummy, header in registry.log] == ["HEAD", "HEAD"]


def test_a_token_is_asked_for_once_as_nvidias_registry_documents_it(registry: fake.FakeRegistry) -> None:
    """GET /proxy_auth?account=$oauthtoken&scope=repository:nvidia/driver:pull, with the API key as password."""
    registry.auth = "token"
    mine = asker(registry)
    assert mine.ask(image(registry), right(registry)).state == "exists"
    (asked,) = [target for method, target, dummy in registry.log if target.startswith("/proxy_auth")]
    assert "account=%24oauthtoken" in asked and "scope=repository%3Anvidia%2Fdriver%3Apull" in asked
    assert mine.ask(image(registry, "none"), right(registry)).state == "missing"
    assert sum(target.startswith("/proxy_auth") for dummy, target, header in registry.log) == 1


def test_nvidias_public_images_need_no_credentials(registry: fake.FakeRegistry) -> None:
    registry.auth, registry.anonymous = "token", True
    assert asker(registry).ask(image(registry), {}).state == "exists"


@pytest.mark.parametrize("auth", ["token", "basic"])
def test_credentials_open_a_registry_and_wrong_ones_do_not(registry: fake.FakeRegistry, auth: fake.Auth) -> None:
    registry.auth = auth
    assert asker(registry).ask(image(registry), right(registry)).state == "exists"
    wrong = asker(registry).ask(image(registry), {registry.host: Key("a", "wrong")})
    assert wrong.state == "refused" and "refuses the credentials" in wrong.message and "wrong" not in wrong.message
    none = asker(registry).ask(image(registry), {})
    assert none.state == "refused" and "there are no credentials" in none.message
    assert asker(registry, key=Key(registry.user, registry.password)).ask(image(registry), {}).state == "exists"


def test_a_token_that_has_run_out_is_asked_for_again(registry: fake.FakeRegistry) -> None:
    registry.auth = "token"
    mine = asker(registry)
    assert mine.ask(image(registry), right(registry)).state == "exists"
    registry.token = "another-token-of-a-test"
    assert mine.ask(image(registry), right(registry)).state == "exists"


def test_credentials_do_not_go_to_a_token_service_without_encryption(registry: fake.FakeRegistry) -> None:
    registry.auth = "token"
    mine = Asker(RegistrySettings(timeout_s=2))
    mine._registry = lambda *args: asker(registry)._send(
        "HEAD", f"http://{registry.host}/v2/a/manifests/b", {}, registry.host
    )  # type: ignore[method-assign]
    found = mine.ask(image(registry), right(registry))
    assert found.state == "refused" and "not encrypted" in found.message
    assert not any("/proxy_auth" in target for dummy, target, header in registry.log)


def test_a_challenge_that_is_not_known_is_a_refusal(registry: fake.FakeRegistry) -> None:
    registry.auth, registry.realm = "token", " "
    mine = asker(registry)
    found = mine.ask(image(registry), {})
    assert found.state in ("refused", "unreachable")
    registry._refused = lambda repository, authorization: "Negotiate"  # type: ignore[method-assign]
    found = asker(registry).ask(image(registry), {})
    assert found.state == "refused" and "in a way that" in found.message


@pytest.mark.parametrize(
    ("status", "state", "said"),
    [
        (403, "refused", "only to known users"),
        (429, "unreachable", "answers no more questions"),
        (500, "unreachable", "fails (status 500)"),
        (503, "unreachable", "fails (status 503)"),
    ],
)
def test_other_answers_are_told(registry: fake.FakeRegistry, status: int, state: str, said: str) -> None:
    registry.answer = lambda method, path: status
    found = asker(registry).ask(image(registry), {})
    assert found.state == state and said in found.message


def test_a_token_service_that_fails_is_told(registry: fake.FakeRegistry) -> None:
    registry.auth = "token"
    registry.answer = lambda method, path: 500 if path == "/proxy_auth" else None
    found = asker(registry).ask(image(registry), right(registry))
    assert found.state == "unreachable" and "the token service" in found.message


def test_a_registry_without_head_is_asked_with_get(registry: fake.FakeRegistry) -> None:
    registry.answer = lambda method, path: 405 if method == "HEAD" else None
    assert asker(registry).ask(image(registry), {}).state == "exists"


def test_a_registry_that_is_down_is_asked_once() -> None:
    with fake.serving() as gone:
        host = gone.host
    mine = Asker(RegistrySettings(insecure=[host], timeout_s=2))
    first, second = (mine.ask(f"{host}/nvidia/driver:{tag}", {}) for tag in ("a", "b"))
    assert first.state == second.state == "unreachable" and first.message == second.message
    assert first.message == f"{host} cannot be reached (the connection is refused)"


def test_a_registry_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        found = Asker(RegistrySettings(timeout_s=1)).ask(f"{host}/nvidia/driver:1", {})
    assert found.state == "unreachable" and "no answer in time" in found.message


def test_a_registry_without_encryption_must_be_permitted(registry: fake.FakeRegistry) -> None:
    found = Asker(RegistrySettings(timeout_s=2)).ask(image(registry), right(registry))
    assert found.state == "unreachable" and "speaks no TLS" in found.message
    assert registry.log == []


def test_an_unknown_name_is_told() -> None:
    found = Asker(RegistrySettings(timeout_s=5)).ask("registry.invalid/nvidia/driver:1", {})
    assert found.state == "unreachable" and found.message.startswith("registry.invalid cannot be reached")


def test_the_architectures_of_an_index_are_compared(registry: fake.FakeRegistry) -> None:
    registry.push("nvidia/driver", TAG, "amd64")
    assert asker(registry).ask(image(registry), {}, {"amd64"}).lacks == ()
    assert asker(registry).ask(image(registry), {}, {"amd64", "arm64"}).lacks == ("arm64",)
    assert asker(registry).ask(image(registry), {}).lacks == ()
    registry.push("nvidia/driver", TAG)
    assert asker(registry).ask(image(registry), {}, {"arm64"}).lacks == (), "a single image does not say its own"
    registry.images["nvidia/driver", TAG] = (fake.INDEX, b"no json")
    assert asker(registry).ask(image(registry), {}, {"arm64"}).lacks == ()
