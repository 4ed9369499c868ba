# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit import toolkit_options
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

DEFAULTS = {name: option.get("default") for name, option in toolkit_options._PACE.options.items()}


def test_a_module_that_changes_nothing_loads_no_rollout() -> None:
    code = (
        "import sys; from ansible_collections.gpuops.nvidia.plugins.modules import clusterpolicy; print(*sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(sys.prefix) / "share")}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in run.stdout.split()}
    assert "toolkit_options" in loaded and not loaded & {"toolkit_rollout", "held_nodes", "fleet", "pacing"}


@pytest.mark.parametrize("given", [{"waves": ["some"]}, {"timeout": 0}])
def test_options_that_cannot_be_meant_are_refused_before_anything_is_read(given: dict[str, t.Any]) -> None:
    options = {"toolkit_rollout": {**DEFAULTS, **given}, "progress_path": None}
    with pytest.raises(GpuOpsError):
        toolkit_options.stage_of(options)
    assert toolkit_options.stage_of({**options, "toolkit_rollout": DEFAULTS})
