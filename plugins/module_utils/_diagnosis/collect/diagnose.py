# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The work of the module diagnose: collect, apply the rules, compare with the last run, and put it into words."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import drift, engine, odd_hosts, report
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle import bundle_file, pack
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle.pack import MANIFEST
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle.unpack import inner_name, unpack
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import evidence as collected
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.engine import Diagnosis
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.documents import Documents
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

MIB = 1 << 20

LARGEST_FILE = 64 * MIB
"""How much is read of each file of a bundle. A bundle has 50 MiB in all, unless its owner wanted more."""

SPEC = ArgumentSpec(
    {
        "name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
        "allocated": {"type": "bool", "default": True},
        "exporters": {"type": "bool", "default": False},
        "hosts": {"type": "dict", "default": {}},
        "pinned": drift.PINNED_OPTIONS.as_list(default=[]),
        "max_pods": {"type": "int", "default": 60},
    }
).including(tolerance.SPEC)
"""The options of modules that examine a cluster. The documentation fragments are ``evidence`` and ``tolerance``."""


def diagnose(options: Options, check_mode: bool = False) -> Json:
    """Return the result of the module diagnose. In check mode, no bundle is written."""
    refuse_below(options, bundle_max_mib=1)
    last, path = _last(options), options["bundle_path"]
    evidence, found = examine(options)
    result = result_of(evidence, found, last)
    if path and not check_mode:
        limit = options["bundle_max_mib"] * MIB
        bundle_file.write(path, pack.pack(evidence, result["findings"], result["text"], limit))
    return {**result, "bundle": path or None}


def examine(options: Options) -> tuple[Evidence, Diagnosis]:
    """Collect the evidence, or read it from a bundle, and apply the rules to it."""
    refuse_below(options, max_pods=1)
    path = options.get("evidence_path")
    return diagnosed(_kept(path) if path else _evidence(options))


def diagnosed(evidence: Evidence) -> tuple[Evidence, Diagnosis]:
    """Apply the rules to evidence that may come from a file, and return it without the hosts that no rule can read."""
    try:
        return odd_hosts.diagnosed(evidence, RULES)
    except engine.ODD as e:
        raise GpuOpsError(
            "The evidence has another form than a diagnosis writes: the bundle was changed. Write it again.",
            reason="Invalid",
        ) from e


def _kept(path: str) -> Evidence:
    """Return the evidence in a bundle."""
    files = {inner_name(name): data for name, data in Documents(path, LARGEST_FILE) if inner_name(name)}
    if MANIFEST not in files:
        raise GpuOpsError(
            f"{path} is no bundle of evidence. Give the archive that diagnose has written (bundle_path), or read "
            "other texts with playbooks/explain.yml.",
            reason="Invalid",
        )
    return unpack(files).evidence


def _evidence(options: Options) -> Evidence:
    """Read what can be read. Without a cluster, the hosts speak alone."""
    try:
        evidence = collected.collect(GapReader(options), options)
    except GpuOpsError as e:
        if not options["hosts"] or e.reason is None:
            raise
        evidence = collected.without_cluster(options, e.msg)
    return dataclasses.replace(evidence, pinned=options["pinned"], gaps=[*evidence.gaps, *_unseen(evidence)])


def _unseen(evidence: Evidence) -> list[Gap]:
    """Return the gap about the GPU nodes whose hosts were not looked at."""
    nodes = [row["name"] for row in (evidence.stack or {}).get("nodes") or [] if row["name"] not in evidence.hosts]
    if not nodes:
        return []
    why = (
        "Kernel log, driver modules, services and container runtime were not looked at. Put the hosts into the group "
        "gpu_hosts of the inventory, and run playbooks/diagnose.yml."
    )
    return [Gap(f"the hosts of {report.folded(nodes)}", why)]


def _last(options: Options) -> list[Json] | None:
    """Return the findings of the last run, or None if there are none to compare with."""
    if options["last"] is not None:
        return _checked(options["last"], "last")
    path = options["last_path"]
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as e:
        raise GpuOpsError(
            f"The last diagnosis in {path} cannot be read: {e}. Delete the file, or correct last_path."
        ) from e
    return _checked(kept.get("findings") if isinstance(kept, dict) else kept, f"The content of {path}")


def _checked(last: t.Any, what: str) -> list[Json]:
    keys = {"code", "cause", "title"}
    if not isinstance(last, list) or any(not isinstance(each, dict) or keys - set(each) for each in last):
        raise GpuOpsError(f"{what} must be a list of findings with the keys {', '.join(sorted(keys))}.")
    return last


def result_of(evidence: Evidence, found: Diagnosis, last: list[Json] | None) -> Json:
    """Return the findings, what changed since the last run, and the text for a terminal."""
    findings, gaps = [each.as_result() for each in found.findings], [dataclasses.asdict(gap) for gap in found.gaps]
    changes = None if last is None else dataclasses.asdict(engine.compare(found.findings, last))
    levels = [each.severity for each in found.findings]
    nodes = {node for each in found.findings if each.severity != "ok" for node in each.nodes}
    return {
        "findings": findings,
        "changes": changes,
        "gaps": gaps,
        "summary": {
            "failures": levels.count("failure"),
            "warnings": levels.count("warning"),
            "notes": levels.count("ok"),
            "gaps": len(gaps),
            "nodes": len((evidence.stack or {}).get("nodes") or []),
            "nodes_affected": len(nodes),
            "verdict": ((evidence.stack or {}).get("verdict") or {}).get("state"),
        },
        "taken": evidence.taken,
        "text": report.as_text(findings, gaps, changes),
    }
