# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import published
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry.ask import Answer, State
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import DRIVER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import DriverSource, Pool
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import FakeApi, refusal
from tests.unit.fakes.stack import node
from tests.unit.fakes.upgrades import registry as fake

SECRETS = "/api/v1/namespaces/gpu-operator/secrets"
OPTIONS: dict[str, t.Any] = {
    "mode": "strict", "mirrors": {}, "insecure": [], "username": None, "password": None, "ca_path": None, "timeout": 2,
}  # fmt: skip
GDS = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "nvidia-fs", "version": "1"}


def pool(host: str = "nvcr.io", kernel: str = "", **spec: t.Any) -> Pool:
    own = {"repository": f"{host}/nvidia", "image": "driver", "version": "1.2.3"}
    return Pool(DriverSource(DRIVER, "default", {**own, **spec}), "ubuntu24.04", kernel, (node(),))


@pytest.fixture
def registry() -> t.Iterator[fake.FakeRegistry]:
    with fake.serving() as made:
        made.push("nvidia/driver", "1.2.3-ubuntu24.04")
        yield made


def answers(api: FakeApi, *pools: Pool, **options: t.Any) -> published.Answers:
    return published.answers(Cluster(api.connection), "gpu-operator", pools, {**OPTIONS, **options})


def test_each_image_is_asked_for_once(api: FakeApi, registry: fake.FakeRegistry) -> None:
    made = pool(registry.host)
    found = answers(api, made, made, insecure=[registry.host])
    assert [answer.state for answer in found.values()] == ["exists"] and len(registry.log) == 1


def test_offline_nobody_is_asked(api: FakeApi, registry: fake.FakeRegistry) -> None:
    found = answers(api, pool(registry.host), mode="offline", mirrors={registry.host: "mirror.test"})
    (answer,) = found.values()
    assert answer.state == "unasked" and answer.asked == "mirror.test/nvidia/driver:1.2.3-ubuntu24.04"
    assert registry.log == []


def secret(registry: fake.FakeRegistry, name: str, password: str) -> dict:
    entry = {"auth": base64.b64encode(f"{registry.user}:{password}".encode()).decode()}
    content = json.dumps({"auths": {registry.host: entry}}).encode()
    return {"metadata": {"name": name}, "data": {".dockerconfigjson": base64.b64encode(content).decode()}}


def test_the_first_pull_secret_for_a_registry_counts(api: FakeApi, registry: fake.FakeRegistry) -> None:
    registry.auth = "basic"
    api.lists[SECRETS] = [secret(registry, "right", registry.password), secret(registry, "wrong", "no")]
    right, wrong = (pool(registry.host, imagePullSecrets=names) for names in (["none", "right"], ["wrong", "right"]))
    for made, state in ((right, "exists"), (wrong, "refused")):
        assert [answer.state for answer in answers(api, made, insecure=[registry.host]).values()] == [state]
    beside = pool(registry.host, gdrcopy={"imagePullSecrets": ["right"]})
    assert [answer.state for answer in answers(api, beside, insecure=[registry.host]).values()] == ["exists"]


def test_a_secret_that_may_not_be_read_is_no_secret(api: FakeApi, registry: fake.FakeRegistry) -> None:
    status = {"code": 403}
    reasons = {403: "Forbidden", 500: "InternalError"}
    api.answer = lambda method, path: (
        refusal(status["code"], "no", reasons[status["code"]]) if path.startswith(SECRETS) else None
    )
    registry.auth = "basic"
    made = pool(registry.host, imagePullSecrets=["a"])
    assert [answer.state for answer in answers(api, made, insecure=[registry.host]).values()] == ["refused"]
    status["code"] = 500
    with pytest.raises(GpuOpsError):
        answers(api, made, insecure=[registry.host])


def finding(state: State, mode: str = "strict", lacks: tuple[str, ...] = (), kernel: str = "") -> t.Any:
    made = pool(kernel=kernel, usePrecompiled=bool(kernel))
    said = Answer(str(made.image), "asked", state, "why", lacks)
    (item,) = published.findings([made], {str(made.image): said}, mode)
    return item


@pytest.mark.parametrize(
    ("state", "mode", "level"),
    [
        ("exists", "strict", "ok"), ("missing", "strict", "failure"), ("refused", "strict", "failure"),
        ("unreachable", "strict", "failure"), ("missing", "lenient", "failure"), ("refused", "lenient", "warning"),
        ("unreachable", "lenient", "warning"), ("unasked", "offline", "warning"),
    ],
)  # fmt: skip
def test_unknown_is_not_passed_unless_the_user_says_so(state: State, mode: str, level: str) -> None:
    assert finding(state, mode).level == level


def test_remedies_fit_the_pool() -> None:
    assert "for this system and kernel" in finding("missing", kernel="6.8").remedy
    assert (
        "for this system, or" in finding("missing").remedy
        and "(ubuntu24.04, kernel 6.8)" in finding("missing", kernel="6.8").message
    )
    lacks = finding("exists", lacks=("arm64",))
    assert lacks.level == "failure" and "is not published for arm64" in lacks.message


def test_an_image_that_the_operator_chooses_is_not_known() -> None:
    made = pool(repository="", image="", version="", gds=GDS)
    assert made.images == ["nvcr.io/nvidia/nvidia-fs:1-ubuntu24.04"]
    first, second = published.findings([made], {made.images[0]: Answer(made.images[0], "a", "exists")}, "strict")
    assert first.level == "warning" and "own default image" in first.message and second.level == "ok"
    assert published.as_result([made], {}) == [
        {
            "source": "NVIDIADriver default", "system": "ubuntu24.04", "kernel": "", "nodes": 1,
            "examples": ["gpu-0000"], "image": "", "images": [],
        }
    ]  # fmt: skip
