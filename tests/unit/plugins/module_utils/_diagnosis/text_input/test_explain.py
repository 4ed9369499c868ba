# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What explain says, from a path or a text."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle import pack
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import NO_RULE_KNOWS, explain
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

XID = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def explained(path: Path | None = None, text: str | None = None) -> dict[str, t.Any]:
    return explain({"path": path and str(path), "text": text, "limit_mib": 64})


def test_a_text_with_a_known_cause() -> None:
    result = explained(text=XID)
    assert [each["code"] for each in result["findings"]] == ["XidOffTheBus"]
    assert result["findings"][0]["quotes"][0]["text"] == XID
    assert result["text"].startswith("1. FAILURE")
    assert result["read"] == [{"name": "text", "size": len(XID), "found": []}]


def test_a_text_in_which_nothing_is_known_says_so() -> None:
    result = explained(text="the fan is loud")
    assert (result["findings"], result["text"]) == ([], NO_RULE_KNOWS)


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "nvidia-dcgm-exporter-5w8hk", "namespace": "gpu-operator", "uid": "u-1", "labels": {}},
    "spec": {"nodeName": "gpu-0001", "containers": [{"name": "nvidia-dcgm-exporter", "image": "x"}]},
    "status": {
        "phase": "Pending",
        "containerStatuses": [
            {
                "name": "nvidia-dcgm-exporter",
                "ready": False,
                "restartCount": 0,
                "image": "x",
                "state": {
                    "waiting": {
                        "reason": "ImagePullBackOff",
                        "message": 'Back-off pulling image "nvcr.io/nvidia/k8s/dcgm-exporter:9": not found',
                    }
                },
            }
        ],
    },
}
WAITED = 'level=error msg="Failed to wait for nvidia-operator-validator to shutdown: context deadline exceeded"'
BUG_REPORT = f"""\
Start of NVIDIA bug report log file.  Please include this file, along
with a detailed description of your problem, when reporting a graphics
driver bug via the NVIDIA Linux forum.

nvidia-bug-report.sh Version: 38031603

Date: Mon Nov 23 20:00:00 UTC 2026
uname: Linux gpu-0002 6.8.0-60-generic #63-Ubuntu SMP x86_64 GNU/Linux

*** /var/log/dmesg
[  387.209352] {XID}
"""
STATUS = """\
NAME                            READY   STATUS     RESTARTS   AGE   IP           NODE       NOMINATED NODE   READINESS
nvidia-driver-daemonset-x7k2p   0/1     Init:0/1   0          10m   10.244.1.3   gpu-0003   <none>           <none>
"""


def test_a_must_gather_names_causes_with_nodes_and_files(tmp_path: Path) -> None:
    """The names and formats are those of hack/must-gather.sh of NVIDIA/gpu-operator, in November 2026."""
    folder = tmp_path / "nvidia-gpu-operator_20261123_2000"
    folder.mkdir()
    driver = "nvidia-driver-daemonset-x7k2p"
    prefix = f"[pod/{driver}/k8s-driver-manager] 2026-11-23T20:05:01.000000000Z "
    files = {
        "must-gather.log": "Using 'gpu-operator' as operator namespace\n",
        "gpu_operand_pods.status": STATUS,
        "gpu_operand_pods.yaml": json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD]}),
        f"gpu_operand_pod_{driver}.log": f"{prefix}{WAITED}\n",
        f"gpu_operand_pod_{driver}.previous.log": "",
        "gpu_device_usage_gpu-0004.log": "# nvidia-smi output from gpu-0004\nFailed to initialize NVML: Driver/library "
        "version mismatch\nNVML library version: 580.105\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "nvidia-bug-report_gpu-0002.log.gz").write_bytes(gzip.compress(BUG_REPORT.encode()))

    result = explained(folder)

    found = {each["code"]: each for each in result["findings"]}
    expected = {
        "ImageNotFound": ("gpu-0001", "gpu_operand_pods.yaml"),
        "XidOffTheBus": ("gpu-0002", "nvidia-bug-report_gpu-0002.log.gz"),
        "OperandDoesNotEnd": ("gpu-0003", f"gpu_operand_pod_{driver}.log"),
        "DriverLibraryMismatch": ("gpu-0004", "gpu_device_usage_gpu-0004.log"),
    }
    assert set(found) == set(expected), result["text"]
    for code, (node, file) in expected.items():
        assert found[code]["nodes"] == (node,)
        assert found[code]["quotes"][0]["source"].endswith(f", file {folder.name}/{file}"), found[code]["quotes"]
        assert file in result["text"]


RECORDED = Path(__file__).parents[4] / "fixtures" / "diagnosis" / "must_gather"
"""What NVIDIA's hack/must-gather.sh (at a22dbf6) wrote of a lab with five faults on five nodes, without most files."""


