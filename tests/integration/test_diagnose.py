# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The diagnosis of a fleet of every model names exactly the faults that were injected, and nothing in a healthy one.

The crashing programs say what real ones have said: the excerpts are from the corpus of published evidence. The tests
build on each other, as the fleet gets worse.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle import bundle_file, pack
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import diagnose
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Finding
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import explain
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap

from benchmarks.broken import EXPORTER, FAULTS, published
from lab.cluster import Lab, Options, faults
from tests.support.ansible import ROOT, Playbook, on
from tests.support.labs import running_lab
from tests.support.must_gather import must_gather
from tests.support.waits import sees

pytestmark = pytest.mark.slow("each fault has to show in the objects of a fleet")

PLAYBOOK = ROOT / "playbooks" / "diagnose.yml"
MODELS = ("H100", "A100", "H200", "B200", "A30", "L40S", "T4")

FIRST = dict(itertools.islice(FAULTS.items(), 3))
OTHERS = {name: container for name, container in FAULTS.items() if name not in FIRST}
"""Excerpts of the corpus, and the container that says them: those of the five faults, and those of the twenty."""

IMAGE_NODE, DOWN_NODE = "gpu-0003", "gpu-0004"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Lab]:
    """A stack that is ready on three nodes of every model, some of them tainted, beside two nodes without a GPU."""
    file = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
    taint = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    pools: list[dict[str, t.Any]] = [{"count": 3, "model": model} for model in MODELS]
    file.write_text(
        yaml.safe_dump({"pools": [*pools[:-1], {**pools[-1], "taints": taint}, {"count": 2, "model": None}]})
    )
    with running_lab("diagnose", Options(fleet=str(file), upgrade_tick=3)) as lab:
        lab.deploy(timeout=300)
        yield lab


def examined(lab: Lab, kubeconfig: Path | None = None, **given: t.Any) -> tuple[Evidence, list[Finding]]:
    options = {name: spec["default"] for name, spec in diagnose.SPEC.options.items()}
    evidence, found = diagnose.examine({**options, "kubeconfig": str(kubeconfig or lab.kubeconfig), **given})
    return evidence, found.findings


def crash(lab: Lab, wanted: t.Mapping[str, tuple[str, str]], first: int) -> dict[str, str]:
    """Let these excerpts be the last words of containers, each on a node of its own; return the node of each."""
    texts, nodes = published(), dict[str, str]()
    for number, (name, (app, container)) in enumerate(wanted.items(), first):
        nodes[name] = f"gpu-{number:04}"
        faults.crash(lab, app, nodes[name], container, texts[name].lines)
    return nodes


def missing(found: t.Sequence[Finding], nodes: t.Mapping[str, str]) -> list[str]:
    """Return the excerpts whose cause was not named on their node."""
    texts = published()
    return [
        name
        for name, node in nodes.items()
        if not any(each.code in texts[name].codes and node in each.nodes for each in found)
    ]


def unexpected(found: t.Sequence[Finding], names: t.Iterable[str], *codes: str) -> list[str]:
    """Return the codes that nothing explains which was injected."""
    texts = published()
    expected = {*codes, *(code for name in names for code in texts[name].codes)}
    return [f"{each.code} on {each.nodes}: {each.cause}" for each in found if each.code not in expected]


def test_a_healthy_fleet_of_every_model_has_no_finding(fleet: Lab) -> None:
    sees(lambda: not examined(fleet)[1])
    evidence, found = examined(fleet)
    assert found == []
    assert evidence.stack is not None
    assert len({row["product"] for row in evidence.stack["nodes"]}) == len(MODELS)


