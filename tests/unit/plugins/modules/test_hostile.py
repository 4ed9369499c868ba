# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever a cluster or a host says, a module prints no escape, evaluates nothing, ends in words, and stays small."""

from __future__ import annotations

import copy
import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.modules import gpu_facts, host_evidence_info
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lab.nvml import H100, plant
from tests.unit.fakes import prometheus
from tests.unit.fakes.api import ALL_PODS, DEPLOYMENTS, EVENTS, PODS, FakeApi
from tests.unit.fakes.host import FakeHost, recorded
from tests.unit.fakes.stack import NAMESPACE, pod, ready, workload

Run = t.Callable[..., t.Any]
ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
LONG = "\x1b[2K\r" + "A" * 200_000
KNOWN = (
    "\x1b]0;OWNED\x07\x1b[2K\x1b[1A\x1b[32mok: [localhost] all good",
    "a\r\nok: [localhost] => forged",
    "{{ 9901 * 9907 }}",
    "{% for x in y %}",
    "\u202egnp.exe\u2066",
    "\x00\x9b31m",
    "%s%n{0}{self.__class__}",
    "$(id)`id`;id",
    "../../etc/passwd",
    "-1e999",
    "\ufffe\U0001f600",
    "",
    LONG,
)
HOSTILE = st.one_of(st.sampled_from(KNOWN), st.text(max_size=40))
QUICK = settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # A smaller example says no more here.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
MESSAGE = 8_100
CHECKED = {"name", "namespace", "uid", "apiVersion", "kind", "nodeName", "labels", "matchLabels", "nodeSelector"}
CHECKED |= {"limits", "requests", "capacity", "allocatable", "taints", "tolerations"}
"""What the API server itself checks, besides times."""


