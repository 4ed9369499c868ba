# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Apply a chart's CustomResourceDefinitions, and summarize what changes in their schemas."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import manifests, nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import Helm, local_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CRD_API = "apiextensions.k8s.io/v1"
CHANGES_SHOWN = 20
CRD_POLL_S = 0.2
SERVED_S = 60
"""How long to wait for the API server to serve the CRDs, unless the user says."""

_INNER = ("properties", "items", "additionalProperties")
"""The parts of a schema that contain further schemas."""


@dataclasses.dataclass(frozen=True)
class Applied:
    """The result for one CRD."""

    name: str
    result: t.Literal["created", "updated", "unchanged", "skipped"]
    reason: str = ""
    changes: tuple[str, ...] = ()
    crd: Json = dataclasses.field(default_factory=dict, compare=False)
    """The CRD as it is now, or as it would be in check mode. Empty if it was skipped."""

    @property
    def changed(self) -> bool:
        """Whether the cluster's CRD has changed."""
        return self.result in ("created", "updated")


def apply_chart(helm: Helm, cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Render a chart and apply its CRDs; return the module's result."""
    return apply_rendered(render(helm, cluster, options), cluster, options)


def render(helm: Helm, cluster: Cluster, options: t.Mapping[str, t.Any]) -> manifests.Rendered:
    """Render a chart for the cluster: charts refuse to be rendered for one that does not serve what they need."""
    return manifests.parse_manifests(
        helm.render(local_chart(options["chart_path"]), Served(cluster).for_chart(options))
    )


def apply_rendered(rendered: manifests.Rendered, cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Apply the CRDs of a rendered chart; return the module's result."""
    release, namespace = options["release_name"], options["release_namespace"]
    applied = apply_crds(cluster, rendered.crds, release, namespace, options["wait_timeout"])
    return {
        "changed": any(crd.changed for crd in applied),
        "crds": [_described(item) for item in applied],
        **({"clusterpolicy_schema": _policy_schema(applied)} if cluster.check_mode else {}),
        "diff": {"before": "", "after": "".join(map(_diff, applied))},
    }


def _described(applied: Applied) -> Json:
    return {key: getattr(applied, key) for key in ("name", "result", "reason", "changes")}


def _policy_schema(applied: t.Iterable[Applied]) -> Json:
    """Return the schema of a ClusterPolicy with the chart's CRD, or an empty dict if the chart has none."""
    crd = next((item.crd for item in applied if item.name == names.CLUSTERPOLICY_CRD), {})
    versions = (crd.get("spec") or {}).get("versions") or []
    schema: Json = versions[0]["schema"]["openAPIV3Schema"] if versions else {}
    return schema


def _diff(crd: Applied) -> str:
    """Return the lines of a diff for a CRD: the fields that appear, vanish or change. Empty without such CRDs."""
    lines = [f"{crd.name} ({crd.result})", *(f"  {change}" for change in crd.changes)] if crd.changed else []
    return "".join(f"{line}\n" for line in lines)


def apply_crds(
    cluster: Cluster, crds: t.Mapping[str, str], release: str, namespace: str, timeout_s: float
) -> list[Applied]:
    """Apply each CRD (name to YAML text), and wait until the API server serves them all."""
    existing = {name: cluster.get(_path(name)) for name in sorted(crds)}
    foreign = _foreign_nfd(cluster, existing, release, namespace)
    applied, pending = [], []
    for name, before in existing.items():
        if before is not None and foreign and name.endswith(nfd.API_GROUP):
            applied.append(Applied(name, "skipped", f"It belongs to the Node Feature Discovery of {foreign}."))
            continue
        after = cluster.apply(_path(name), crds[name], force=True)
        applied.append(_compare(name, before, after))
        if not established(after):
            pending.append(name)
    if not cluster.check_mode:
        _wait(cluster, pending, timeout_s)
    return applied


def _compare(name: str, before: Json | None, after: Json) -> Applied:
    if before is None:
        return Applied(name, "created", crd=after)
    changes = tuple(summarize(before, after))
    return Applied(name, "updated" if changes else "unchanged", changes=changes, crd=after)


def _path(name: str) -> str:
    return namespaced(CRD_API, None, "customresourcedefinitions", name)


def _foreign_nfd(cluster: Cluster, existing: t.Mapping[str, Json | None], release: str, namespace: str) -> str:
    """Return the workers of a Node Feature Discovery that does not belong to our release, or an empty string."""
    if not any(crd for name, crd in existing.items() if name.endswith(nfd.API_GROUP)):
        return ""
    workers = nfd.installations(cluster.list(namespaced("apps/v1", None, "daemonsets")) or [])
    return ", ".join(str(worker) for worker in workers if not worker.belongs_to(release, namespace))


def established(crd: Json) -> bool:
    """Return whether the API server serves the CRD."""
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def _wait(cluster: Cluster, unserved: t.Iterable[str], timeout_s: float) -> None:
    pending = list(unserved)

    def look() -> bool | None:
        pending[:] = [name for name in pending if not established(cluster.get(_path(name)) or {})]
        return None if pending else True

    if not waiting.until(look, timeout_s, poll_s=CRD_POLL_S):
        raise GpuOpsError(
            f"The API server does not serve these CRDs after {timeout_s:.0f} s: {', '.join(pending)}. "
            "Look at their conditions with kubectl describe crd. The usual cause is a name that another CRD uses.",
            reason="TimedOut",
        )


def summarize(before: Json, after: Json) -> list[str]:
    """Return the fields that appear (+), vanish (-) or change (~) between two states of a CRD.

    There are at most `CHANGES_SHOWN` lines.
    """
    old, new = _flatten(before), _flatten(after)
    lines = [f"+ {key}" for key in _topmost(key for key in new if key not in old)]
    lines += [f"- {key}" for key in _topmost(key for key in old if key not in new)]
    lines += [f"~ {key}" for key, value in new.items() if old.get(key, value) != value]
    if len(lines) > CHANGES_SHOWN:
        lines[CHANGES_SHOWN - 1 :] = [f"and {len(lines) - CHANGES_SHOWN + 1} more"]
    return lines


def _topmost(keys: t.Iterable[str]) -> t.Iterator[str]:
    """Yield the keys, except those inside a field that was yielded before."""
    last = None
    for key in keys:
        if last is None or not key.startswith((f"{last}.", f"{last}[", f"{last}{{")):
            last = key
            yield key


def _flatten(crd: Json) -> dict[str, str]:
    """Return a CRD as comparable texts: one for each schema field and version, and one for each other setting."""
    flat = {}
    for kind in ("labels", "annotations"):
        flat.update({f"{kind} {key}": value for key, value in (crd["metadata"].get(kind) or {}).items()})
    for version in crd["spec"]["versions"]:
        flat.update(_flatten_version(version))
    flat["spec"] = _text(crd["spec"], without=("versions",))
    return flat


def _flatten_version(version: Json) -> dict[str, str]:
    name, schema = version["name"], (version.get("schema") or {}).get("openAPIV3Schema") or {}
    fields = {f"{name} {path}": value for path, value in _fields(schema, "")}
    return {name: _text(version, without=("schema", "name")), **fields}


def _fields(schema: Json, path: str) -> t.Iterator[tuple[str, str]]:
    yield path or "(root)", _text(schema, without=_INNER)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _fields(inner, f"{path}.{name}" if path else name)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], path + mark)


def _text(value: Json, without: tuple[str, ...]) -> str:
    return json.dumps({key: inner for key, inner in value.items() if key not in without}, sort_keys=True)