def test_five_faults_on_different_nodes_and_nothing_else(fleet: Lab, tmp_path: Path) -> None:
    """By the playbook, as a newcomer would: each finding says where it is and what to do."""
    faults.operand(fleet, EXPORTER[0], "image-pull-backoff", node=IMAGE_NODE)
    faults.node(fleet, DOWN_NODE, "not-ready")
    nodes = crash(fleet, FIRST, 0)
    wanted = {"ImageNotFound", "NodeNotReady"}
    sees(lambda: wanted <= {each.code for each in examined(fleet)[1]} and not missing(examined(fleet)[1], nodes), 60)
    state = tmp_path / "state.json"
    run = on(fleet).run(PLAYBOOK, diagnose_state_path=str(state))
    assert run.status == 0, run.output
    result = json.loads(state.read_text())
    named = {(each["code"], *each["nodes"]) for each in result["findings"]}
    assert {("ImageNotFound", IMAGE_NODE), ("NodeNotReady", DOWN_NODE)} <= named, result["findings"]
    assert len(named) == 5, named
    found = examined(fleet)[1]
    assert (missing(found, nodes), unexpected(found, nodes, "ImageNotFound", "NodeNotReady")) == ([], [])
    for each in result["findings"]:
        assert each["title"] in run.output
        assert each["remedy"], each
    assert "the hosts of gpu-0000 to gpu-0020" in run.output
    again = on(fleet).run(PLAYBOOK, "--check", diagnose_state_path=str(state), diagnose_fail=True)
    assert again.status == 0, again.output
    assert "0 new, 0 gone, 5 known" in again.output


@pytest.mark.wide
def test_a_must_gather_of_the_same_fleet_names_the_same_five_causes(fleet: Lab, tmp_path: Path) -> None:
    """On the same nodes, each with the file that shows it, and without the cluster."""
    folder = tmp_path / "must-gather"
    folder.mkdir()
    must_gather(fleet, folder)
    result = explain({"path": str(folder), "text": None, "limit_mib": 64})
    live = {(each.code, each.nodes) for each in examined(fleet)[1]}
    assert {(each["code"], each["nodes"]) for each in result["findings"]} == live, result["text"]
    for each in result["findings"]:
        assert f"file {folder.name}/" in each["quotes"][0]["source"], each["quotes"]


def test_one_kind_that_is_forbidden_is_a_gap_and_the_rest_is_reported(fleet: Lab) -> None:
    """With the shipped ClusterRole but without events."""
    roles = yaml.safe_load((ROOT / "roles" / "preflight" / "files" / "cluster_role_diagnose.yml").read_text())
    for role in roles["items"]:
        for rule in role["rules"]:
            rule["resources"] = [name for name in rule["resources"] if name != "events"] or ["none"]
    fleet.kubectl("create", "--filename=-", stdin=json.dumps(roles))
    for name in ("gpuops-diagnose", "gpuops-diagnose-namespace"):
        fleet.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=viewer")
    evidence, found = examined(fleet, fleet.kubeconfig_for("viewer"))
    assert len(found) == 5, [each.code for each in found]
    assert {gap.what.partition(" in ")[0] for gap in evidence.gaps[:-1]} == {"events"}


@pytest.fixture(scope="module")
def worst(fleet: Lab) -> tuple[Evidence, dict[str, str]]:
    """The evidence of twenty faults at once, and the node of each that crashes."""
    nodes = {**dict(zip(FIRST, ("gpu-0000", "gpu-0001", "gpu-0002"))), **crash(fleet, OTHERS, 5)}
    sees(lambda: not missing(examined(fleet)[1], nodes))
    return examined(fleet)[0], nodes


@pytest.mark.wide
def test_twenty_faults_at_once(worst: tuple[Evidence, dict[str, str]]) -> None:
    evidence, nodes = worst
    found = engine.diagnose(evidence, RULES).findings
    assert len(nodes) + 2 == 20
    lost, wrong = missing(found, nodes), unexpected(found, nodes, "ImageNotFound", "NodeNotReady")
    print(f"20 faults at once: {len(lost)} missed {lost}, {len(wrong)} false positives {wrong}")
    assert (lost, wrong) == ([], [])


@pytest.mark.wide
def test_a_bundle_of_twenty_faults_gives_the_same_findings(
    worst: tuple[Evidence, dict[str, str]], tmp_path: Path
) -> None:
    evidence = worst[0]
    found = [each.as_result() for each in engine.diagnose(evidence, RULES).findings]
    path = tmp_path / "bundle.tar.gz"
    bundle_file.write(str(path), pack.pack(evidence, found, "", 50 << 20))
    print(f"The bundle has {path.stat().st_size >> 10} KiB for {len(evidence.lines)} lines.")
    again = explain({"path": str(path), "text": None, "limit_mib": 64})
    assert len(found) >= 20 and found == again["findings"]
    state = tmp_path / "state.json"
    run = Playbook(tmp_path / "no-kubeconfig", Path("helm")).run(
        PLAYBOOK, diagnose_evidence_path=str(path), diagnose_state_path=str(state)
    )
    assert run.status == 0, run.output
    assert [each["code"] for each in json.loads(state.read_text())["findings"]] == [each["code"] for each in found]


