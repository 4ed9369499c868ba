# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import imex
from inline_snapshot import snapshot as wording


def found(driver: str = "container", kind: str = "nvl72", **service: t.Any) -> list[tuple[str, str]]:
    """Return the findings about a tray and its service nvidia-imex."""
    given = {"package": "nvidia-imex", "version": "570.133.20", "active": False, "enabled": False, **service}
    version = "580.95.05" if driver == "host" else None
    facts = {"fabric": {"kind": kind}, "services": {"imex": given}, "driver": {"userspace_version": version}}
    return [(each.level, each.message) for each in imex.check(facts, driver == "container")]


@pytest.mark.parametrize("given", [{}, {"driver": "host"}, {"kind": "nvlink5", "active": True}, {"package": None}])
def test_imex_is_left_to_compute_domains(given: t.Any) -> None:
    assert [level for level, dummy in found(**given)] == ["ok"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"active": True, "enabled": True},
            wording(
                "nvidia-imex.service runs on the host, and the driver has one IMEX session: ComputeDomains get none."
            ),
        ),
        (
            {"enabled": True},
            wording(
                "nvidia-imex.service starts on the host at the next boot, and the driver has one IMEX session: ComputeDomains get none."
            ),
        ),
        ({"active": None, "package": None}, wording("Whether IMEX runs on the host is unknown.")),
        (
            {"package": None, "driver": "host"},
            wording("The driver 580.95.05 is on the host, and its package nvidia-imex is not."),
        ),
        (
            {"matches_driver": False, "driver": "host"},
            wording("nvidia-imex 570.133.20 has another version than the driver."),
        ),
    ],
)
def test_what_keeps_compute_domains_from_working(given: t.Any, message: str) -> None:
    assert found(**given) == [("warning", message)]


def test_hosts_without_these_facts_have_no_finding() -> None:
    assert [each.level for each in imex.check({}, in_container=True)] == ["ok"]
    assert [each.level for each in imex.check({"fabric": {"kind": "nvl72"}}, in_container=True)] == ["warning"]
