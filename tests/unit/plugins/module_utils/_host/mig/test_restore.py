# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig import mig_request, plan, restore
from inline_snapshot import snapshot as wording

import lab.nvml.smi
from lab.nvml import A100, machine, read, reboot
from lab.nvml import H100 as MODEL
from tests.unit.fakes.mig_host import H100, MigHost, entry, gpu

SetNvml = t.Callable[..., None]
FIRST, SECOND = (f"GPU-23300000-0000-4000-8000-00000000000{index}" for index in range(2))

# Two tables of an A100 40 GB, from a published walk-through in Korean ("MIG", ssup2.github.io).
GPU_INSTANCES = """\
+---------------------------------------------------------+
| GPU instances:                                          |
| GPU   Name               Profile  Instance   Placement  |
|                            ID       ID       Start:Size |
|=========================================================|
|   0  MIG 1g.5gb            19        9          6:1     |
+---------------------------------------------------------+
|   0  MIG 2g.10gb           14        3          4:2     |
+---------------------------------------------------------+
|   0  MIG 4g.20gb            5        2          0:4     |
+---------------------------------------------------------+
"""
COMPUTE_INSTANCES = """\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      9       MIG 1g.5gb           0         0          0:1     |
+--------------------------------------------------------------------+
|   0      3       MIG 1c.2g.10gb       0         0          0:1     |
+--------------------------------------------------------------------+
|   0      3       MIG 1c.2g.10gb       0         1          1:1     |
+--------------------------------------------------------------------+
|   0      2       MIG 4g.20gb          3         0          0:4     |
+--------------------------------------------------------------------+
"""


@dataclasses.dataclass
class Machine:
    """A folder with the programs that the script runs, and the state of the simulated GPUs."""

    folder: Path
    state: Path

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def restore(self, lines: restore.Lines) -> subprocess.CompletedProcess[str]:
        script = self.folder / "restore.sh"
        script.write_text(restore.script(lines))
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "LD_LIBRARY_PATH": str(self.folder),
        }
        return subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def simulated(tmp_path: Path, nvml: SetNvml, nvml_library: Path) -> Machine:
    """A machine with two H100, whose nvidia-smi is the stand-in."""
    nvml(machine(MODEL, 2))
    machine_ = Machine(tmp_path, tmp_path / "nvml.state")
    shutil.copy(nvml_library, tmp_path / "libnvidia-ml.so.1")
    smi = Path(lab.nvml.smi.__file__).read_text()
    machine_.program(
        "nvidia-smi",
        smi.replace("#!/usr/bin/env python3", f"#!{sys.executable}").replace('"/usr/bin/nvidia-smi"', '"/bin/true"'),
    )
    return machine_


def test_a_layout_comes_back_after_a_reboot_and_stays_if_it_is_there(simulated: Machine) -> None:
    lines = {FIRST: "3g.40gb:4/2c.3g.40gb,1c.3g.40gb 1g.10gb:0 1g.10gb+me:1", SECOND: ""}
    for dummy in range(2):
        done = simulated.restore(lines)
        assert (done.returncode, done.stderr) == (0, "")
        first, second = read(simulated.state)
        assert len(first.instances) == 3 and second.keys["mig"] == "1" and second.instances == []
        before = simulated.state.read_text()
        assert simulated.restore(lines).returncode == 0
        assert simulated.state.read_text() == before
        reboot(simulated.state)
        assert read(simulated.state)[0].keys["mig"] in (0, "0")


def test_compute_instances_come_back_to_where_all_of_them_fit(simulated: Machine) -> None:
    existing = gpu(H100)
    wish = mig_request.read([entry(instances={"3c.7g.80gb": 1, "2c.7g.80gb": 2})], [existing])[0]
    words = restore.line(plan.targets(existing, wish))
    assert words == "7g.80gb:0/2c.7g.80gb,2c.7g.80gb,3c.7g.80gb"
    done = simulated.restore({FIRST: words})
    assert (done.returncode, done.stderr) == (0, "")
    assert len(read(simulated.state)[0].instances[0].compute or []) == 3


def test_what_is_in_the_way_is_named_and_stays(simulated: Machine) -> None:
    simulated.restore({FIRST: "1g.10gb:0 1g.10gb:6"})
    before = simulated.state.read_text()
    failed = simulated.restore({FIRST: "3g.40gb:4", SECOND: "7g.80gb:0"})
    assert failed.returncode == 1
    assert failed.stderr == (f"gpuops-mig-partition: {FIRST} has the GPU instance 1g.10gb:0, which the layout lacks\n")
    first, second = read(simulated.state)
    assert len(first.instances) == 2 and len(second.instances) == 1
    assert before != simulated.state.read_text()
    other = simulated.restore({FIRST: "1g.10gb:0/none 1g.10gb:6"})
    assert "1g.10gb:0 of " in other.stderr and "instead of none" in other.stderr


