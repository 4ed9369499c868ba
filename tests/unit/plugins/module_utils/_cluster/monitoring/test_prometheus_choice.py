# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring import prometheus_choice
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.prometheus_choice import MONITOR, RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

Json = dict[str, t.Any]
HERE: Json = {"metadata": {"name": "gpu-operator", "labels": {"team": "gpu"}}}


def server(name: str = "kps", **spec: t.Any) -> Json:
    return {"metadata": {"name": name, "namespace": "monitoring"}, "spec": spec}


def test_the_only_server_is_chosen() -> None:
    assert prometheus_choice.choose([], "") is None
    assert prometheus_choice.choose([server()], "") == server()


@pytest.mark.parametrize("wanted", ["b", "monitoring/b"])
def test_of_several_the_named_one_is_chosen(wanted: str) -> None:
    assert prometheus_choice.choose([server("a"), server("b")], wanted) == server("b")


@pytest.mark.parametrize(
    ("servers", "wanted", "said"),
    [
        (
            [server("a"), server("b")],
            "",
            wording(
                "The cluster has several Prometheus objects: monitoring/a, monitoring/b. Name the one that scrapes GPU nodes in prometheus."
            ),
        ),
        ([server("a")], "b", wording("prometheus: there is no Prometheus b. The cluster has: monitoring/a.")),
        ([], "b", wording("prometheus: there is no Prometheus b. The cluster has: none.")),
    ],
    ids=["several", "another", "none"],
)
def test_no_choice_is_refused(servers: list[Json], wanted: str, said: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        prometheus_choice.choose(servers, wanted)
    assert error.value.msg == said


SELECTOR = {
    "matchLabels": {"release": "kps"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["gold", "silver"]},
        {"key": "release", "operator": "In", "values": ["other", "kps"]},
        {"key": "watched", "operator": "Exists"},
        {"key": "hidden", "operator": "DoesNotExist"},
        {"key": "stage", "operator": "NotIn", "values": ["test"]},
    ],
}


def test_the_labels_are_those_that_the_selector_asks_for() -> None:
    labels = prometheus_choice.labels_for(server(ruleSelector=SELECTOR), RULES)
    assert labels == {"release": "kps", "tier": "gold", "watched": "gpuops"}
    assert prometheus_choice.matches(SELECTOR, labels)
    assert prometheus_choice.labels_for(server(ruleSelector={}), RULES) == {}
    assert prometheus_choice.labels_for(server(), MONITOR) == {}


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"release": "kps"},
        {"release": "kps", "tier": "bronze", "watched": "x"},
        {"release": "kps", "tier": "gold"},
        {"release": "kps", "tier": "gold", "watched": "x", "hidden": "x"},
        {"release": "kps", "tier": "gold", "watched": "x", "stage": "test"},
    ],
)
def test_one_rule_that_does_not_hold_is_enough(labels: dict[str, str]) -> None:
    assert not prometheus_choice.matches(SELECTOR, labels)


def test_a_value_that_is_asked_for_comes_before_one_that_has_to_exist() -> None:
    rules = [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "In", "values": ["x"]}]
    assert prometheus_choice.labels_for(server(ruleSelector={"matchExpressions": rules}), RULES) == {"a": "x"}


def test_an_empty_selector_chooses_everything() -> None:
    assert prometheus_choice.matches({}, {}) and prometheus_choice.matches({}, {"a": "b"})


ALL: Json = {"ruleSelector": {}, "ruleNamespaceSelector": {}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (ALL, ""),
        ({**ALL, "ruleNamespaceSelector": {"matchLabels": {"team": "gpu"}}}, ""),
        (
            {**ALL, "ruleSelector": None},
            wording("Prometheus monitoring/kps has no ruleSelector, so it takes no PrometheusRule. Set one."),
        ),
        (
            {**ALL, "ruleSelector": {"matchLabels": {"release": "kps"}}},
            wording("The ruleSelector of Prometheus monitoring/kps does not choose the labels app=x. Add labels."),
        ),
        (
            {**ALL, "ruleNamespaceSelector": None},
            wording(
                "Prometheus monitoring/kps takes a PrometheusRule from its own namespace only. Set its ruleNamespaceSelector to {}, or to labels of the namespace gpu-operator."
            ),
        ),
        (
            {**ALL, "ruleNamespaceSelector": {"matchLabels": {"team": "web"}}},
            wording(
                "The ruleNamespaceSelector of Prometheus monitoring/kps does not choose the namespace gpu-operator. Give the namespace the labels that it asks for."
            ),
        ),
    ],
)
def test_what_is_ignored_has_a_reason(spec: Json, said: str) -> None:
    assert prometheus_choice.why_not(server(**spec), RULES, {"app": "x"}, HERE) == said


def test_labels_of_a_namespace_that_are_not_known_are_no_reason() -> None:
    spec = {**ALL, "ruleNamespaceSelector": {"matchLabels": {"team": "web"}}}
    assert prometheus_choice.why_not(server(**spec), RULES, {}, {"metadata": {"name": "gpu-operator"}}) == ""


def test_without_a_selector_of_namespaces_its_own_one_counts() -> None:
    mine = {"metadata": {"name": "monitoring"}}
    assert prometheus_choice.why_not(server(ruleSelector={}), RULES, {}, mine) == ""
