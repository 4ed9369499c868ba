# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver import instances

from tests.unit.fakes.mig_host import A30, H100, gpu, instance


def test_a_gpu_survives_the_way_through_the_pipe() -> None:
    processes = (instances.Process(7), instances.Process(8, 2, 0))
    whole = gpu(H100, instance(H100, 2, "3g.40gb", 4, 2, 1), processes=processes)
    assert instances.of_json(json.loads(json.dumps(dataclasses.asdict(whole)))) == whole


def test_the_facts_have_devices_and_instances_with_their_places() -> None:
    facts = instances.facts(gpu(H100, instance(H100, 2, "3g.40gb", 4, 2, 1)))
    assert facts == {
        "mode": True,
        "pending": True,
        "instances": [
            {
                "index": index,
                "gpu_instance": 2,
                "compute_instance": index,
                "memory_mib": 9984,
                "profile": profile,
                "uuid": f"MIG-2-{index}",
            }
            for index, profile in enumerate(["2c.3g.40gb", "1c.3g.40gb"])
        ],
        "gpu_instances": [
            {
                "id": 2,
                "profile": "3g.40gb",
                "start": 4,
                "size": 4,
                "compute_instances": [
                    {"id": 0, "profile": "2c.3g.40gb", "start": 0, "size": 2},
                    {"id": 1, "profile": "1c.3g.40gb", "start": 2, "size": 1},
                ],
            }
        ],
    }


def test_a_planned_instance_has_no_number_yet_and_a_gpu_without_mig_no_facts() -> None:
    facts = instances.facts(gpu(H100, instance(H100, instances.NEW, "7g.80gb", 0)))
    assert facts and facts["gpu_instances"][0]["id"] is None and facts["instances"][0]["gpu_instance"] is None
    assert instances.facts(dataclasses.replace(gpu(H100), mode=None)) is None


def test_the_rules_of_a_gpu_are_its_own() -> None:
    assert gpu(A30).model.slots == 4
    assert gpu(A30, product="NVIDIA A30").model.media == A30.media
    assert gpu(A30, product="NVIDIA Z99").model.media == 0


def test_instances_are_ordered_by_their_places() -> None:
    first, second = instance(H100, 9, "1g.10gb", 0), instance(H100, 3, "1g.10gb", 1)
    assert instances.by_start([second, first]) == (first, second)
    assert instance(H100, 2, "3g.40gb", 4, 1, 2).shape() == (2, 1)
    assert instances.compute_name("3g.40gb", 1, 3) == "1c.3g.40gb"


def test_devices_are_listed_by_their_index_and_planned_ones_last() -> None:
    planned = dataclasses.replace(instance(H100, 1, "1g.10gb", 0).compute[0], index=None)
    second, first = (dataclasses.replace(instance(H100, 2, "1g.10gb", at).compute[0], index=3 - at) for at in (1, 2))
    three = [
        dataclasses.replace(instance(H100, number, "1g.10gb", number), compute=(compute,))
        for number, compute in enumerate((planned, second, first))
    ]
    facts = instances.facts(gpu(H100, *three))
    assert facts and [device["index"] for device in facts["instances"]] == [1, 2, None]
