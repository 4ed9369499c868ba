# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.inventory_hosts import joined
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording


def node(name: str, machine: str = "") -> Json:
    return {"metadata": {"name": name, "labels": {}}, "status": {"nodeInfo": {"machineID": machine}, "addresses": []}}


def test_a_host_is_found_under_its_nodes_name() -> None:
    facts = {"node": {"machine_id": "m1", "hostname": "other"}, "driver": {}}
    found = joined({"inventory-name": {"facts": facts, "preflight": [], "lines": ["a line"]}}, [node("gpu-1", "m1")])
    assert found.hosts == {"gpu-1": {"facts": facts}}
    assert found.lines == [TextLine("a line", "text", "the host", "gpu-1")]
    assert found.gaps == []


def test_the_node_that_a_user_has_named_counts() -> None:
    facts = {"node": {"machine_id": "m1"}}
    nodes = [node("gpu-1", "m1"), node("gpu-2", "m1")]
    assert list(joined({"host": {"facts": facts, "node": "gpu-2"}}, nodes).hosts) == ["gpu-2"]
    assert list(joined({"host": {"facts": facts, "node": ""}}, nodes[:1]).hosts) == ["gpu-1"]


def test_a_host_that_is_no_node_keeps_its_name() -> None:
    assert joined({"gpu-9": {"state": {"a": 1}}}, [node("gpu-1")]).hosts == {"gpu-9": {"state": {"a": 1}}}
    assert joined({"gpu-9": {"state": {"a": 1}}}, None).hosts == {"gpu-9": {"state": {"a": 1}}}


def test_a_host_whose_node_is_not_known_is_a_gap_and_is_still_examined() -> None:
    kubelet = {"present": True, "active": True, "by": "the process kubelet"}
    found = joined({"gpu-9": {"facts": {"node": {"machine_id": "m9", "kubelet": kubelet}}}}, [node("cpu-1", "m1")])
    assert list(found.hosts) == ["gpu-9"]
    (gap,) = found.gaps
    assert gap.what == "which node the host gpu-9 is"
    assert gap.why == wording(
        "gpu-9 runs a kubelet (the process kubelet), and no node of the cluster fits it (similar: cpu-1)."
    )


def test_a_host_that_could_not_be_examined_is_a_gap() -> None:
    found = joined({"gpu-1": {"unreachable": "timed out"}}, [node("gpu-1")])
    assert found.hosts == {}
    assert found.gaps == [Gap("the host gpu-1", wording("It could not be examined: timed out"))]


def test_lines_with_their_origin() -> None:
    line = {"text": "Xid 79", "kind": "kernel", "source": "kernel log", "object": "GPU 0"}
    found = joined({"gpu-1": {"lines": [line, {"text": "a"}]}}, None)
    assert found.lines == [
        TextLine("Xid 79", "kernel", "kernel log", "gpu-1", "GPU 0"),
        TextLine("a", "text", "the host", "gpu-1"),
    ]


def test_a_host_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(GpuOpsError, match=r"hosts\.gpu-1 must be a dictionary"):
        joined({"gpu-1": {"fact": {}}}, None)


@pytest.mark.parametrize(
    "host",
    ["facts", None, {"facts": ["x"]}, {"facts": {"gpus": {"a": 1}}}, {"facts": {"gpus": ["a"]}}, {"facts": {"node": "x"}},
     {"state": "x"}, {"preflight": "x"}, {"preflight": [7]}, {"lines": "x"}, {"lines": [{"kind": "kernel"}]},
     {"facts": {"node": {"machine_id": 7}}}, {"facts": {"node": {"addresses": 7}}}],
)  # fmt: skip
def test_an_odd_host_is_left_out_by_name_and_the_others_stay(host: object) -> None:
    good = {"facts": {"node": {"machine_id": "m2"}}}
    found = joined({"gpu-1": host, "gpu-2": good}, [node("gpu-1", "m1"), node("gpu-2", "m2")])
    assert found.hosts == {"gpu-2": good}
    assert [gap.what for gap in found.gaps] == ["the host gpu-1"]
