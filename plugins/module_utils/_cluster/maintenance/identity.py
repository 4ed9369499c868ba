# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which node of the cluster a host is, by what both report about the machine rather than by its name alone.

No single identity can be trusted: cloned images share a machine ID, some firmware reports the same UUID everywhere, a
reinstalled host has a new machine ID, and names differ between inventory and cluster. So each identity that agrees
speaks for a node, each that is known on both sides and differs speaks against it, and names count half.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import node_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_WEIGHTS = {"machine ID": 2, "system UUID": 2, "address": 2, "name": 1}
_HOSTNAME_LABEL = "kubernetes.io/hostname"
_NAME_TYPES = ("Hostname", "InternalDNS", "ExternalDNS")
_SIMILAR = 0.6
_SHARED = 10
"""What more nodes than this have in common leads to none of them."""

Identities = dict[str, frozenset[str]]
"""What is known of a machine, by the words of `_WEIGHTS`."""


@dataclasses.dataclass(frozen=True)
class Match:
    """The node of a host, or the reason why it is not known. Without both, the host is no node."""

    node: Json | None = None
    by: tuple[str, ...] = ()
    """What agrees."""
    failure: str = ""


def identities_of_node(node: Json) -> Identities:
    """Return what the kubelet reports about its machine."""
    listed = (node.get("status") or {}).get("addresses") or []
    names = [item["address"] for item in listed if item["type"] in _NAME_TYPES]
    return _identities(
        node_info(node, "machineID"),
        node_info(node, "systemUUID"),
        [item["address"] for item in listed if item["type"] == "InternalIP"],
        [name_of(node), labels_of(node).get(_HOSTNAME_LABEL, ""), *names],
    )


def identities_of_host(host: t.Mapping[str, t.Any]) -> Identities:
    """Return what the facts of a host say about it."""
    return _identities(
        host.get("machine_id"), host.get("system_uuid"), host.get("addresses") or [], host.get("names") or []
    )


def _identities(
    machine_id: str | None, system_uuid: str | None, addresses: t.Iterable[str], names: t.Iterable[str]
) -> Identities:
    known = {
        "machine ID": [machine_id or ""],
        "system UUID": [system_uuid or ""],
        "address": addresses,
        "name": [spelling for name in names for spelling in (name, name.partition(".")[0])],
    }
    return {kind: frozenset(text.lower() for text in texts if text) for kind, texts in known.items()}


def _same_name(one: t.Iterable[str], other: t.Iterable[str]) -> bool:
    """Return whether two machines share a name. A short name fits a full one, and two full ones must be equal."""
    shared = set(one) & set(other)
    full = [{name for name in names if "." in name} for names in (one, other)]
    return bool(shared) and (not all(full) or bool(shared & full[0]))


