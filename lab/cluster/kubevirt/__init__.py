# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeVirt on a lab: its kinds, a KubeVirt that says it is deployed, and nodes that offer GPUs to machines."""

from lab.cluster.kubevirt.deployment import deploy, offer, remove

__all__ = ["deploy", "offer", "remove"]
