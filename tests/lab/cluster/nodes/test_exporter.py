# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest

from lab.cluster.nodes.agents import exporter
from lab.cluster.nodes.agents.exporter import Field

Json = dict[str, t.Any]


def node(**notes: str) -> Json:
    all_notes = {"gpus": "2", "model": "H100", **notes}
    annotations = {f"lab.gpuops.nvidia/{key}": value for key, value in all_notes.items()}
    return {"metadata": {"name": "gpu-0000", "annotations": annotations}}


def pod(name: str, gpus: int, phase: str = "Running") -> Json:
    metadata = {"name": name, "namespace": "team", "creationTimestamp": f"2026-01-01T00:00:0{name[-1]}Z"}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": phase}}


def series(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"{name}{{")]


def test_the_list_decides_what_is_served() -> None:
    fields = exporter.parsed('DCGM_FI_DEV_GPU_TEMP, gauge, Heat.\n# no\nDCGM_FI_DEV_FB_TOTAL,gauge,"All, in MiB"\n')
    text = exporter.metrics(node(), fields)
    assert len(series(text, "DCGM_FI_DEV_GPU_TEMP")) == len(series(text, "DCGM_FI_DEV_FB_TOTAL")) == 2
    assert "# HELP DCGM_FI_DEV_FB_TOTAL All, in MiB" in text and "DCGM_FI_DEV_POWER_USAGE" not in text
    assert "DCGM_FI_DRIVER_VERSION" not in text


def test_a_gpu_has_each_series_once_for_each_of_its_jobs() -> None:
    mapped = pod("x-0", 0)
    mapped["spec"]["containers"][0]["env"] = [{"name": exporter.JOBS_VARIABLE, "value": "/run/jobs"}]
    files = node(jobs='{"0": "4711\\n4712\\n", "1": "", "README": "x"}')
    jobs = exporter.jobs_of(files, mapped)
    assert jobs == {0: ["4711", "4712"], 1: []} and exporter.jobs_of(files, pod("x-0", 0)) == {}
    lines = series(exporter.metrics(files, jobs=jobs), "DCGM_FI_DEV_GPU_TEMP")
    assert [line.partition("hpc_job=")[2].partition("}")[0] for line in lines] == ['"4711"', '"4712"', ""]


def test_a_broken_list_is_refused_as_the_exporter_does() -> None:
    with pytest.raises(ValueError, match="malformed CSV record"):
        exporter.parsed("DCGM_FI_DEV_GPU_TEMP, gauge, a, b\n")


def test_a_pod_names_its_gpus_and_a_busy_gpu_is_hot() -> None:
    held = exporter.held_gpus([pod("late-2", 1), pod("early-1", 1), pod("done-0", 1, "Succeeded")], 2)
    assert {index: meta["name"] for index, meta in held.items()} == {0: "early-1", 1: "late-2"}
    text = exporter.metrics(node(), held={0: held[0]})
    first, second = series(text, "DCGM_FI_DEV_GPU_UTIL")
    assert 'container="main",namespace="team",pod="early-1"} 97' in first
    assert "pod=" not in second and second.endswith(" 0")


def test_shared_gpus_are_given_out_again() -> None:
    held = exporter.held_gpus([pod("a-1", 3), pod("b-2", 1)], 2)
    assert {index: meta["name"] for index, meta in held.items()} == {0: "a-1", 1: "a-1"}
    assert exporter.held_gpus([pod("a-1", 1)], 0) == {}


@pytest.mark.parametrize(
    ("image", "label"),
    [("x/dcgm-exporter:4.5.3-4.8.2", "Hostname"), ("x/dcgm-exporter:4.6.0-4.8.3", "hostname"), ("", "Hostname")],
)
def test_the_label_of_the_node_depends_on_the_exporter(image: str, label: str) -> None:
    assert f',{label}="gpu-0000"' in exporter.metrics(node(), image=image)


def test_only_an_xid_that_was_seen_is_counted() -> None:
    fields = [Field("DCGM_EXP_XID_ERRORS_COUNT", "counter", "x"), Field("DCGM_FI_DEV_XID_ERRORS", "gauge", "x")]
    assert series(exporter.metrics(node(), fields), "DCGM_EXP_XID_ERRORS_COUNT") == []
    text = exporter.metrics(node(xid="79"), fields)
    (count,) = series(text, "DCGM_EXP_XID_ERRORS_COUNT")
    assert 'gpu="0"' in count and count.endswith('xid="79"} 1')
    assert [line.split()[-1] for line in series(text, "DCGM_FI_DEV_XID_ERRORS")] == ["79", "0"]


def test_a_node_without_gpus_says_nothing() -> None:
    assert exporter.metrics(node(gpus="0")) == ""
    assert len(series(exporter.metrics(node(**{"exporter-gpus": "1"})), "DCGM_FI_DEV_GPU_TEMP")) == 1


def test_the_list_of_a_pod_is_its_volume() -> None:
    volumes = [
        {"name": "other", "configMap": {"name": "no"}},
        {"name": "metrics-config", "configMap": {"name": "mine"}},
    ]
    assert exporter.list_of({"spec": {"volumes": volumes}}) == "mine"
    assert exporter.list_of({"spec": {}}) is None


def test_a_gpu_has_a_series_for_each_container_with_a_claim_on_it() -> None:
    claim = {"claim": "c-1", "namespace": "team", "pool": "gpu-0000", "container": "main"}
    mine = {**claim, "device": "gpu-1-mig-1g10gb-19-0", "admin": False, "profile": "1g.10gb", "uuid": "MIG-1"}
    user = pod("x-1", 0)
    user["metadata"]["annotations"] = {"lab.gpuops.nvidia/devices": json.dumps([mine])}
    own = pod("e-1", 0)
    seen = [{**claim, "device": f"gpu-{index}", "admin": True} for index in (0, 1)]
    own["metadata"]["annotations"] = {"lab.gpuops.nvidia/devices": json.dumps(seen)}
    assert exporter.claimed_gpus(own, [user, own]) == {}, "it does not ask for claims"
    own["spec"]["containers"][0]["env"] = [{"name": exporter.CLAIMS_VARIABLE, "value": "true"}]
    claimed = exporter.claimed_gpus(own, [user, own])
    lines = series(exporter.metrics(node(), claimed=claimed), "DCGM_FI_DEV_GPU_UTIL")
    assert [line.rpartition(" ")[2] for line in lines] == ["0", "97", "97"], "access for administration takes no GPU"
    assert 'dra_mig_profile="1g.10gb",dra_mig_device_uuid="MIG-1"' in lines[1] and 'pod="x-1"' in lines[1]
    assert 'dra_device_name="gpu-1"' in lines[2] and 'pod="e-1"' in lines[2]
