# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.engine import diagnose
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import all_rules
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import gather
from ansible_collections.gpuops.nvidia.plugins.modules import host_evidence_info

from lab.nvml import Model, machine, plant
from lab.nvml.models import BUSES, MODELS
from tests.support.nvml import SetNvml
from tests.unit.fakes.host import FakeHost, recorded
from tests.unit.fakes.modules import RunModule
from tests.unit.plugins.module_utils._host.evidence.test_collect import NVRM, journal
from tests.unit.plugins.module_utils._host.evidence.test_units import SHOWN


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = FakeHost(tmp_path, systemctl=SHOWN, journalctl=journal)
    monkeypatch.setattr(host_evidence_info, "Host", lambda timeout_s: host)
    return host


def test_returns_the_state_and_the_lines(run_module: RunModule) -> None:
    done = run_module("host_evidence_info")
    assert (done.rc, done.result["changed"]) == (0, False)
    assert done.result["state"]["services"]["nvidia-fabricmanager.service"]["restarts"] == 3
    assert [line["source"] for line in done.result["lines"]] == ["kernel log", "journal of nvidia-fabricmanager"]


def test_returns_as_many_lines_as_asked_for(run_module: RunModule, host: FakeHost) -> None:
    host.commands["journalctl"] = "\n".join(f"{NVRM} at {letter}" for letter in "abcdefgh")
    done = run_module("host_evidence_info", max_lines=3)
    assert len([line for line in done.result["lines"] if line["kind"] == "kernel"]) == 3


def test_refuses_a_limit_below_one(run_module: RunModule) -> None:
    failed = run_module("host_evidence_info", timeout=0)
    assert (failed.rc, failed.result["msg"]) == (1, "timeout is 0: give 1 or more.")


# ---- healthy hosts ------------------------------------------------------------------------------------------------

DRIVER = "580.95.05"
BOOT = f"""\
2026-11-20T04:00:00+00:00 kernel: nvidia: loading out-of-tree module taints kernel.
2026-11-20T04:00:00+00:00 kernel: nvidia: module verification failed: signature and/or required key missing
2026-11-20T04:00:01+00:00 kernel: nvidia-nvlink: Nvlink Core is being initialized, major device number 235
2026-11-20T04:00:01+00:00 kernel: NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build
2026-11-20T04:00:02+00:00 kernel: pcieport 0000:17:00.0: AER: enabled with IRQ 41
2026-11-20T04:00:02+00:00 kernel: mlx5_core 0000:1a:00.0: firmware version: 28.39.1002
"""
PACKAGES = {
    "ubuntu": ("dpkg_query", "{name}\t{version}-0ubuntu1\tinstalled\tUbuntu Core Developers\n"),
    "rocky": ("rpm", "{name}\t(none):{version}-1.el9\tinstalled\t(none)\n"),
}
RUNNING = "Id={unit}\nLoadState=loaded\nActiveState=active\nSubState=running\nNRestarts=0\nUnitFileState=enabled\n\n"
TOOLKIT = "/etc/containerd/conf.d/99-nvidia.toml"


def healthy(root: Path, model: Model, system: str) -> FakeHost:
    """Return a host with all that its GPUs need. The journal answers newest first."""
    plant(root, model)
    installed = {"nvidia-persistenced": DRIVER, "containerd.io": "2.1.4"}
    units = ["containerd.service", "kubelet.service", "nvidia-persistenced.service"]
    if model.switch or model.links == 18:
        installed.update({"nvidia-fabricmanager": DRIVER, "nvlsm": "2025.06.11"})
        units += ["nvidia-fabricmanager.service", "nvlsm.service"]
    command, row = PACKAGES[system]
    packages = "".join(row.format(name=name, version=version) for name, version in installed.items())

    def read(command: list[str]) -> str:
        return "\n".join(reversed(BOOT.splitlines())) if "--dmesg" in command else ""

    shown = "".join(RUNNING.format(unit=unit) for unit in units)
    commands: dict[str, t.Any] = {command: packages, "dkms": "", "mokutil": ""}
    host = FakeHost(root, systemctl=shown, journalctl=read, **commands)
    for bus in BUSES:
        host.put(f"/proc/driver/nvidia/gpus/0000:{bus:02x}:00.0/information", "")
    host.put("/etc/containerd/config.toml", recorded("runtimes/containerd-2.1-main.toml"))
    host.put(TOOLKIT, recorded("runtimes/containerd-2.1-99-nvidia.toml"))
    host.put("/var/lib/kubelet/config.yaml", "cgroupDriver: systemd\n")
    host.put("/proc/1/stat", "1 (systemd) S 0 1 1 0 -1 4194560 0 0 0\n")
    return host


@pytest.mark.parametrize("system", list(PACKAGES))
@pytest.mark.parametrize("model", list(MODELS))
def test_a_healthy_host_of_each_model_gives_no_finding(
    model: str, system: str, run_module: RunModule, tmp_path: Path, nvml: SetNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = healthy(tmp_path, MODELS[model], system)
    nvml(machine(MODELS[model]))
    monkeypatch.setattr(host_evidence_info, "Host", lambda timeout_s: host)
    facts = gather.gather(host, ["all"], 10)
    result = run_module("host_evidence_info").result
    assert len(facts["gpus"]) == 8 and all(gpu["uuid"] for gpu in facts["gpus"])
    assert len(result["lines"]) == len(BOOT.splitlines())
    lines = [TextLine(**{**line, "node": "gpu-1"}) for line in result["lines"]]
    hosts = {"gpu-1": {"facts": facts, "preflight": [], "state": result["state"]}}
    diagnosis = diagnose(Evidence(hosts=hosts, lines=lines), all_rules.RULES)
    assert ([finding.code for finding in diagnosis.findings], diagnosis.gaps) == ([], [])


def test_the_same_host_with_a_fault_gives_one(
    run_module: RunModule, tmp_path: Path, nvml: SetNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = healthy(tmp_path, MODELS["h100"], "ubuntu")
    nvml(machine(MODELS["h100"]))
    monkeypatch.setattr(host_evidence_info, "Host", lambda timeout_s: host)
    Path(host.path(TOOLKIT)).rename(host.path("/etc/containerd/99-nvidia.toml"))
    host.put("/etc/containerd/config.d/99-nvidia.toml", recorded("runtimes/containerd-2.1-99-nvidia.toml"))
    facts, result = gather.gather(host, ["all"], 10), run_module("host_evidence_info").result
    hosts = {"gpu-1": {"facts": facts, "preflight": [], "state": result["state"]}}
    found = diagnose(Evidence(hosts=hosts), all_rules.RULES).findings
    assert [finding.code for finding in found] == ["RuntimeConfigNotImported"]
