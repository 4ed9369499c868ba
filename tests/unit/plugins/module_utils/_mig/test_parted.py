# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import collections
import json
import re
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted, table
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry, NodeGpu, WantedLayout
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._mig import verdicts

A30, A100, H100 = (table.named(name) for name in ("A30", "A100-40GB", "H100-80GB"))


def gpus(model: table.Model | None, count: int = 2) -> list[NodeGpu]:
    return [NodeGpu(index, model) for index in range(count)]


# ---- against mig-parted itself ------------------------------------------------------------------------------------

RECORDED = verdicts.read()


def test_a_thousand_documents_are_accepted_and_refused_as_by_mig_parted() -> None:
    assert [row["document"] for row in RECORDED] == list(verdicts.documents())
    assert collections.Counter(row["status"] for row in RECORDED) == {1: 526, 0: 474}
    for row in RECORDED:
        try:
            accepted = verdicts.LAYOUT in parted.read(row["document"])
        except GpuOpsError as error:
            accepted = False
            assert re.match(r"(The document|version|mig-configs)\S*: .*\.$", error.msg), error.msg
        assert accepted == (row["status"] == 0), row


FINDINGS = {
    "not a profile of the GPU": "is no profile of",
    "too many of a profile": "holds at most",
    "too large": "memory slices",
    "no place": "find no place",
    "another name": "by the other name",
    "count 0": "with the count 0",
    "filter that matches nothing": "matches no GPU",
    "index that does not exist": "there is no GPU",
    "no device": "list of devices is empty",
    "GPU without entry": "no entry is meant for",
}


@pytest.mark.parametrize(
    ("model", "found", "total"),
    [
        (A30, [222, 1, 0, 0, 69, 14, 26, 18, 13, 173], 374),
        (A100, [263, 3, 0, 0, 69, 14, 26, 18, 13, 102], 335),
        (H100, [158, 75, 4, 1, 69, 14, 26, 18, 13, 134], 344),
    ],
)
def test_what_mig_parted_calls_valid_may_still_be_wrong(model: table.Model, found: list[int], total: int) -> None:
    """The numbers say in how many of the 474 documents that mig-parted accepts each mistake is, on four such GPUs."""
    counted: collections.Counter[str] = collections.Counter()
    wrong = 0
    for row in RECORDED:
        if row["status"] == 0:
            entries = parted.read(row["document"])[verdicts.LAYOUT]
            problems = parted.check(verdicts.LAYOUT, entries, gpus(model, 4))
            kinds = {kind for kind, words in FINDINGS.items() for problem in problems if words in problem}
            assert all(any(words in problem for words in FINDINGS.values()) for problem in problems), problems
            counted.update(kinds)
            wrong += bool(problems)
    assert ([counted[kind] for kind in FINDINGS], wrong) == (found, total)


# ---- the operator's own layouts -----------------------------------------------------------------------------------


def defaults() -> parted.Layouts:
    lines = verdicts.RECORDED.with_name("default_layouts.jsonl").read_text().splitlines()
    return parted.read({"version": "v1", "mig-configs": {k: v for line in lines for k, v in json.loads(line).items()}})


def fitting(model: table.Model) -> set[str]:
    return {name for name, entries in defaults().items() if not parted.check(name, entries, gpus(model))}


def test_every_default_layout_fits_the_models_that_it_was_made_for() -> None:
    assert len(defaults()) == 81
    assert {name for model in table.MODELS for name in fitting(model)} == set(defaults())
    many = {model.name: len(fitting(model)) for model in COVERED}
    others = {"A30": 8, "GB200": 15, "RTX-PRO-6000": 14}
    assert many == {model.name: others.get(model.name, 10) for model in COVERED}


def test_the_filters_of_the_default_layouts_leave_some_models_out() -> None:
    """A node with one of them would be drained for a layout that is meant for none of its GPUs."""
    left_out = [model for model in table.MODELS if model not in COVERED]
    balanced = {model.name: parted.resolve(defaults()["all-balanced"], gpus(model)) for model in left_out}
    expected = ["A30X", "A800-SXM4-40GB", "A100-64GB", "A100X", "H100-64GB", "H20-3e", "RTX-PRO-5000", "RTX-PRO-4500"]
    assert balanced == {name: {} for name in expected}


COVERED = [model for model in table.MODELS if parted.resolve(defaults()["all-balanced"], gpus(model))]


@pytest.mark.parametrize("model", COVERED, ids=lambda model: model.name)
def test_what_the_table_generates_is_what_the_default_layouts_say(model: table.Model) -> None:
    """NVIDIA wrote these by hand, before the MIG manager generated them from NVML."""
    made = parted.generated([model])
    for name, entries in made.items():
        assert parted.resolve(entries, gpus(model)) == parted.resolve(defaults()[name], gpus(model)), name


