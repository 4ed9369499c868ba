# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Helm's own records of a release: which revision is deployed, what it contains, and which one locks the release."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import METADATA_ONLY, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import manifests
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")


@dataclasses.dataclass(frozen=True)
class Revision:
    """One revision of a release, as far as the labels of its record say."""

    secret: str
    number: int
    status: str
    written: float
    """When the record was last written, in seconds since the epoch by the API server's clock."""

    @property
    def is_pending(self) -> bool:
        """Whether an operation of Helm has begun and not ended. Helm then refuses every other operation."""
        return self.status.startswith("pending-")


@dataclasses.dataclass(frozen=True)
class Content:
    """What Helm installed with a revision."""

    app_version: str
    objects: list[Json]
    chart_name: str = ""
    chart_version: str = ""
    values: Json = dataclasses.field(default_factory=dict)
    """The values that the user gave, secrets included."""


def revisions(cluster: Cluster, release: str, namespace: str) -> list[Revision]:
    """Return the revisions of a release, the newest first. Empty if it is not installed."""
    query = {"labelSelector": f"owner=helm,name={release}"}
    answer = cluster.ask("GET", _path(namespace), query, accept=METADATA_ONLY)
    found = map(_revision, answer.get("items") or [])
    return sorted(found, key=lambda revision: revision.number, reverse=True)


def _path(namespace: str, name: str = "") -> str:
    return namespaced("v1", namespace, "secrets", name)


def _revision(secret: Json) -> Revision:
    labels = objects.labels_of(secret)
    created = objects.timestamp(secret["metadata"].get("creationTimestamp"))
    return Revision(
        secret=objects.name_of(secret),
        number=int(labels.get("version", 0)),
        status=labels.get("status", ""),
        written=max(created, float(labels.get("modifiedAt", 0))),
    )


def deployed(cluster: Cluster, found: t.Iterable[Revision], namespace: str) -> Content | None:
    """Return what the newest deployed revision contains, or None if nothing is deployed."""
    newest = next((revision for revision in found if revision.status == "deployed"), None)
    secret = cluster.get(_path(namespace, newest.secret)) if newest else None
    return decode(secret) if secret else None


def is_deployed(found: t.Sequence[Revision], content: Content | None, chart: Json, values: Json) -> bool:
    """Return whether the newest revision is this chart with these values, so that Helm has nothing to do.

    ``content`` is that of the newest deployed revision. A newer one that failed makes Helm try again.
    """
    if content is None or found[0].status != "deployed":
        return False
    wanted = tuple(str(chart.get(key) or "") for key in ("name", "version", "appVersion"))
    return (content.chart_name, content.chart_version, content.app_version) == wanted and content.values == values


def objects_of(cluster: Cluster, found: t.Iterable[Revision], namespace: str) -> list[Json]:
    """Return what revisions contain, all together. A record that is gone meanwhile counts as empty."""
    secrets = [cluster.get(_path(namespace, revision.secret)) for revision in found]
    return [item for secret in secrets if secret for item in decode(secret).objects]


def decode(secret: Json) -> Content:
    """Return the content of a record. Helm encodes it in base64 itself, in addition to the API."""
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        release = json.loads(gzip.decompress(packed))
        rendered = manifests.parse_manifests(release["manifest"])
        chart = release["chart"]["metadata"]
        return Content(
            app_version=str(chart.get("appVersion") or ""),
            objects=rendered.objects,
            chart_name=str(chart.get("name") or ""),
            chart_version=str(chart.get("version") or ""),
            values=release.get("config") or {},
        )
    except (KeyError, ValueError, OSError, EOFError) as e:
        message = f"Cannot read Helm's record {objects.name_of(secret)}: {e}. Compare it with helm history."
        raise GpuOpsError(message, reason="HelmFailed") from e


def remove(cluster: Cluster, revision: Revision, namespace: str) -> None:
    """Delete the record of a revision."""
    cluster.delete(_path(namespace, revision.secret))


def seconds(duration: str) -> float:
    """Return a duration in Helm's notation, for example ``5m0s``, in seconds."""
    parts = _DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        message = f"{duration!r} is not a duration. Write it as Helm does, for example 5m0s."
        raise GpuOpsError(message, reason="Invalid")
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts)
