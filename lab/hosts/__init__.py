# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated GPU hosts that roles can change: systemd containers and virtual machines with simulated NVIDIA hardware."""

from __future__ import annotations

from lab.errors import LabError, UnavailableError
from lab.hosts.containers.hosts import ContainerHosts, Machine
from lab.hosts.vm.hosts import VmHost

__all__ = ["ContainerHosts", "LabError", "Machine", "UnavailableError", "VmHost"]