class KnownNodes:
    """The nodes of a cluster by everything that identifies them."""

    def __init__(self, nodes: t.Iterable[Json]) -> None:
        self._nodes = {name_of(node): node for node in nodes}
        self._identities = {name: identities_of_node(node) for name, node in self._nodes.items()}
        self._index: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
        for name, known in self._identities.items():
            for kind, texts in known.items():
                for text in texts:
                    self._index[kind, text].append(name)

    def find(self, host: t.Mapping[str, t.Any]) -> Match:
        """Return the node of a host."""
        if host.get("node"):
            return self._by_word(host)
        known = identities_of_host(host)
        fitting = {name: score for name in self._candidates(known) if (score := self._score(name, known)) > 0}
        best = [name for name, score in fitting.items() if score == max(fitting.values())]
        if len(best) == 1:
            return Match(self._nodes[best[0]], self._agreeing(best[0], known))
        if best:
            return Match(failure=_ambiguous(host, sorted(best)))
        return Match(failure=self._nothing_fits(host, known) if _has_kubelet(host) else "")

    def _by_word(self, host: t.Mapping[str, t.Any]) -> Match:
        """Return the node that the user has named."""
        node = self._nodes.get(host["node"])
        if node is None and _has_kubelet(host):
            return Match(
                failure=f"{host['name']} {_kubelet(host)}, and the cluster has no node {host['node']}"
                f"{self._near([host['node']])}. {_REMEDY}"
            )
        return Match(node, ("your word",) if node else ())

    def _candidates(self, known: Identities) -> list[str]:
        sharing = [self._index.get((kind, text), []) for kind, texts in known.items() for text in texts]
        return list(dict.fromkeys(name for names in sharing if len(names) <= _SHARED for name in names))

    def _agreeing(self, name: str, known: Identities) -> tuple[str, ...]:
        return tuple(kind for kind in _WEIGHTS if _agrees(kind, self._identities[name], known))

    def _opposing(self, name: str, known: Identities) -> tuple[str, ...]:
        agreeing, its = self._agreeing(name, known), self._identities[name]
        return tuple(kind for kind in _WEIGHTS if kind not in agreeing and its[kind] and known[kind])

    def _score(self, name: str, known: Identities) -> int:
        agreeing, opposing = self._agreeing(name, known), self._opposing(name, known)
        return sum(_WEIGHTS[kind] for kind in agreeing) - sum(_WEIGHTS[kind] for kind in opposing)

    def _nothing_fits(self, host: t.Mapping[str, t.Any], known: Identities) -> str:
        refuted = [
            f"{name} has the same {' and '.join(self._agreeing(name, known))}, but another "
            f"{' and '.join(self._opposing(name, known))}"
            for name in self._candidates(known)
        ]
        near = f": {first_few(refuted)}" if refuted else self._near(sorted(known["name"]))
        return f"{host['name']} {_kubelet(host)}, and no node of the cluster fits it{near}. {_REMEDY}"

    def _near(self, names: t.Iterable[str]) -> str:
        spelled = {name.lower(): name for name in self._nodes}
        close = [found for name in names for found in difflib.get_close_matches(name.lower(), spelled, 3, _SIMILAR)]
        found = [spelled[name] for name in dict.fromkeys(close)]
        return f" (similar: {first_few(found)})" if found else ""


_REMEDY = (
    "Check that this is its cluster (gpuops_kubeconfig, gpuops_context, K8S_AUTH_*), name the node in "
    "host_change_node, or leave out the drain with host_change_drain: false."
)


def _agrees(kind: str, one: Identities, other: Identities) -> bool:
    return _same_name(one[kind], other[kind]) if kind == "name" else bool(one[kind] & other[kind])


def _has_kubelet(host: t.Mapping[str, t.Any]) -> bool:
    return bool((host.get("kubelet") or {}).get("present"))


def _kubelet(host: t.Mapping[str, t.Any]) -> str:
    found = host["kubelet"]
    return f"{'runs' if found.get('active') else 'has'} a kubelet ({found.get('by')})"


def _ambiguous(host: t.Mapping[str, t.Any], names: list[str]) -> str:
    return f"{host['name']} may be any of the nodes {first_few(names)}. Name the right one in host_change_node."


def find_all(nodes: t.Iterable[Json], hosts: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, Match]:
    """Return the match of every host, by the host's name. Two hosts that claim one node are both refused."""
    fleet = KnownNodes(nodes)
    found = {host["name"]: fleet.find(host) for host in hosts}
    claims: dict[str, list[str]] = collections.defaultdict(list)
    for host, match in found.items():
        if match.node is not None:
            claims[name_of(match.node)].append(host)
    for node, claiming in claims.items():
        if len(claiming) > 1:
            message = (
                f"{first_few(sorted(claiming))} would all be the node {node}. Name their nodes in host_change_node."
            )
            found |= dict.fromkeys(claiming, Match(failure=message))
    return found


def without_cluster(hosts: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, Match]:
    """Return the match of every host where no cluster is configured: only a host with a kubelet is a riddle."""
    return {host["name"]: Match(failure=_unconfigured(host)) for host in hosts}


def _unconfigured(host: t.Mapping[str, t.Any]) -> str:
    if not _has_kubelet(host):
        return ""
    return (
        f"Cannot tell which node {host['name']} is: it {_kubelet(host)}, and no cluster is configured. Set "
        "gpuops_kubeconfig, gpuops_context or K8S_AUTH_*, or leave out the drain with host_change_drain: false."
    )
