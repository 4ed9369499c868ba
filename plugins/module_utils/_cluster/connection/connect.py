# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The connection that options ask for, and what every connection says of itself."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import plain
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


class Connection(t.Protocol):
    """How one Kubernetes API server is reached, and as whom."""

    @property
    def host(self) -> str:
        """The API server's URL."""

    @property
    def pool(self) -> t.Any:
        """The connections of urllib3."""

    def headers(self) -> dict[str, str]:
        """Return the headers of every request, with a token that is valid now."""

    def cluster(self) -> Json:
        """Return the cluster in the words of a kubeconfig, without files."""

    def user(self) -> Json:
        """Return the user in the words of a kubeconfig, without files."""

    def websocket(self, url: str) -> Json:
        """Return the options with which the websocket library connects to a URL."""


def connect(options: Json) -> Connection:
    """Return the connection that these options ask for: the plain one where that is enough."""
    made = plain.connect(options)
    if made is not None:
        return made
    # Importing the client takes a third of a second.
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import client

    return client.connect(options)


def kubeconfig(connection: Connection, context: str) -> Json:
    """Return a kubeconfig that describes a connection, with one context of this name."""
    cluster, user = _without_empty(connection.cluster()), _without_empty(connection.user())
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "gpuops", "user": "gpuops"}}],
        "clusters": [{"name": "gpuops", "cluster": cluster}],
        "users": [{"name": "gpuops", "user": user}],
    }


def _without_empty(settings: Json) -> Json:
    return {name: value for name, value in settings.items() if value}
