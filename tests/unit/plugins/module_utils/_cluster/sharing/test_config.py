# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import assign, config
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

FIXTURE = Path(__file__).parents[4] / "fixtures" / "sharing" / "device_plugin.yml"
CASES = yaml.safe_load(FIXTURE.read_text())
GPU = {"name": "nvidia.com/gpu", "replicas": 4}


def judge(case: dict) -> config.Configuration:
    """Read a case's text as the option config, for a ClusterPolicy with its MIG strategy. Raises if it is refused."""
    found = config.of_document("x", yaml.safe_load(case["text"]))
    assign.refuse_impossible(
        {"n": found}, {"n": {"metadata": {"name": "n"}}}, {"mig": {"strategy": case["mig_strategy"]}}
    )
    return found


# ---- against the device plugin's own parser -------------------------------------------------------------------------


@pytest.mark.parametrize("case", [each for each in CASES if "published" in each], ids=lambda case: case["name"])
def test_what_is_published_is_what_the_device_plugin_reads(case: dict) -> None:
    found, verdict = judge(case), case["verdict"]
    assert found.text == case["published"]
    assert (found.strategy, dict(found.shares)) == (verdict["strategy"], verdict.get("resources", {}))
    assert found.offered_as("nvidia.com/gpu") == verdict.get("rename", "nvidia.com/gpu")
    default = True if found.strategy == "mps" else None
    assert (default if found.single is None else found.single) == verdict.get("fail")


@pytest.mark.parametrize("case", [each for each in CASES if "published" not in each], ids=lambda case: case["name"])
def test_what_the_device_plugin_refuses_ignores_or_misreads_is_refused(case: dict) -> None:
    verdict = case["verdict"]
    assert "error" in verdict or "warnings" in verdict or "later" in case or verdict != case["meant"]
    with pytest.raises(GpuOpsError) as refused:
        judge(case)
    assert refused.value.reason == "Invalid"


def test_the_record_has_both_kinds_and_both_lines() -> None:
    assert sum("published" in case for case in CASES) > 12 and sum("published" not in case for case in CASES) > 30
    assert [case["name"] for case in CASES if "verdict_v0.18.1" in case] == ["mps-relaxed", "policy-wrong"]


# ---- options --------------------------------------------------------------------------------------------------------


def entry(**options: t.Any) -> dict:
    return {"name": "x", "strategy": "time-slicing", "rename_by_default": False, **options}


