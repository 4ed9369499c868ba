# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.checks import CHECKS, run_checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import NEWEST
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.preflight.clusters import intent, levels, node, snapshot

NEWEST_INTENT = intent(f"v{NEWEST.name}.0")


def test_a_healthy_cluster_passes_every_check() -> None:
    findings = run_checks(snapshot(), NEWEST_INTENT)
    assert levels(findings) == ["ok"] * len(CHECKS)
    assert [finding.check for finding in findings] == list(CHECKS)


def test_failures_come_first_and_skipped_checks_are_left_out() -> None:
    bad = snapshot(version="v1.20.0", nodes=[node(cordoned=True)])
    assert levels(run_checks(bad, NEWEST_INTENT))[:3] == ["failure", "warning", "ok"]
    assert "kubernetes_version" not in {finding.check for finding in run_checks(bad, intent(), ["kubernetes_version"])}


def test_unreadable_collections_are_never_ok() -> None:
    blind = snapshot(nodes=[], daemonsets=[], unreadable=frozenset({"nodes", "daemonsets"}))
    by_check = {finding.check: finding for finding in run_checks(blind, intent())}
    assert by_check["taints"].level == by_check["nfd"].level == "warning"
    assert by_check["nfd"].message == wording("Not checked, because this user may not read daemonsets.")
    assert by_check["kubernetes_version"].level == "ok"
