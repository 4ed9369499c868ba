# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What other playbooks of this collection have declared in the ClusterPolicy."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import declarers
from inline_snapshot import snapshot as wording

from tests.unit.fakes.managed import entry, item

PLAYBOOKS = Path(__file__).parents[6] / "playbooks"
FIELDS_OF_MONITORING = (("config", "name"), ("serviceMonitor", "enabled"))
DRIVER = {"f:driver": {"f:version": {}, "f:image": {}}}


def test_fields_of_other_playbooks_stay_and_the_playbook_is_named() -> None:
    live = {"driver": {"version": "600", "image": "driver"}, "migManager": {"config": {"name": "ours"}}}
    before = item(
        live,
        entry("gpuops.nvidia-driver", DRIVER),
        entry("gpuops.nvidia-kept-driver", {"f:driver": {"f:version": {}}}),
        entry("gpuops.nvidia-mig", {"f:migManager": {"f:config": {"f:name": {}}}}),
        entry("helm", {"f:driver": {"f:version": {}}}, "Update"),
    )
    wanted = {"driver": {"version": "595", "image": "driver"}, "migManager": {"config": {"name": "default"}}}
    made, notes = declarers.respected({"spec": wanted}, before)
    assert made == {"spec": {"driver": {}, "migManager": {"config": {}}}}
    assert notes == wording(
        [
            "spec.driver.version stays as it is, since gpuops.nvidia.upgrade_driver manages it. Run that playbook to change it.",
            "spec.migManager.config.name stays as it is, since gpuops.nvidia.mig manages it. Run that playbook to change it.",
        ]
    )


def test_what_the_monitoring_has_declared_stays_too() -> None:
    exporter = {"config": {"name": "ours"}, "serviceMonitor": {"enabled": False}}
    counters, scrape = ({"f:dcgmExporter": {f"f:{block}": {f"f:{key}": {}}}} for block, key in FIELDS_OF_MONITORING)
    owners = (entry("gpuops.nvidia-counters", counters), entry("gpuops.nvidia-scrape", scrape))
    wanted = {"dcgmExporter": {"config": {"name": "theirs"}, "serviceMonitor": {"enabled": True, "interval": "1m"}}}
    made, notes = declarers.respected({"spec": wanted}, item({"dcgmExporter": exporter}, *owners))
    assert made == {"spec": {"dcgmExporter": {"config": {}, "serviceMonitor": {"interval": "1m"}}}}
    assert notes == wording(
        [
            "spec.dcgmExporter.config.name, spec.dcgmExporter.serviceMonitor.enabled stay as they are, since gpuops.nvidia.monitoring manages it. Run that playbook to change it."
        ]
    )


def test_a_new_clusterpolicy_has_no_declarers() -> None:
    manifest = {"spec": {"driver": {"version": "595"}}}
    assert declarers.respected(manifest, None) == (manifest, [])


@pytest.mark.parametrize(
    ("manager", "ours"),
    [
        ("gpuops.nvidia", True),
        ("gpuops.nvidia-driver", True),
        ("gpuops.nvidia-counters", True),
        ("gpuops.nvidia-scrape", True),
        ("helm", False),
        ("gpuops", False),
    ],
)
def test_whose_manager_it_is(manager: str, ours: bool) -> None:
    assert declarers.is_ours(manager) is ours


def test_each_declarer_has_a_playbook() -> None:
    for playbook in declarers.PLAYBOOKS.values():
        assert (PLAYBOOKS / f"{playbook.removeprefix('gpuops.nvidia.')}.yml").is_file()
