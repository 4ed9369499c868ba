# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig import mig_request, plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.apply import Work
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import ComputeInstance, Gpu
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.library import DriverError

from tests.unit.fakes.mig_host import H100, entry, gpu, instance


class FakeDriver:
    """A driver that refuses one call by its number, and writes all of them down."""

    def __init__(self, refuses: t.Collection[int] = (), waits: str | None = None) -> None:
        self.calls: list[tuple[t.Any, ...]] = []
        self._refuses, self._waits = refuses, waits

    def _called(self, *call: t.Any) -> int:
        if len(self.calls) in self._refuses:
            self.calls.append(("refused",))
            raise DriverError(23, "Insufficient Resources")
        self.calls.append(call)
        return 20 + len(self.calls)

    def set_mode(self, uuid: str, on: bool) -> str | None:
        self._called("mode", on)
        return self._waits

    def create(self, uuid: str, number: int, start: int, size: int) -> int:
        return self._called("create", number, start, size)

    def create_compute(self, uuid: str, instance: int, slices: int, place: int) -> int:
        return self._called("create_compute", instance, slices, place)

    def destroy(self, uuid: str, instance: int) -> None:
        self._called("destroy", instance)

    def destroy_compute(self, uuid: str, instance: int, compute: int) -> None:
        self._called("destroy_compute", instance, compute)


def work(driver: FakeDriver, existing: Gpu, **options: t.Any) -> list[dict[str, t.Any]]:
    wish = mig_request.read([entry(**options)], [existing])[0]
    steps = plan.steps(existing, wish, plan.targets(existing, wish))
    return [message for message in Work(driver, [existing]).run(steps) if "doing" not in message]


def test_a_new_instance_is_named_by_the_number_that_the_driver_gave_it() -> None:
    driver = FakeDriver()
    assert work(driver, gpu(H100, mode=False), instances={"3g.40gb": 1}) == [{"end": True}]
    assert driver.calls == [("mode", True), ("create", 2, 0, 4), ("create_compute", 22, 3, 0)]


def test_after_a_refusal_everything_is_undone_in_reverse_order() -> None:
    driver = FakeDriver(refuses={4})
    existing = gpu(H100, instance(H100, 9, "3g.40gb", 0))
    messages = work(driver, existing, instances={"1g.10gb": 2})
    assert messages == [{"failed": 4, "error": "Insufficient Resources"}, {"end": True}]
    assert driver.calls == [
        ("destroy_compute", 9, 0),
        ("destroy", 9),
        ("create", 0, 0, 1),
        ("create_compute", 23, 1, 0),
        ("refused",),
        ("destroy_compute", 23, 24),
        ("destroy", 23),
        ("create", 2, 0, 4),
        ("create_compute", 28, 3, 0),
    ]


def test_a_step_back_that_fails_is_named_once() -> None:
    driver = FakeDriver(refuses={2, 3})
    messages = work(driver, gpu(H100, instance(H100, 9, "3g.40gb", 0)), instances={"1g.10gb": 1})
    assert messages[1:] == [
        {"stuck": "GPU 0: create 3g.40gb at 0", "error": "Insufficient Resources"},
        {"end": True},
    ]
    assert len(driver.calls) == 4


def test_a_gpu_whose_mode_waits_gets_nothing_more() -> None:
    driver = FakeDriver(waits="In use by another client")
    messages = work(driver, gpu(H100, mode=False), instances={"3g.40gb": 1})
    assert messages == [{"waits": 0, "reason": "In use by another client"}, {"end": True}]
    assert driver.calls == [("mode", True)]


def test_compute_instances_come_back_where_they_were() -> None:
    driver = FakeDriver(refuses={5})
    divided = instance(H100, 9, "3g.40gb", 0)
    compute = (ComputeInstance(0, 1, 2), ComputeInstance(1, 2, 0))
    work(driver, gpu(H100, dataclasses.replace(divided, compute=compute)), instances={"1c.3g.40gb": 3})
    assert driver.calls == [
        ("destroy_compute", 9, 0),
        ("destroy_compute", 9, 1),
        ("create_compute", 9, 1, 0),
        ("create_compute", 9, 1, 1),
        ("create_compute", 9, 1, 2),
    ]
    driver = FakeDriver(refuses={4})
    work(driver, gpu(H100, dataclasses.replace(divided, compute=compute)), instances={"1c.3g.40gb": 3})
    assert driver.calls[-2:] == [("create_compute", 9, 2, 0), ("create_compute", 9, 1, 2)]
