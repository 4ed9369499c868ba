# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run every target in targets/, each an Ansible role that tests one module, role or playbook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ansible import Playbook

HERE = Path(__file__).parent
TARGETS = sorted(folder.name for folder in (HERE / "targets").iterdir() if not folder.name.startswith("setup_"))


@pytest.mark.parametrize("target", TARGETS)
def test_target(target: str, ansible: Playbook) -> None:
    run = ansible.run(HERE / "run_target.yml", target=target)
    assert run.status == 0, run.output
    assert "Traceback" not in run.output, run.output
