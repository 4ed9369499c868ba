# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import diagnose
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import NODES, FakeApi

AWAY = {"host": "http://127.0.0.1:1", "api_key": "x"}
NOUVEAU = {"facts": {"nouveau": {"loaded": True}}}


def options(connection: t.Mapping[str, str], **given: t.Any) -> dict[str, t.Any]:
    own = {"last": None, "last_path": None, "bundle_path": "", "bundle_max_mib": 50}
    return {**{name: spec["default"] for name, spec in diagnose.SPEC.options.items()}, **own, **connection, **given}


def test_a_healthy_stack_has_no_findings_and_says_what_was_not_seen(api: FakeApi) -> None:
    found = diagnose.diagnose(options(api.connection))
    assert found["findings"] == []
    assert (found["changes"], found["bundle"]) == (None, None)
    assert found["summary"] == {
        "failures": 0,
        "warnings": 0,
        "notes": 0,
        "gaps": 1,
        "nodes": 2,
        "nodes_affected": 0,
        "verdict": "ready",
    }
    assert [gap["what"] for gap in found["gaps"]] == ["the hosts of gpu-0000, gpu-0001"]
    assert found["text"] == wording("""\
Everything that could be seen is in order.

Not seen, so its state is unknown:
   - the hosts of gpu-0000, gpu-0001: Kernel log, driver modules, services and container runtime
     were not looked at. Put the hosts into the group gpu_hosts of the inventory, and run
     playbooks/diagnose.yml.

0 failures, 0 warnings, 1 gap.\
""")


def test_what_a_host_says_is_a_finding_about_its_node(api: FakeApi) -> None:
    found = diagnose.diagnose(options(api.connection, hosts={"gpu-0001": NOUVEAU}))
    assert [(each["code"], each["nodes"]) for each in found["findings"]] == [("NouveauHoldsGPU", ("gpu-0001",))]
    assert [gap["what"] for gap in found["gaps"]] == ["the hosts of gpu-0000"]
    assert (found["summary"]["failures"], found["summary"]["nodes_affected"]) == (1, 1)


def test_a_cordoned_node_is_a_note_that_affects_no_node(api: FakeApi) -> None:
    api.lists[NODES][0]["spec"]["unschedulable"] = True
    summary = diagnose.diagnose(options(api.connection))["summary"]
    assert (summary["failures"], summary["notes"], summary["nodes_affected"]) == (0, 1, 0)


def test_hosts_are_diagnosed_while_the_cluster_is_away() -> None:
    found = diagnose.diagnose(options(AWAY, hosts={"gpu-1": NOUVEAU}))
    assert [each["code"] for each in found["findings"]] == ["NouveauHoldsGPU"]
    assert found["gaps"][0]["what"] == "the cluster"
    assert found["summary"]["verdict"] is None


def test_without_hosts_and_without_a_cluster_there_is_nothing_to_say() -> None:
    with pytest.raises(GpuOpsError, match="Cannot reach"):
        diagnose.diagnose(options(AWAY))


# ---- the last run ---------------------------------------------------------------------------------------------------

LAST = {"code": "GPULost", "cause": "It is gone.", "title": "A GPU is lost"}


def test_findings_are_compared_with_the_last_run(api: FakeApi, tmp_path: Path) -> None:
    kept = tmp_path / "last.json"
    for last in ({"last": [LAST]}, {"last_path": str(kept)}):
        kept.write_text(json.dumps({"findings": [LAST]}))
        found = diagnose.diagnose(options(api.connection, hosts={"gpu-0001": NOUVEAU}, **last))
        assert found["changes"] == {"new": ("nouveau holds the GPU",), "gone": ("A GPU is lost",), "known": 0}
        assert "Gone since the last" in found["text"]


def test_the_first_run_has_nothing_to_compare_with(api: FakeApi, tmp_path: Path) -> None:
    assert diagnose.diagnose(options(api.connection, last_path=str(tmp_path / "none.json")))["changes"] is None


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '[{"code": "a"}]', "5"])
def test_a_last_run_in_another_form_is_refused(api: FakeApi, tmp_path: Path, text: str) -> None:
    path = tmp_path / "last.json"
    path.write_text(text)
    with pytest.raises(GpuOpsError, match=r"last\.json"):
        diagnose.diagnose(options(api.connection, last_path=str(path)))


# ---- the bundle -----------------------------------------------------------------------------------------------------


def test_the_bundle_is_written_except_in_check_mode(api: FakeApi, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    given = options(api.connection, bundle_path=str(path))
    assert diagnose.diagnose(given, check_mode=True)["bundle"] == str(path)
    assert not path.exists()
    diagnose.diagnose(given)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("limit", ["max_pods", "bundle_max_mib"])
def test_limits_are_at_least_one(api: FakeApi, limit: str) -> None:
    with pytest.raises(GpuOpsError, match=limit):
        diagnose.diagnose(options(api.connection, **{limit: 0}))
