# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whose the installation is, in the remedies that tell a user to change it. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import installed_by
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import InstalledBy
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Finding
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_CHANGES_IT = re.compile(r"ClusterPolicy|operator_values|operator's values|upgrade_operator\.yml")
"""The words of this collection's own remedies for the installation and its values."""


def verdict(deployments: t.Iterable[Json], policies: t.Iterable[Json]) -> Json:
    """Return the owner of the operator as plain JSON, or an empty object where a user changes it with this collection.

    The objects must still have their marks and managers, which evidence leaves out.
    """
    owner = installed_by.of_operator(deployments)
    if owner is None or (owner.tool == "Helm" and any(map(installed_by.is_applied_here, policies))):
        return {}
    return dataclasses.asdict(owner)


def named(finding: Finding, owner: Json) -> Finding:
    """Return a finding whose remedy names the owner of the installation, if it tells a user to change that."""
    if not owner or not _CHANGES_IT.search(finding.remedy):
        return finding
    said = installed_by.where_to_change(InstalledBy(owner["tool"], owner["name"], owner["proof"]))
    return dataclasses.replace(finding, remedy=f"{finding.remedy} {said}") if said else finding
