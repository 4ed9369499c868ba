# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import others
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes.api import DAEMONSETS, DEPLOYMENTS, EVENTS, FakeApi, refusal
from tests.unit.fakes.stack import NAMESPACE, operator

ALL_DEPLOYMENTS = "/apis/apps/v1/deployments"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def reader(api: FakeApi) -> GapReader:
    return GapReader(api.connection)


def named(name: str, namespace: str = NAMESPACE) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "managedFields": [{}]}}


def test_each_kind_is_read_and_slimmed(api: FakeApi, reader: GapReader) -> None:
    api.lists["/apis/apps/v1/daemonsets"] = [named("other", "elsewhere")]
    api.lists["/api/v1/namespaces"] = [named(NAMESPACE)]
    found, dummy = others.read(reader, NAMESPACE)
    assert found["daemonsets"] == [{"metadata": {"name": "other", "namespace": "elsewhere"}}]
    assert [item["metadata"]["name"] for item in found["namespaces"]] == [NAMESPACE]
    assert found["servicemonitors"] == found["runtimeclasses"] == []
    assert reader.gaps == []


def test_a_kind_that_is_refused_is_absent(api: FakeApi, reader: GapReader) -> None:
    refused = ("/apis/apps/v1/daemonsets", EVENTS, CRDS, "/api/v1/namespaces/gpu-operator", DEPLOYMENTS)
    api.answer = lambda method, path: refusal(403, "no") if path == EVENTS or path.startswith(refused) else None
    found, dummy = others.read(reader, NAMESPACE)
    absent = {"daemonsets", "deployments", "namespaces", "customresourcedefinitions", "events"}
    assert absent & set(found) == set()
    assert DAEMONSETS not in {path for dummy, path, query in api.log}


def test_operators_of_other_namespaces(api: FakeApi, reader: GapReader) -> None:
    second = operator()
    second["metadata"]["namespace"] = "second"
    own = {**operator(), "metadata": {"name": "gpu-operator", "namespace": NAMESPACE}}
    api.lists[DEPLOYMENTS], api.lists[ALL_DEPLOYMENTS] = [own], [own, second]
    found = others.read(reader, NAMESPACE)[0]["deployments"]
    assert [item["metadata"]["namespace"] for item in found] == [NAMESPACE, "second"]


def test_definitions_without_the_texts_of_their_schemas(api: FakeApi, reader: GapReader) -> None:
    schema = {"properties": {"description": {"type": "string", "description": "long"}}, "required": ["a"]}
    api.lists[CRDS] = [{"metadata": {"name": "clusterpolicies.nvidia.com"}, "spec": {"schema": schema}}]
    (found,) = others.read(reader, NAMESPACE)[0]["customresourcedefinitions"]
    assert found["spec"]["schema"] == {"properties": {"description": {"type": "string"}}, "required": ["a"]}


def test_events_about_pods_of_any_namespace(api: FakeApi, reader: GapReader) -> None:
    api.lists["/api/v1/namespaces/ml/events"] = [named("event", "ml")]
    assert others.events_of(reader, [named("train", "ml")]) == [{"metadata": {"name": "event", "namespace": "ml"}}]
    selector = "involvedObject.kind=Pod,involvedObject.name=train"
    assert api.log[-1][2]["fieldSelector"] == selector
    assert others.events_of(reader, []) == []


def event(kind: str, name: str, message: str, reason: str = "Failed", **fields: object) -> Json:
    namespace = {} if kind == "Node" else {"namespace": "ml"}
    return {"involvedObject": {"kind": kind, "name": name, **namespace}, "reason": reason, "message": message, **fields}


def test_events_as_lines() -> None:
    pod = {"metadata": {"name": "train", "namespace": "ml"}, "spec": {"nodeName": "gpu-1"}}
    events = [
        event("Pod", "train", "a"),
        event("Pod", "train", "a"),
        event("Pod", "gone", "b", source={"host": "gpu-2"}),
        event("Node", "gpu-3", "c", reason=""),
        {"message": "d"},
    ]
    assert others.lines_of(events, [pod]) == [
        TextLine("Failed: a", "event", "event of pod ml/train", "gpu-1", "pod ml/train"),
        TextLine("Failed: b", "event", "event of pod ml/gone", "gpu-2", "pod ml/gone"),
        TextLine("c", "event", "event of node gpu-3", "gpu-3", "node gpu-3"),
        TextLine("d", "event", "event of object ", "", "object "),
    ]
