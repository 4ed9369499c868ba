# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: control_host
short_description: Name the host that talks to the cluster, or refuse one that the run would never meet
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Returns the variable C(gpuops_control_host), or V(localhost) if it is not set or empty.
  - A play whose host is not in the inventory, not in the job's slice or not within the limit is skipped, and the run
    ends as successful although nothing was done. This lookup ends such a run as failed before it begins.
  - So does a slice of a job of AWX, since each slice would act on the whole cluster.
options:
  limited:
    description: Whether a limit (C(--limit)) that leaves out the host is refused.
    type: bool
    default: true
  or_hosts_of:
    description: A group. A limit that leaves out the host is right if it has a host of this group.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Prove the GPU stack
  hosts: "{{ lookup('gpuops.nvidia.control_host') }}"
  gather_facts: false
  roles:
    - role: gpuops.nvidia.verify
"""

RETURN = r"""
_raw:
  description: The name of the host.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleLookupError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The lookup of this file."""

    def run(self, terms: list[t.Any], variables: t.Mapping[str, t.Any] | None = None, **kwargs: t.Any) -> list[str]:
        """Return the name of the host, or raise an error if no play can meet it."""
        known = variables or {}
        host, limit = str(known.get("gpuops_control_host") or "localhost"), str(known.get("ansible_limit") or "")
        groups: t.Mapping[str, t.Sequence[str]] = known.get("groups") or {}
        _refuse_slices(known)
        if host != "localhost" and host not in groups.get("all", ()):
            raise AnsibleLookupError(
                f"gpuops_control_host is {host}, and the inventory of this run has no such host. Correct the name, or "
                "add the host. In AWX, do not slice a job that acts on a cluster."
            )
        group = str(kwargs.get("or_hosts_of", ""))
        if kwargs.get("limited", True) and limit and not _has_one({host, *groups.get(group, ())}, limit, groups):
            others = f", and all hosts of {group}" if group else ""
            raise AnsibleLookupError(
                f"The limit {limit} leaves out {host}, which talks to the cluster{others}, so the run would be empty. "
                f"Correct the limit, or run without one."
            )
        return [host]


def _refuse_slices(known: t.Mapping[str, t.Any]) -> None:
    """Refuse a slice of a job. AWX makes the slices jobs of a workflow that has the name of their template."""
    template = known.get("awx_job_template_name")
    if template and template == known.get("awx_workflow_job_name"):
        raise AnsibleLookupError(
            f"This job is a slice of {template}. Each slice would act on the whole cluster, and hosts would be changed "
            "in as many batches at once. Set the template's number of slices to 1. If this is no slice, give the "
            "workflow another name than the template's."
        )


def _has_one(wanted: set[str], limit: str, groups: t.Mapping[str, t.Sequence[str]]) -> bool:
    """Return whether a limit has one of the hosts. A limit in a file (``@file``) is not read."""
    if "@" in limit:
        return True
    inventory = InventoryManager(loader=t.cast(t.Any, None), parse=False)
    for group, hosts in groups.items():
        inventory.add_group(group)
        for name in hosts:
            inventory.add_host(name, group)
    inventory.reconcile_inventory()
    return not wanted.isdisjoint(found.name for found in inventory.get_hosts(pattern=limit))