def test_a_recorded_must_gather_names_the_five_faults_of_its_lab() -> None:
    result = explained(RECORDED)
    pod = "gpu_operand_pod_nvidia"
    expected = {
        ("ModuleSignatureRefused", "gpu-0000", f"{pod}-driver-daemonset-lk9bv.log"),
        ("FabricManagerMismatch", "gpu-0001", f"{pod}-driver-daemonset-dc62r.log"),
        ("ToolkitSocketWrong", "gpu-0002", f"{pod}-container-toolkit-daemonset-rhscq.log"),
        ("ImageNotFound", "gpu-0003", "gpu_operand_pods.yaml"),
        ("NodeNotReady", "gpu-0004", "gpu_nodes.descr"),
    }
    found = {
        (each["code"], *each["nodes"], each["quotes"][0]["source"].rpartition("/")[2]) for each in result["findings"]
    }
    assert found == expected, result["text"]
    assert {each["certainty"] for each in result["findings"]} == {"certain"}
    for each in result["findings"]:
        assert len(each["quotes"]) == 1, "Both runs of a container say the same, and one is shown."


def test_a_pasted_text_and_a_file_whose_name_is_the_source_name_no_file(tmp_path: Path) -> None:
    assert explained(text=XID)["findings"][0]["quotes"][0]["source"] == "kernel log"
    notes = tmp_path / "notes.md"
    notes.write_text("Failed to initialize NVML: Driver/library version mismatch\n")
    (finding,) = explained(notes)["findings"]
    assert finding["quotes"][0]["source"] == "notes.md"


def test_a_line_that_stands_in_two_files_names_neither(tmp_path: Path) -> None:
    for name in ("dmesg.1", "dmesg.2"):
        (tmp_path / name).write_text(f"[  387.209352] {XID}\n")
    (finding,) = explained(tmp_path)["findings"]
    assert finding["quotes"][0]["source"] == "kernel log"


def test_what_was_not_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(b"\x7fELF" + bytes(range(32)) * 50)
    result = explained(tmp_path)
    assert result["left_out"] == [{"name": f"{tmp_path.name}/core", "why": "It is no text."}]
    assert f"- {tmp_path.name}/core: It is no text." in result["text"]


def bundle(folder: Path) -> tuple[Path, list[dict[str, t.Any]]]:
    evidence = Evidence(
        taken="2026-11-23T12:00:00Z",
        hosts={"gpu1": {"facts": {"nouveau": {"loaded": True}}}},
        lines=[TextLine(XID, "kernel", "kernel log", "gpu2")],
        gaps=[Gap("pods in gpu-operator", "No permission.")],
    )
    findings = [each.as_result() for each in engine.diagnose(evidence, RULES).findings]
    path = folder / "bundle.tar.gz"
    path.write_bytes(pack.pack(evidence, findings, "", 1 << 20))
    return path, findings


def test_a_bundle_gives_the_findings_of_the_run_that_wrote_it(tmp_path: Path) -> None:
    path, findings = bundle(tmp_path)
    result = explained(path)
    assert len(findings) >= 2 and result["findings"] == findings
    assert result["taken"] == "2026-11-23T12:00:00Z"
    assert result["gaps"] == [{"what": "pods in gpu-operator", "why": "No permission."}]
    assert "pods in gpu-operator: No permission." in result["text"]


def test_a_bundle_that_was_unpacked_is_read_too(tmp_path: Path) -> None:
    path, findings = bundle(tmp_path)
    subprocess.run(["tar", "-xzf", path.name], cwd=tmp_path, check=True)
    assert explained(tmp_path / "gpuops-bundle")["findings"] == findings


def test_a_bundle_that_somebody_has_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(pack.pack(Evidence(stack={"nodes": [], "verdict": {"reasons": [7]}}), [], "", 1 << 20))
    with pytest.raises(GpuOpsError, match="the bundle was changed"):
        explained(path)


def test_a_bundle_is_explained_alone(tmp_path: Path) -> None:
    with pytest.raises(GpuOpsError, match="Explain a bundle alone"):
        explained(bundle(tmp_path)[0], text=XID)


def test_a_limit_of_zero_is_refused() -> None:
    with pytest.raises(GpuOpsError, match="limit_mib is 0"):
        explain({"path": None, "text": "x", "limit_mib": 0})


MEASURE = r"""
import pathlib, re, sys, time
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import explain
started = time.monotonic()
result = explain({"path": sys.argv[1], "text": None, "limit_mib": 16})
# The peak of resource.getrusage would include the process that started this one.
used = int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) // 1024
print(len(result["findings"]), round(time.monotonic() - started, 1), used)
"""


@pytest.mark.parametrize("kind", ["text", *(pytest.param(kind, marks=pytest.mark.wide) for kind in ("binary", "line"))])
def test_a_log_of_one_gigabyte_takes_little_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "big.log"
    begin = {"text": f"{XID}\n".encode() * 20_000, "binary": bytes(range(256)) * 5000, "line": b"nvidia x" * 1_000_000}
    with open(path, "wb") as file:
        file.write(begin[kind])
        file.truncate(1 << 30)
    command = [sys.executable, "-c", MEASURE, str(path)]
    environment = {"PYTHONPATH": str(Path(sys.prefix) / "share")}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found, seconds, mib = answer.stdout.split()
    print(f"1 GiB ({kind}): {seconds} s, {mib} MiB")
    assert int(mib) < 300
    assert int(found) == (1 if kind == "text" else 0)