def places(value: t.Any, path: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """Yield the path of each text that whoever writes an object is free to choose."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key not in CHECKED and not str(key).endswith(("Timestamp", "Time")):
            yield from places(item, (*path, key))


def put(value: t.Any, path: tuple[t.Any, ...], text: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text


EVALUATED = str(9901 * 9907)
"""What the template among the texts would become. It is too long to be a part of the port of a test's server."""


def check(run: t.Any, limit: int) -> None:
    """Nothing of what a module printed can act on a terminal or in a template, and it is not much.

    ansible-core 2.19 adds the options as the user gave them, and prints them as JSON.
    """
    result = {key: value for key, value in run.result.items() if key != "invocation"}
    text = str(result) + "".join(run.warnings)
    found = {*strings(result), *run.warnings}
    assert [each for each in found if ESCAPES.search(each)] == []
    assert EVALUATED not in text, "a template was evaluated"
    assert "Traceback" not in text and "MODULE FAILURE" not in text
    assert len(text) < limit, sorted(found, key=len)[-1][:200]
    said = [*run.warnings, *messages(result)]
    assert [each[:200] for each in said if len(each) > MESSAGE] == []


def messages(value: t.Any) -> t.Iterator[str]:
    """Yield the texts that people read, of which several may be in one log line."""
    if isinstance(value, dict):
        yield from (value[key] for key in ("msg", "message", "remedy") if isinstance(value.get(key), str))
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from messages(item)


def strings(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in (
        [*value.keys(), *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from strings(item)


def in_trouble() -> dict[str, list[dict[str, t.Any]]]:
    """Return the objects of a stack in trouble: a pod that waits, warnings about it, and nodes that are not well."""
    stack = ready(2)
    stack.policies[0]["status"]["conditions"][1] |= {"status": "True", "message": "failed"}
    driver = stack.daemonsets["nvidia-driver-daemonset"]
    driver["status"] |= {"numberReady": 1, "numberAvailable": 1, "numberUnavailable": 1}
    waiting = {"name": "driver", "ready": False, "state": {"waiting": {"reason": "ErrImagePull", "message": "denied"}}}
    broken = pod(driver, phase="Pending", message="no", reason="x", containerStatuses=[waiting])
    event = {"type": "Warning", "reason": "Failed", "message": "no", "involvedObject": {"kind": "Pod"}, "count": 3}
    event["metadata"] = {"name": "a", "namespace": NAMESPACE}
    event["involvedObject"] |= {"name": broken["metadata"]["name"], "namespace": NAMESPACE}
    stack.nodes[0]["metadata"]["annotations"] = {
        "gpuops.nvidia/maintenance.reboot": "2026-11-21T09:30:00Z awx c64b5a73"
    }
    stack.nodes[1]["spec"] = {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": True}
    api = FakeApi(stack)
    for item in api.lists[DEPLOYMENTS]:
        item["metadata"]["namespace"] = NAMESPACE
        item["spec"]["template"]["spec"] = {"containers": []}
    return {**api.lists, PODS: [broken], EVENTS: [event], ALL_PODS: [broken, workload("train", 0)]}


GPU_PRESENT = "nvidia.com/gpu.present"
OBJECTS = in_trouble()
PLACES = [place for place in places(OBJECTS) if len(place) > 2]
CALLS: dict[str, dict[str, t.Any]] = {
    "diagnose": {},
    "driver_hold": {"_ansible_check_mode": True},
    "gpu_access": {"quotas": [], "priority_classes": [], "_ansible_check_mode": True},
    "gpu_claims": {"classes": [], "templates": [], "claims": [], "quotas": [], "_ansible_check_mode": True},
    "gpu_stack_info": {"allocated": True},
    "host_nodes_info": {"hosts": [{"name": "gpu-0000"}, {"name": "gpu-0009"}]},
    "node_taints": {"taints": [{"key": "a", "node_selector": {GPU_PRESENT: "true"}}], "_ansible_check_mode": True},
    "clusterpolicy_info": {},
    "gpu_preflight_info": {"skip": ["permissions", "role_grants"]},
    "node_maintenance": {
        "nodes": ["gpu-0001"], "state": "drained", "purpose": "test", "timeout": 1, "_ansible_check_mode": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("module", CALLS)
@given(data=st.data())
@QUICK
def test_a_hostile_cluster(api: FakeApi, run_module: Run, module: str, data: st.DataObject) -> None:
    hostile = copy.deepcopy(OBJECTS)
    for place in data.draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=30, unique=True)):
        put(hostile, place, data.draw(HOSTILE))
    api.lists |= hostile
    api.table = [[hostile[PODS][0]["metadata"]["name"], "0/1", data.draw(HOSTILE), "0", "1m", "-", "gpu-0000"]]
    run = run_module(module, **api.connection, **CALLS[module])
    assert not str(run.result.get("msg", "")).startswith(("missing required", "Unsupported parameters"))
    check(run, 60_000 + 3 * len(str(hostile)))


LABELS = ("gpu", "UUID", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "namespace", "pod", "container", "clock_event")
METRICS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_FI_DEV_XID_ERRORS")


def hostile_labels(data: st.DataObject) -> dict[str, str]:
    """Return the labels of a series, of which some are hostile."""
    return {label: data.draw(st.one_of(st.sampled_from(["0", "GPU-a"]), HOSTILE)) for label in LABELS}


@given(data=st.data())
@QUICK
def test_a_hostile_exporter(
    api: FakeApi, run_module: Run, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    lines = []
    for dummy in range(data.draw(st.integers(1, 8))):
        texts = (json.dumps(text, ensure_ascii=False) for text in hostile_labels(data).values())
        block = ",".join(f"{label}={text}" for label, text in zip(LABELS, texts))
        lines.append(f"{data.draw(st.sampled_from(METRICS))}{{{block}}} {data.draw(HOSTILE)}")
        lines.append(f"{data.draw(st.sampled_from(METRICS))}{{{block}}} 5")
    text = "\n".join([*lines, data.draw(HOSTILE), ""])
    monkeypatch.setattr(port_forward, "get", lambda *address: (200, text.encode("utf-8", "surrogatepass")))
    api.table = [["exporter-0", "1/1", "Running", "0", "1m", "-", "gpu-0000"]]
    check(run_module("gpu_metrics_info", **api.connection), 60_000 + 9 * len(text))


@given(data=st.data())
@QUICK
def test_a_hostile_prometheus(api: FakeApi, run_module: Run, data: st.DataObject) -> None:
    with prometheus.serving() as server:
        names = [data.draw(st.sampled_from(["gpu-0000", "gpu-0001", data.draw(HOSTILE)])) for dummy in range(4)]
        found = [
            {**hostile_labels(data), "node": name, "__name__": data.draw(st.sampled_from(METRICS))} for name in names
        ]
        server.now = [(labels, 5.0) for labels in found]
        server.highest = server.means = [(labels, {prometheus.NOW: 5.0}) for labels in found]
        server.warnings = [data.draw(HOSTILE)]
        if data.draw(st.booleans()):
            said = data.draw(HOSTILE)
            server.answer = lambda kind, asked: prometheus.failed(422, said) if kind == "query_range" else None
        run = run_module("gpu_metrics_info", **api.connection, prometheus={"url": server.url})
        check(run, 60_000 + 9 * len(str(found)))


COMMANDS = {
    "dpkg_query": "packages/dpkg-ubuntu-22.04.txt",
    "systemctl": "systemd/ubuntu-22.04.txt",
    "journalctl": "logs/journal-ubuntu-22.04.txt",
}

FILES = ("/etc/os-release", "/proc/cmdline", "/proc/modules", "/etc/containerd/config.toml", "/etc/default/grub")
ON_HOST = {"gpu_facts": gpu_facts, "host_evidence_info": host_evidence_info}


@pytest.mark.parametrize("module", ON_HOST)
@given(data=st.data())
@QUICK
def test_a_hostile_host(
    run_module: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    module: str,
    data: st.DataObject,
) -> None:
    folder: Path = tmp_path_factory.mktemp("host")
    plant(folder, H100)
    commands = {}
    for name, path in COMMANDS.items():
        lines = recorded(path).splitlines()
        for number in data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=8)):
            lines[number] = lines[number][: data.draw(st.integers(0, 60))] + data.draw(HOSTILE)
        commands[name] = "\n".join(lines)
    host = FakeHost(folder, **commands)
    for path in FILES:
        if data.draw(st.booleans()):
            host.put(path, data.draw(HOSTILE).replace("\0", ""))
    monkeypatch.setattr(ON_HOST[module], "Host", lambda timeout_s: host)
    check(run_module(module), 300_000)


@given(data=st.data())
@QUICK
def test_a_hostile_text_to_explain(run_module: Run, data: st.DataObject) -> None:
    """Texts that people paste come from clusters and hosts, too."""
    lines = recorded(COMMANDS["journalctl"]).splitlines()
    known = ["NVRM: Xid (PCI:0000:3b:00): 79, pid=1, ", "Error: ImagePullBackOff ", *lines[:20]]
    pasted = [data.draw(st.sampled_from(known)) + data.draw(HOSTILE) for dummy in range(data.draw(st.integers(1, 12)))]
    text = "\n".join(pasted)
    check(run_module("explain", text=text), 60_000 + 5 * len(text))