def generated() -> dict[str, t.Any]:
    """Return what mig-parted generates on the simulated NVML, by model."""
    lines = verdicts.RECORDED.with_name("generated_layouts.jsonl").read_text().splitlines()
    return {row["model"]: row["layouts"] for row in map(json.loads, lines)}


@pytest.mark.parametrize("model", ["A30", "A100-40GB", "A100-80GB", "H100-80GB", "H200", "B200"])
def test_what_the_table_generates_is_what_mig_parted_generates(model: str) -> None:
    layouts = parted.read({"version": "v1", "mig-configs": generated()[model]})
    assert parted.generated([table.named(model)]) == layouts


def test_a_default_layout_leaves_out_a_sibling_of_the_model() -> None:
    """The H200 NVL is not in the filter of all-1g.35gb, so the layout never counts as applied there."""
    sibling = [NodeGpu(0, table.named("H200"), 0x233B10DE)]
    assert parted.check("all-1g.35gb", defaults()["all-1g.35gb"], sibling) == [
        wording("all-1g.35gb: no entry is meant for GPU 0, so the layout does not count as applied.")
    ]
    assert parted.check("all-balanced", defaults()["all-balanced"], sibling) == []


def test_a_node_with_two_models_gets_filters() -> None:
    made = parted.generated([A30, A100])
    assert made["all-balanced"] == (
        LayoutEntry(None, True, {"1g.6gb": 2, "2g.12gb": 1}, ("0x20B710DE",)),
        LayoutEntry(
            None,
            True,
            {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1},
            ("0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"),
        ),
    )
    assert made["all-disabled"] == (LayoutEntry(None, False),)
    assert parted.generated([])["all-enabled"] == (LayoutEntry(None, True),)


# ---- reading and writing ------------------------------------------------------------------------------------------


def document(*entries: t.Any, name: str = "mine") -> dict[str, t.Any]:
    return {"version": "v1", "mig-configs": {name: list(entries)}}


def on(**fields: t.Any) -> dict[str, t.Any]:
    """Return an entry that turns MIG on, with these fields, in which - is written as _."""
    given = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}
    return {**given, **{name.replace("_", "-"): value for name, value in fields.items()}}


def test_what_is_read_is_written_again() -> None:
    given = document(
        on(device_filter=["0x20B010DE"], devices=[0, 2]), on(mig_devices={}), {"devices": "all", "mig-enabled": False}
    )
    assert parted.plain(parted.read(given)) == given
    assert parted.read(document(on(device_filter="0x20B010DE")))["mine"][0].filters == ("0x20B010DE",)


def test_keys_that_yaml_takes_for_numbers_and_truth_values_are_names() -> None:
    read = parted.read({"version": "v1", "mig-configs": {7: [on()], True: [on()]}})
    assert sorted(read) == ["7", "true"]


def test_a_document_without_layouts_has_none() -> None:
    assert parted.read({"version": "v1"}) == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, wording("The document: the field version is missing; write version: v1.")),
        ([], wording("The document: this is a list, but has to be a mapping.")),
        ("x", wording("The document: this is a text, but has to be a mapping.")),
        (7, wording("The document: this is a number, but has to be a mapping.")),
        ({"version": 1}, "version: this is 1, and only v1 exists."),
        ({"version": "v1", "mig_configs": {}}, "The document: there is no field 'mig_configs'; write mig-configs."),
        ({"version": "v1", "x": {}}, "The document: there is no field 'x'; the fields are version, mig-configs."),
        ({"version": "v1", "mig-configs": {}}, wording("mig-configs: at least one layout is needed.")),
        (document(), wording("mig-configs.mine: at least one entry is needed.")),
        (
            {"version": "v1", "mig-configs": {"mine": {}}},
            wording("mig-configs.mine: this is a mapping, but has to be a list of entries."),
        ),
        (document(True), wording("mig-configs.mine[0]: this is a truth value, but has to be a mapping.")),
        (document(on(), {"devices": "all"}), "mig-configs.mine[1]: the field mig-enabled is missing."),
        (
            document(on(mig_enabled="yes")),
            wording("mig-configs.mine[0].mig-enabled: this is a text, but has to be true or false."),
        ),
        (
            document({"devices": "all", "mig-enabled": True}),
            wording("mig-configs.mine[0]: the field mig-devices is missing; with mig-enabled it may be empty ({})."),
        ),
        (document(on(mig_enabled=False)), "mig-configs.mine[0]: mig-devices need mig-enabled: true."),
        (
            document(on(devices="0")),
            wording("mig-configs.mine[0].devices: this is '0', but has to be all or a list of indices."),
        ),
        (document(on(devices=["0"])), wording("mig-configs.mine[0].devices: '0' is not a whole number.")),
        (
            document(on(device_filter=0x20B010DE)),
            wording(
                'mig-configs.mine[0].device-filter: this has to be a text such as "0x20B010DE", in quotes, '
                "or a list of such texts."
            ),
        ),
        (
            document(on(mig_devices={"1g.10gb.me": 1})),
            wording(
                "mig-configs.mine[0].mig-devices: '1g.10gb.me' is no MIG profile. "
                "The profile is 1g.10gb+me, and the layout of all GPUs with it is all-1g.10gb.me."
            ),
        ),
        (
            document(on(mig_devices={"banana": 1})),
            wording(
                "mig-configs.mine[0].mig-devices: 'banana' is no MIG profile. "
                "Write it such as 1g.10gb, 1g.10gb+me or 1c.2g.20gb."
            ),
        ),
        (
            document(on(mig_devices={"1g.10gb": -1})),
            wording("mig-configs.mine[0].mig-devices.1g.10gb: -1 instances are a negative number."),
        ),
        (
            document(on(mig_devices={"1g.10gb": 2**63})),
            wording("mig-configs.mine[0].mig-devices.1g.10gb: 9223372036854775808 is not a whole number."),
        ),
        (
            document(on(mig_devices={"1g.10gb": 0})),
            wording(
                "mig-configs.mine[0].mig-devices: all counts are 0; an empty mapping ({}) is a GPU without instances."
            ),
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(data: t.Any, message: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        parted.read(data)
    assert (error.value.msg, error.value.reason) == (message, "Invalid")


# ---- resolving ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("0x20B010DE", 0x20B0),
        ("0x20b0_10de", 0x20B0),
        ("548409566", 0x20B0),
        ("0b00100000101100000001000011011110", 0x20B0),
        ("0o4054010336", 0x20B0),
        ("04054010336", 0x20B0),
        ("0x20B010DE:0x144E10DE", 0x20B0),
        ("20B010DE", None),
        ("0x20B0", None),
        ("0xFFFF10DE", 0xFFFF),
        ("0x1000010DE", None),
        ("0x20B010DE:x", None),
        ("0x20B010DE:0x1:0x1", None),
        ("", None),
    ],
)
def test_a_filter_is_a_number_as_go_reads_it(text: str, device: int | None) -> None:
    assert parted.filtered_device(text) == device


