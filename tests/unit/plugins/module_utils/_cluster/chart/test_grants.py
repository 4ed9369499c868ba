# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.grants import missing_grants, role_of


def rule(verbs: str, resources: str = "", groups: tuple[str, ...] = ("",), names: str = "", urls: str = "") -> dict:
    """Return a rule as the API returns it, without empty fields."""
    if urls:
        return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}
    return {
        "verbs": verbs.split(),
        "apiGroups": list(groups),
        "resources": resources.split(),
        **({"resourceNames": names.split()} if names else {}),
    }


APPS = ("apps",)


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        pytest.param([], rule("get list", "pods"), ["get pods", "list pods"], id="nothing"),
        pytest.param([rule("get", "pods nodes"), rule("list", "pods")], rule("get list", "pods"), [], id="together"),
        pytest.param([rule("*", "*", ("*",))], rule("get", "deployments/scale", APPS), [], id="everything"),
        pytest.param(
            [rule("*", "*", ("*",))], rule("get", urls="/metrics"), ["get /metrics"], id="everything but URLs"
        ),
        pytest.param([rule("get", "pods")], rule("get", "pods", APPS), ["get pods.apps"], id="group"),
        pytest.param([rule("get", "pods")], rule("get", "pods/log"), ["get pods/log"], id="subresource"),
        pytest.param(
            [rule("get", "*/scale", APPS)],
            rule("get", "deployments/scale deployments", APPS),
            ["get deployments.apps"],
            id="of any",
        ),
        pytest.param([rule("get", "pods")], rule("get", "*"), ["get *"], id="a star needs a star"),
        pytest.param([rule("get list", "pods")], rule("*", "pods"), ["* pods"], id="a verb's too"),
        pytest.param([rule("get", "secrets")], rule("get", "secrets", names="a"), [], id="all objects cover one"),
        pytest.param(
            [rule("get", "secrets", names="a")], rule("get", "secrets", names="a b"), ["get secrets b"], id="one object"
        ),
        pytest.param(
            [rule("get", "secrets", names="a")], rule("get", "secrets"), ["get secrets"], id="one does not cover all"
        ),
        pytest.param(
            [rule("get", urls="/healthz/*")], rule("get", urls="/healthz/etcd /metrics"), ["get /metrics"], id="urls"
        ),
        pytest.param([rule("get", urls="/a/*")], rule("get", urls="/ab /a"), ["get /ab", "get /a"], id="below a url"),
        pytest.param([rule("get", urls="*")], rule("get", urls="/metrics"), [], id="all urls"),
        pytest.param([rule("get", urls="/x")], rule("get", "pods"), ["get pods"], id="a URL is no resource"),
    ],
)
def test_missing_grants_are_those_that_no_rule_covers(held: list[dict], wanted: dict, missing: list[str]) -> None:
    assert [str(grant) for grant in missing_grants([wanted, wanted], held)] == missing


def test_a_role_with_null_rules_has_no_rules() -> None:
    item = {
        "kind": "ClusterRole",
        "metadata": {"name": "aggregated", "labels": {}},
        "rules": None,
        "aggregationRule": {},
    }
    assert role_of(item) == {"kind": "ClusterRole", "name": "aggregated", "namespace": None, "rules": []}
