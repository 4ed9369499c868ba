# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Applying a chart's CustomResourceDefinitions, and saying in a few words what that changes in their schemas."""

from __future__ import annotations

import dataclasses
import json
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

GROUP_VERSION = "apiextensions.k8s.io/v1"
MOST_CHANGES = 20
POLL_S = 0.2


@dataclasses.dataclass(frozen=True)
class Applied:
    """What became of one CRD."""

    name: str
    result: t.Literal["created", "updated", "unchanged", "skipped"]
    reason: str = ""
    changes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the cluster's CRD differs from before."""
        return self.result in ("created", "updated")


def apply_crds(
    cluster: Cluster, crds: t.Mapping[str, str], release: str, namespace: str, timeout_s: float
) -> list[Applied]:
    """Apply each CRD (name to YAML text) and wait until the API server serves them all."""
    existing = {name: cluster.get(_path(name)) for name in sorted(crds)}
    foreign = _foreign_nfd(cluster, existing, release, namespace)
    outcome, waiting = [], []
    for name, before in existing.items():
        if before is not None and foreign and name.endswith(nfd.API_GROUP):
            outcome.append(Applied(name, "skipped", f"It belongs to the Node Feature Discovery of {foreign}."))
            continue
        after = cluster.apply(_path(name), crds[name], force=True)
        changes = () if before is None else tuple(summarize(before, after))
        outcome.append(
            Applied(name, "created" if before is None else "updated" if changes else "unchanged", changes=changes)
        )
        if not established(after):
            waiting.append(name)
    if not cluster.check_mode:
        _wait(cluster, waiting, timeout_s)
    return outcome


def _path(name: str) -> str:
    return namespaced(GROUP_VERSION, None, "customresourcedefinitions", name)


def _foreign_nfd(cluster: Cluster, existing: t.Mapping[str, Json | None], release: str, namespace: str) -> str:
    """Return the workers of a Node Feature Discovery that is not our release's, or an empty string."""
    if not any(crd for name, crd in existing.items() if name.endswith(nfd.API_GROUP)):
        return ""
    workers = nfd.installations(cluster.list(namespaced("apps/v1", None, "daemonsets")) or [])
    return ", ".join(str(worker) for worker in workers if not worker.belongs_to(release, namespace))


def established(crd: Json) -> bool:
    """Whether the API server serves the CRD."""
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def _wait(cluster: Cluster, names: list[str], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while names:
        names = [name for name in names if not established(cluster.get(_path(name)) or {})]
        if names and time.monotonic() > deadline:
            raise GpuOpsError(
                f"The API server does not serve these CRDs after {timeout_s:.0f} s: {', '.join(names)}. "
                "Look at their conditions with kubectl describe crd; a name that another CRD uses is the usual cause.",
                reason="TimedOut",
            )
        if names:
            time.sleep(POLL_S)


def summarize(before: Json, after: Json) -> list[str]:
    """Return the fields that appear (+), vanish (-) or change (~) from one state of a CRD to the next, at most `MOST_CHANGES`."""
    old, new = _facts(before), _facts(after)
    lines = [f"+ {key}" for key in _topmost(key for key in new if key not in old)]
    lines += [f"- {key}" for key in _topmost(key for key in old if key not in new)]
    lines += [f"~ {key}" for key in new if key in old and old[key] != new[key]]
    if len(lines) > MOST_CHANGES:
        lines[MOST_CHANGES - 1 :] = [f"and {len(lines) - MOST_CHANGES + 1} more"]
    return lines


def _topmost(keys: t.Iterable[str]) -> t.Iterator[str]:
    """Leave out what lies inside a field that was named before it."""
    last = None
    for key in keys:
        if last is None or not key.startswith((f"{last}.", f"{last}[", f"{last}{{")):
            last = key
            yield key


_INNER = ("properties", "items", "additionalProperties")


def _facts(crd: Json) -> dict[str, str]:
    """Flatten a CRD to comparable facts: one per schema field and version, and one per other setting."""
    facts = {}
    for kind in ("labels", "annotations"):
        facts.update({f"{kind} {key}": value for key, value in (crd["metadata"].get(kind) or {}).items()})
    for version in crd["spec"]["versions"]:
        name = version["name"]
        facts[name] = _text({key: value for key, value in version.items() if key not in ("schema", "name")})
        facts.update(
            {
                f"{name} {path}": value
                for path, value in _fields((version.get("schema") or {}).get("openAPIV3Schema") or {}, "")
            }
        )
    facts["spec"] = _text({key: value for key, value in crd["spec"].items() if key != "versions"})
    return facts


def _fields(schema: Json, path: str) -> t.Iterator[tuple[str, str]]:
    yield path or "(root)", _text({key: value for key, value in schema.items() if key not in _INNER})
    for name, inner in (schema.get("properties") or {}).items():
        yield from _fields(inner, f"{path}.{name}" if path else name)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], path + mark)


def _text(value: t.Any) -> str:
    return json.dumps(value, sort_keys=True)