def test_of_several_entries_the_last_one_counts() -> None:
    entries = (LayoutEntry(None, True, {"1g.10gb": 7}), LayoutEntry((1,), False))
    assert parted.resolve(entries, gpus(H100, 3)) == {
        0: WantedLayout(True, {"1g.10gb": 7}),
        1: WantedLayout(False, {}),
        2: WantedLayout(True, {"1g.10gb": 7}),
    }


def test_filters_need_the_device_or_the_model() -> None:
    entries = (LayoutEntry(None, True, {}, ("0x20B110DE",)),)
    known = [
        NodeGpu(0, A100, 0x20B110DE),
        NodeGpu(1, A100, 0x20B010DE),
        NodeGpu(2, A100),
        NodeGpu(3, H100),
        NodeGpu(4, None),
    ]
    assert sorted(parted.resolve(entries, known)) == [0, 2]


def test_a_layout_is_checked_on_each_model_once() -> None:
    mixed = [NodeGpu(0, A30), NodeGpu(1, A30), NodeGpu(2, H100), NodeGpu(3, None), NodeGpu(4, None)]
    assert parted.check("mine", (LayoutEntry(None, True, {"3g.40gb": 2}),), mixed) == [
        "mine[0]: 3g.40gb is no profile of A30, which has 1g.6gb, 1g.6gb+me, 2g.12gb, 2g.12gb+me, 4g.24gb.",
        wording("mine[0]: MIG cannot divide GPU 3, or its profiles are unknown."),
    ]
    assert parted.check("mine", (LayoutEntry(None, False),), mixed) == []


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (LayoutEntry((0, 2, -1), True), wording(["mine[0]: there is no GPU 2, -1, only 2 GPUs from index 0."])),
        (
            LayoutEntry(None, True, {}, ("garbage", "0x233010DE")),
            wording(
                ["mine[0]: the device-filter 'garbage' matches no GPU; write NVIDIA's PCI device such as 0x20B010DE."]
            ),
        ),
        (
            LayoutEntry(None, True, {"3c.3g.40gb": 2}),
            wording(["mine[0]: write 3g.40gb for 3c.3g.40gb; by the other name it never counts as applied."]),
        ),
        (
            LayoutEntry(None, True, {"1g.10gb": 1, "2g.20gb": 0}),
            wording(["mine[0]: leave 2g.20gb out; with the count 0 the layout never counts as applied."]),
        ),
    ],
)
def test_what_mig_parted_misses_is_named(entry: LayoutEntry, problem: str) -> None:
    assert parted.check("mine", (entry, LayoutEntry((1,), False)), gpus(H100)) == problem


def test_an_entry_for_no_gpu_leaves_all_of_them() -> None:
    assert parted.check("mine", (LayoutEntry((), True),), gpus(H100)) == [
        wording("mine[0]: the list of devices is empty, so the entry is meant for no GPU."),
        wording("mine: no entry is meant for GPU 0, 1, so the layout does not count as applied."),
    ]
