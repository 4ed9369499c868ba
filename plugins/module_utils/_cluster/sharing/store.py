# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The ConfigMap with the device plugin's configurations, in the operator's namespace.

Its keys carry a digest of their text, so a key is ours if its text has that digest. All others are left alone. No key
is removed while a node may still use it: config-manager's link to it would then lead nowhere, and config-manager would
fail at its next change with "file exists" until its pod is deleted (``updateSymlink`` in ``cmd/config-manager``).
What is removed is removed from the version that was read, so a change by somebody else in between is refused.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.config import Configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MANAGED_BY = {"app.kubernetes.io/managed-by": "gpuops.nvidia"}


class Store:
    """One ConfigMap, as it was read and as it becomes."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster, self.namespace, self.name = cluster, namespace, name
        self._path = namespaced("v1", namespace, "configmaps", name)
        self.read()

    def read(self) -> None:
        """Read the ConfigMap."""
        self._found = self._cluster.get(self._path)
        self.texts: dict[str, str] = dict((self._found or {}).get("data") or {})

    @property
    def _version(self) -> str | None:
        return ((self._found or {}).get("metadata") or {}).get("resourceVersion")

    @property
    def is_ours(self) -> bool:
        """Whether this collection has made the ConfigMap."""
        return self._found is None or labels_of(self._found).items() >= MANAGED_BY.items()

    @property
    def keys(self) -> list[str]:
        """The keys that this collection has published."""
        return [key for key, text in self.texts.items() if config.is_ours(key, text)]

    def unpublished(self, configurations: t.Iterable[Configuration]) -> dict[str, str]:
        """Return the texts of the configurations that the ConfigMap lacks, by key."""
        return {each.key: each.text for each in configurations if each.key not in self.texts}

    def publish(self, texts: t.Mapping[str, str]) -> None:
        """Add keys."""
        if not texts:
            return
        if self._found is None:
            metadata = {"name": self.name, "namespace": self.namespace, "labels": dict(MANAGED_BY)}
            body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(texts)}
            self._found = self._cluster.apply(self._path, body)
        else:
            self._merge(dict(texts))
        self.texts |= texts

    def prune(self, keys: t.Collection[str]) -> None:
        """Remove keys from the ConfigMap as it was read. Reason Conflict means that it has changed since."""
        if keys:
            self._merge(dict.fromkeys(keys), self._version)
            self.texts = {key: text for key, text in self.texts.items() if key not in keys}

    def delete(self) -> None:
        """Delete the ConfigMap as it was read. Reason Conflict means that it has changed since."""
        self._cluster.delete(self._path, resourceVersion=self._version)
        self._found, self.texts = None, {}

    def _merge(self, data: Json, version: str | None = None) -> None:
        metadata = {"resourceVersion": version} if version else {}
        try:
            self._found = self._cluster.merge(self._path, {"metadata": metadata, "data": data})
        except GpuOpsError as e:
            if e.reason != "Invalid":
                raise
            raise GpuOpsError(
                f"The ConfigMap {self.namespace}/{self.name} cannot be changed: {e.msg} Delete it if it is immutable, "
                "or name another one in config_map.",
                reason="Invalid",
            ) from e
