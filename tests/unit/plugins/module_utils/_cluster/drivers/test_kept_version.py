# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mark of a driver that stays. tests/unit/plugins/modules/test_driver_hold.py runs the whole module."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import kept_version

from tests.unit.fakes.api import POLICIES, FakeApi


def test_the_mark_takes_over_only_what_says_which_image_it_is(api: FakeApi) -> None:
    spec = {"driver": {"version": "580.126.20", "env": [{"name": "A"}], "usePrecompiled": True}}
    api.lists[POLICIES][0]["spec"] = spec
    assert kept_version.mark(Cluster(api.connection), wanted=True)
    (entry,) = [each for each in api.lists[POLICIES][0]["metadata"]["managedFields"] if each["operation"] == "Apply"]
    assert entry["fieldsV1"] == {"f:spec": {"f:driver": {"f:version": {}, "f:usePrecompiled": {}}}}
    assert api.lists[POLICIES][0]["spec"] == spec


def test_a_driver_without_a_version_needs_no_mark(api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"] = {"driver": {"enabled": True}}
    assert not kept_version.mark(Cluster(api.connection), wanted=True)
