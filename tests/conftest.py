# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every test may ask for: the labs, and the hosts. And which files run beside each other."""

from __future__ import annotations

import typing as t

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.support.hosts import container_host, container_hosts, vm_host
from tests.support.labs import deployed_lab, fresh_lab, lab

__all__ = ["container_host", "container_hosts", "deployed_lab", "fresh_lab", "lab", "vm_host"]


class Beside(LoadFileScheduling):
    """A file of hosts beside one of labs, as long as there are both: the ones keep every processor busy, and the others wait much."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        others = {
            _has_hosts(next(reversed(files)))
            for other, files in self.assigned_work.items()
            if other is not node and files
        }
        chosen = next((file for file in self.workqueue if _has_hosts(file) not in others), None)
        if chosen:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def _has_hosts(file: str) -> bool:
    return file.startswith(("tests/roles/", "tests/lab/hosts/"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> t.Any:
    return Beside(config, log)