def test_a_mode_that_waits_and_a_gpu_that_is_gone_are_failures(simulated: Machine, nvml: SetNvml) -> None:
    nvml(machine(A100, 1, mig_reset_required=1))
    name = "GPU-20b20000-0000-4000-8000-000000000000"
    failed = simulated.restore({name: "3g.40gb:0", "GPU-gone": "1g.10gb:0"})
    assert failed.returncode == 1
    assert f"MIG mode of {name} cannot be turned on: Warning: MIG mode is in pending enable state" in failed.stderr
    assert "MIG mode of GPU-gone cannot be turned on" in failed.stderr


def test_the_tables_of_a_real_driver_are_understood(tmp_path: Path) -> None:
    """The stand-in fails if anything is to be created."""
    real = Machine(tmp_path, tmp_path)
    answers = {"lgi": GPU_INSTANCES, "lci": COMPUTE_INSTANCES}
    for name, text in answers.items():
        (tmp_path / name).write_text(text)
    real.program(
        "nvidia-smi",
        '#!/bin/sh\ncase "$*" in *-lgi) cat "$HOME/lgi" ;; *-lci) cat "$HOME/lci" ;; *query*) echo Enabled ;; -L) ;; '
        '*) echo "$*"; exit 9 ;; esac\n'.replace("$HOME", str(tmp_path)),
    )
    there = "4g.20gb:0 2g.10gb:4/1c.2g.10gb,1c.2g.10gb 1g.5gb:6"
    done = real.restore({"GPU-1": there})
    assert (done.returncode, done.stderr) == (0, "")
    more = real.restore({"GPU-1": f"{there} 1g.5gb:5"})
    assert "the GPU instances 1g.5gb:5 of GPU-1 cannot be created: mig -i GPU-1 -cgi 1g.5gb:5" in more.stderr
    plain = real.restore({"GPU-1": there.replace("/1c.2g.10gb,1c.2g.10gb", "")})
    assert "has the compute instances 1c.2g.10gb,1c.2g.10gb instead of 2g.10gb" in plain.stderr


def test_the_lines_say_what_is_more_than_profile_and_place() -> None:
    existing = gpu(H100, mode=False)
    counts = {"1c.3g.40gb": 2, "1g.10gb": 1}
    targets = plan.targets(existing, mig_request.read([entry(instances=counts)], [existing])[0])
    assert restore.line(targets) == "3g.40gb:0/1c.3g.40gb,1c.3g.40gb 1g.10gb:4"
    assert restore.line([dataclasses.replace(targets[1], shape=())]) == "1g.10gb:4/none"


def test_the_unit_is_written_once_and_removed(tmp_path: Path) -> None:
    host = MigHost(tmp_path, MODEL, 1)
    wanted = restore.unit(host, {"GPU-1": "1g.10gb:0", "GPU-0": ""})
    assert wanted.differs and wanted.diff()["before"] == ""
    wanted.write()
    wanted.prove()
    assert host.called() == [
        "daemon-reload",
        "enable gpuops-mig-partition.service",
        "restart gpuops-mig-partition.service",
    ]
    assert restore.read(host) == {"GPU-0": "", "GPU-1": "1g.10gb:0"}
    assert not restore.unit(host, restore.read(host)).differs
    nothing = restore.unit(host, {})
    assert nothing.differs
    nothing.write()
    nothing.prove()
    assert host.called() == ["disable gpuops-mig-partition.service", "daemon-reload"]
    assert not host.exists(restore.UNIT) and not host.exists(restore.SCRIPT)
    assert not restore.unit(host, {}).differs


def test_a_systemd_that_refuses_is_one_message(tmp_path: Path) -> None:
    host = MigHost(tmp_path, MODEL, 1)
    host.broken = "gpuops-mig-partition: the driver does not answer"
    wanted = restore.unit(host, {"GPU-1": ""})
    wanted.write()
    with pytest.raises(GpuOpsError) as error:
        wanted.prove()
    assert error.value.reason == "Unsupported"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The layout is on the GPUs, but gpuops-mig-partition.service cannot restore it at boot: gpuops-mig-partition: the driver does not answer. Run the task again with persistent=false to do without it."
    )
    del host.commands["systemctl"]
    with pytest.raises(GpuOpsError) as error:
        wanted.write()
    assert error.value.reason == "Unsupported"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The unit that restores the MIG layout cannot be set up: systemctl is not installed. Run systemctl daemon-reload on the host to see why, or set persistent to false."
    )


def test_the_unit_runs_after_the_driver_and_before_what_uses_gpus() -> None:
    ordered = dict(line.split("=", 1) for line in restore.UNIT_TEXT.splitlines() if "=" in line)
    assert {"kubelet.service", "containerd.service", "docker.service"} <= set(ordered["Before"].split())
    assert {"nvidia-persistenced.service", "nvidia-fabricmanager.service"} <= set(ordered["After"].split())
