# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The example for Slurm: which files it writes, with the variables that slurmd gives to a Prolog and an Epilog.

Source of the variables: ``prolog_epilog.html`` in Debian's package slurm-wlm-doc (22.05.8).
"""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples/slurm/gpu_jobs.sh"


def start(folder: Path, context: str, job: str, gpus: str) -> subprocess.Popen[str]:
    # Slurm gives its programs no search path.
    env = {"GPU_JOBS_FOLDER": str(folder), "SLURM_JOB_ID": job, "SLURM_SCRIPT_CONTEXT": context}
    pipe = subprocess.PIPE
    return subprocess.Popen([SCRIPT], env={**env, "SLURM_JOB_GPUS": gpus}, stdout=pipe, stderr=pipe, text=True)


def run(folder: Path, context: str, job: str, gpus: str = "0") -> None:
    done = start(folder, context, job, gpus)
    assert done.communicate() == ("", "") and done.returncode == 0


def jobs(folder: Path) -> dict[str, list[str]]:
    """Return the jobs of each GPU, read as the exporter does: it lists the folder, and opens what has a GPU's name."""
    names = [path.name for path in folder.iterdir() if re.fullmatch(r"\d+(\.\d+)?", path.name)]
    return {name: (folder / name).read_text().splitlines() for name in names}


def test_jobs_come_and_go_and_files_stay(tmp_path: Path) -> None:
    run(tmp_path, "prolog_slurmd", "47", "0,1")
    run(tmp_path, "prolog_slurmd", "471", "1")
    run(tmp_path, "prolog_slurmd", "471", "1")
    assert jobs(tmp_path) == {"0": ["47"], "1": ["47", "471"]}
    run(tmp_path, "epilog_slurmd", "47", "0,1")
    assert jobs(tmp_path) == {"0": [], "1": ["471"]}
    run(tmp_path, "epilog_slurmd", "471", "1")
    assert jobs(tmp_path) == {"0": [], "1": []}


@pytest.mark.parametrize("gpus", ["", "0"])
def test_a_job_without_gpus_and_a_node_without_the_folder_are_no_failure(tmp_path: Path, gpus: str) -> None:
    run(tmp_path if not gpus else tmp_path / "none", "prolog_slurmd", "47", gpus)
    assert jobs(tmp_path) == {}


def test_a_scrape_never_misses_a_file_while_jobs_begin_and_end_at_once(tmp_path: Path) -> None:
    run(tmp_path, "prolog_slurmd", "1")
    faults: list[BaseException] = []
    is_over = threading.Event()

    def scrape() -> None:
        while not is_over.is_set():
            try:
                assert "1" in jobs(tmp_path)["0"]
            except BaseException as e:
                faults.append(e)
                return

    reader = threading.Thread(target=scrape)
    reader.start()
    for context in ("prolog_slurmd", "epilog_slurmd"):
        for program in [start(tmp_path, context, str(job), "0") for job in range(100, 108)]:
            assert program.communicate() == ("", "")
    is_over.set()
    reader.join()
    assert faults == [] and jobs(tmp_path) == {"0": ["1"]}
