# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig import mig_request
from inline_snapshot import snapshot as wording

from tests.unit.fakes.mig_host import A30, H100, entry, gpu

TWO = (gpu(H100), gpu(H100, index=1))


def refused(layout: list[dict[str, t.Any]], gpus: t.Sequence[t.Any] = TWO) -> str:
    with pytest.raises(GpuOpsError) as raised:
        mig_request.read(layout, gpus)
    return raised.value.msg


def shapes(**options: t.Any) -> list[tuple[str, tuple[int, ...], int | None]]:
    wish = mig_request.read([entry(**options)], TWO[:1])[0]
    return [(each.profile.name, each.shape, each.start) for each in wish.instances or ()]


def test_an_entry_for_all_is_for_those_that_no_other_names() -> None:
    found = mig_request.read([entry(mode="disabled"), entry(gpus=["gpu-1"], instances={"1g.10gb": 1})], TWO)
    assert found[0] == mig_request.GpuRequest(False, ())
    assert found[1].mode and len(found[1].instances or ()) == 1
    assert list(mig_request.read([entry(gpus=["0000:19:00.0", "1"])], TWO)) == [1]


def test_a_gpu_is_named_once() -> None:
    assert refused([entry(gpus=["0"]), entry(gpus=["GPU-0"])]) == wording(
        "Two entries of layout name GPU 0: leave one of them."
    )
    assert refused([entry(), entry()]) == wording("Two entries of layout are for all GPUs: leave one of them.")
    assert refused([entry(gpus=["2"])]) == wording(
        "The driver has no GPU 2. Name it by its index, UUID or PCI address; there are 0 (0000:18:00.0, GPU-0), 1 (0000:19:00.0, GPU-1)."
    )
    assert "there are 0 (0000:18:00.0, GPU-0), 1 (0000:19:00.0, GPU-1)." in refused([entry(gpus=["x"])])


def test_compute_instances_share_gpu_instances() -> None:
    assert shapes(instances={"1c.3g.40gb": 3}) == [("3g.40gb", (1, 1, 1), None)]
    assert shapes(instances={"1c.3g.40gb": 2, "2c.3g.40gb": 2}) == [("3g.40gb", (2, 1), None)] * 2
    assert shapes(instances={"1g.10gb": "2", "3c.3g.40gb": 1}) == [
        ("1g.10gb", (1,), None),
        ("1g.10gb", (1,), None),
        ("3g.40gb", (3,), None),
    ]
    assert shapes(instances={"3c.7g.80gb": 1, "2c.7g.80gb": 2}) == [("7g.80gb", (3, 2, 2), None)]
    # One of four slices and two of two: the second of two could only begin at 0, 2 or 4.
    assert shapes(instances={"4c.7g.80gb": 1, "2c.7g.80gb": 2}) == [("7g.80gb", (4, 2), None), ("7g.80gb", (2,), None)]


def test_no_instances_are_not_the_same_as_nothing_said() -> None:
    assert mig_request.read([entry()], TWO)[0].instances is None
    assert mig_request.read([entry(instances={})], TWO)[0].instances == ()
    assert mig_request.read([entry(instances={"1g.10gb": 0})], TWO)[0].instances == ()


def test_placements_have_starts_and_compute_instances() -> None:
    places = [
        {"profile": "3g.40gb", "start": 4, "compute_instances": ["1c.3g.40gb", "2c.3g.40gb"]},
        {"profile": "1g.10gb", "start": 0, "compute_instances": None},
    ]
    assert shapes(placements=places) == [("3g.40gb", (2, 1), 4), ("1g.10gb", (1,), 0)]
    assert mig_request.read([entry(placements=places)], TWO)[0].mode is True


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"instances": {"1g.10gb": "many"}},
            wording("The count of 1g.10gb in layout must be a whole number, not many."),
        ),
        (
            {"instances": {"2g.10gb": 1}},
            wording(
                "GPU 0 (NVIDIA H100, 0000:18:00.0) has no MIG profile 2g.10gb. It has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb."
            ),
        ),
        (
            {"instances": {"2c.1g.10gb": 1}},
            wording(
                "A GPU instance 1g.10gb has no compute instance 2c.1g.10gb. Beside 1g.10gb itself it can hold none."
            ),
        ),
        (
            {"placements": [{"profile": "1g.10gb", "start": 7, "compute_instances": None}]},
            wording(
                "On GPU 0 (NVIDIA H100, 0000:18:00.0), an instance 1g.10gb cannot start at 7. It can at 0, 1, 2, 3, 4, 5, 6."
            ),
        ),
        (
            {"placements": [{"profile": "3g.40gb", "start": 0, "compute_instances": ["1c.4g.40gb"]}]},
            wording("The compute instance 1c.4g.40gb is not a part of 3g.40gb."),
        ),
        (
            {"placements": [{"profile": "3g.40gb", "start": 0, "compute_instances": ["2c.3g.40gb", "2c.3g.40gb"]}]},
            wording("The compute instances at 0 are larger than 3g.40gb together."),
        ),
        (
            {
                "placements": [
                    {"profile": "3g.40gb", "start": 0, "compute_instances": None},
                    {"profile": "1g.10gb", "start": 3, "compute_instances": None},
                ]
            },
            wording("On GPU 0 (NVIDIA H100, 0000:18:00.0), 3g.40gb at 0 and 1g.10gb at 3 overlap."),
        ),
        (
            {"mode": "disabled", "instances": {"1g.10gb": 1}},
            wording(
                "The layout of GPU 0 (NVIDIA H100, 0000:18:00.0) turns MIG off and has instances: leave out one of the two."
            ),
        ),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, t.Any], sentence: str) -> None:
    assert refused([entry(**options)]) == sentence


def test_gpus_without_mig_are_off_already() -> None:
    without = gpu(A30, mode=False, pending=None)
    without = type(without)(**{**vars(without), "mode": None})
    assert mig_request.read([entry(mode="disabled")], [without]) == {}
    assert "has no MIG" in refused([entry(instances={})], [without])
    serving = gpu(A30, vgpu=True)
    assert "serves virtual GPUs" in refused([entry(mode="disabled")], [serving])