def on_one_node(evidence: Evidence, names: t.Collection[str], node: str = "gpu-0007") -> Evidence:
    """Return what would be seen if all that is wrong with these nodes were wrong with one, and the others were well."""
    assert evidence.stack is not None
    well = [row for row in evidence.stack["nodes"] if row["name"] not in (IMAGE_NODE, DOWN_NODE)]
    rows = [{**row, "waiting_for": {}} for row in well]
    waiting = {
        name: status
        for row in evidence.stack["nodes"]
        if row["name"] in names
        for name, status in row["waiting_for"].items()
    }
    rows = [{**row, "waiting_for": waiting} if row["name"] == node else row for row in rows]
    pods = [pod for pod in evidence.pods if pod["spec"].get("nodeName") in names]
    moved = [{**pod, "spec": {**pod["spec"], "nodeName": node}} for pod in pods]
    lines = [dataclasses.replace(line, node=node) for line in evidence.lines if line.node in names]
    stack = {**evidence.stack, "nodes": rows, "verdict": {"state": "progressing", "reasons": []}}
    return dataclasses.replace(evidence, stack=stack, pods=moved, lines=lines, gaps=list[Gap]())


@pytest.mark.wide
def test_each_pair_of_faults_on_one_node(worst: tuple[Evidence, dict[str, str]]) -> None:
    """A cause that is a consequence of the other one counts as named."""
    evidence, nodes = worst
    texts, lost, wrong, pairs = published(), list[str](), list[str](), list(itertools.combinations(nodes, 2))
    for pair in pairs:
        found = engine.diagnose(on_one_node(evidence, [nodes[name] for name in pair]), RULES).findings
        named = {code for each in found for code in (each.code, *(one.code for one in each.consequences))}
        lost += [f"{name} of {pair}" for name in pair if not texts[name].codes & named]
        wrong += [f"{text} ({pair})" for text in unexpected(found, pair)]
    print(f"{len(pairs)} pairs of faults on one node: {len(lost)} missed {lost}, {len(wrong)} false positives {wrong}")
    assert (lost, wrong) == ([], [])


@pytest.mark.wide
def test_repaired_faults_leave_no_finding_although_their_events_stay(fleet: Lab, worst: tuple[Evidence, t.Any]) -> None:
    faults.clear(fleet)
    sees(lambda: not examined(fleet)[1])
    events = fleet.kubectl("get", "events", "--all-namespaces", "--field-selector=type=Warning", "--output=name")
    assert events.split(), "The API server still has the events of what was repaired."


@pytest.mark.wide
def test_pod_security_refuses_an_operand_until_the_namespace_permits_it(fleet: Lab) -> None:
    faults.refuse(fleet, EXPORTER[0], by="pod-security")
    sees(lambda: [each.code for each in examined(fleet)[1]] == ["PodSecurityRefuses"])
    faults.clear(fleet)
    sees(lambda: not examined(fleet)[1])


@pytest.mark.wide
def test_an_exporter_that_serves_too_little_is_found_where_exporters_are_asked(fleet: Lab) -> None:
    """Nothing in the cluster tells: the pods stay ready, and nobody's log complains."""
    faults.exporter(fleet, "gpu-0001", 0)
    faults.exporter(fleet, "gpu-0005", 3)
    sees(lambda: len(examined(fleet, exporters=True)[1]) == 2)
    found = examined(fleet, exporters=True)[1]
    assert {(each.code, *each.nodes) for each in found} == {
        ("ExporterSilent", "gpu-0001"),
        ("ExporterSilent", "gpu-0005"),
    }, found
    assert examined(fleet)[1] == []
    faults.clear(fleet)
    sees(lambda: not examined(fleet, exporters=True)[1])