def test_options_become_the_device_plugins_words() -> None:
    found = config.read(entry(replicas=4, rename_by_default=True, fail_requests_greater_than_one=False))
    assert yaml.safe_load(found.text) == {
        "version": "v1",
        "sharing": {
            "timeSlicing": {"renameByDefault": True, "failRequestsGreaterThanOne": False, "resources": [GPU]},
        },
    }
    mps = config.read(entry(strategy="mps", resources=[GPU]))
    assert yaml.safe_load(mps.text)["sharing"] == {"mps": {"resources": [GPU]}}
    assert config.read(entry(strategy="none")).text == "version: v1\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            entry(name="Upper", replicas=4),
            wording(
                "The name 'Upper' of a configuration must be at most 50 lower-case letters, digits, dots and dashes, and begin and end with a letter or a digit."
            ),
        ),
        (
            entry(name="x" * 51, replicas=4),
            wording(
                "The name 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' of a configuration must be at most 50 lower-case letters, digits, dots and dashes, and begin and end with a letter or a digit."
            ),
        ),
        (
            entry(strategy=None, replicas=4),
            wording("Configuration x: give a strategy (time-slicing, mps or none) or a config."),
        ),
        (entry(), wording("Configuration x: give either replicas (for nvidia.com/gpu) or resources.")),
        (
            entry(replicas=4, resources=[GPU]),
            wording("Configuration x: give either replicas (for nvidia.com/gpu) or resources."),
        ),
        (
            entry(strategy="none", replicas=4),
            wording("Configuration x: the strategy none does not share GPUs. Remove replicas and resources."),
        ),
        (entry(config={"version": "v1"}), wording("Configuration x: give either config or strategy, not both.")),
        (
            entry(strategy=None, config={"version": "v1"}, rename_by_default=True),
            wording("Configuration x: give either config or rename_by_default, not both."),
        ),
        (
            entry(strategy="mps", resources=[{"name": "nvidia.com/mig-1g.10gb", "replicas": 2}]),
            wording(
                "Configuration x: sharing.mps.resources[0].name is nvidia.com/mig-1g.10gb, and MPS cannot share MIG devices. Use the strategy time-slicing."
            ),
        ),
        (
            entry(resources=[{"name": "nvidia.com/1g.10gb", "replicas": 2}]),
            wording(
                "Configuration x: sharing.timeSlicing.resources[0].name is 'nvidia.com/1g.10gb'. Write nvidia.com/mig-1g.10gb."
            ),
        ),
        (
            entry(resources=[{"name": "nvidia.com/mig-1g.10gb+me", "replicas": 2}]),
            wording(
                "Configuration x: sharing.timeSlicing.resources[0].name is 'nvidia.com/mig-1g.10gb+me'. Write nvidia.com/mig-1g.10gb.me."
            ),
        ),
        (
            entry(resources=[{"name": "gpus", "replicas": 2}]),
            wording(
                "Configuration x: sharing.timeSlicing.resources[0].name is 'gpus'. It can be nvidia.com/gpu, or a MIG device such as nvidia.com/mig-1g.10gb."
            ),
        ),
    ],
)
def test_wrong_options_are_refused_with_the_right_form(options: dict, said: str) -> None:
    with pytest.raises(GpuOpsError) as refused:
        config.read(options)
    assert refused.value.msg == said


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            {"sharing": {"time-slicing": {}}},
            wording(
                "Configuration x: sharing.time-slicing is no field of the configuration. The device plugin would ignore it. Write timeSlicing."
            ),
        ),
        (
            {"sharing": {"timeSlicng": {}}},
            wording(
                "Configuration x: sharing.timeSlicng is no field of the configuration. The device plugin would ignore it. Write timeSlicing."
            ),
        ),
        (
            {"bananas": 1},
            wording(
                "Configuration x: bananas is no field of the configuration. The device plugin would ignore it. Its fields here are version, flags, resources, sharing, imex."
            ),
        ),
        (
            {"flags": {"migStrategy": "both"}},
            wording("Configuration x: flags.migStrategy is 'both'. It can be none, single, mixed."),
        ),
        (
            {"flags": {"gdsEnabled": "yes"}},
            wording("Configuration x: flags.gdsEnabled is 'yes'. It must be true or false."),
        ),
        (
            {"flags": {"plugin": {"cdiAnnotationPrefix": True}}},
            wording("Configuration x: flags.plugin.cdiAnnotationPrefix is True. It must be a text."),
        ),
        (
            {"flags": {"failOnInitError": True}},
            wording(
                "Configuration x: flags.failOnInitError has no effect, because the operator sets FAIL_ON_INIT_ERROR for the device plugin. Set that variable in the ClusterPolicy (devicePlugin.env, or gfd.env) instead."
            ),
        ),
        (
            {"flags": {"plugin": {"deviceListStrategy": ["envvar"]}}},
            wording(
                "Configuration x: flags.plugin.deviceListStrategy has no effect, because the operator sets DEVICE_LIST_STRATEGY for the device plugin. Set that variable in the ClusterPolicy (devicePlugin.env, or gfd.env) instead."
            ),
        ),
        (
            {"flags": {"mpsRoot": "/mps"}},
            wording(
                "Configuration x: flags.mpsRoot has no effect, because the operator sets MPS_ROOT for the device plugin. Set that variable in the ClusterPolicy (devicePlugin.env, or gfd.env) instead."
            ),
        ),
        (
            {"imex": {"channelIDs": [1]}},
            wording("Configuration x: imex.channelIDs can only be [0], and the device plugin would not start."),
        ),
        ({"sharing": []}, wording("Configuration x: sharing is []. It must be a mapping.")),
        (
            {"sharing": {"mps": {"resources": [{**GPU, "replicas": True}]}}},
            wording("Configuration x: sharing.mps.resources[0].replicas is True. It must be a whole number."),
        ),
    ],
)
def test_wrong_fields_are_refused_with_the_right_one(document: dict, said: str) -> None:
    with pytest.raises(GpuOpsError) as refused:
        config.of_document("x", document)
    assert refused.value.msg == said and refused.value.msg.startswith("Configuration x: ")


# ---- keys -----------------------------------------------------------------------------------------------------------


def test_the_key_changes_with_the_text_only() -> None:
    first = config.read(entry(replicas=4))
    same = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [dict(reversed(GPU.items()))]}}})
    assert first.key == same.key == "x-0a3a0ca6"
    assert config.read(entry(replicas=8)).key not in (first.key, "")


def test_a_key_is_ours_if_it_has_the_digest_of_its_text() -> None:
    text = config.read(entry(replicas=4)).text
    assert config.is_ours("x-0a3a0ca6", text) and config.name_in("a-b-0a3a0ca6") == "a-b"
    assert not config.is_ours("x-0a3a0ca6", text + "\n")
    assert not config.is_ours("tesla-t4", text) and config.name_in("tesla-t4") == ""
