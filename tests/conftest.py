# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every test may ask for: the labs, and the hosts."""

from __future__ import annotations

from tests.hosts.fixtures import container_host, container_hosts, vm_host
from tests.lab.fixtures import deployed_lab, fresh_lab, lab

__all__ = ["container_host", "container_hosts", "deployed_lab", "fresh_lab", "lab", "vm_host"]
