# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects with managedFields."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

STATUS = {
    "manager": "operator",
    "operation": "Update",
    "subresource": "status",
    "fieldsV1": {"f:status": {"f:state": {}}},
}


def entry(manager: str, fields: Json, operation: str = "Apply", metadata: Json | None = None) -> Json:
    """Return what a manager owns of the spec, and of the metadata."""
    own = {"f:metadata": metadata} if metadata else {}
    return {"manager": manager, "operation": operation, "fieldsV1": {**own, "f:spec": fields}}


def item(spec: Json, *entries: Json, **metadata: t.Any) -> Json:
    """Return a ClusterPolicy with these entries, and with that of its status."""
    return {"metadata": {"name": "cluster-policy", "managedFields": [*entries, STATUS], **metadata}, "spec": spec}
