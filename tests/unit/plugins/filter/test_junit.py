# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.junit import FilterModule, junit
from inline_snapshot import snapshot as wording


def test_counts_and_order_follow_the_checks() -> None:
    suite = ET.fromstring(
        junit(
            [
                {"name": "a", "classname": "smoke", "time": 1.25},
                {"name": "b", "failure": "no GPU", "output": "last line"},
                {"name": "c", "skipped": True, "message": "busy"},
                {"name": "d", "failure": True, "skipped": True, "message": "both"},
            ],
            "fleet",
        )
    )
    assert suite.attrib == {
        "name": "fleet",
        "tests": "4",
        "failures": "2",
        "errors": "0",
        "skipped": "1",
        "time": "1.250",
    }
    assert [case.get("name") for case in suite] == ["a", "b", "c", "d"]
    assert suite[0].attrib == {"classname": "smoke", "name": "a", "time": "1.250"} and len(suite[0]) == 0
    failure = suite.find("testcase[@name='b']/failure")
    assert (failure.attrib, failure.text) == ({"message": "no GPU", "type": "failed"}, "no GPU")
    assert suite.find("testcase[@name='b']/system-out").text == "last line"
    skipped = suite.find("testcase[@name='c']/skipped")
    assert (skipped.attrib, skipped.text) == ({"message": "busy"}, None)
    assert [child.tag for child in suite[3]] == ["failure"]


def test_no_checks_make_an_empty_suite() -> None:
    assert ET.fromstring(junit([])).get("tests") == "0"


def test_characters_that_xml_does_not_allow_are_left_out() -> None:
    text = junit(
        [
            {
                "name": 'n<>&"',
                "failure": "\x1b[31mred\x1b[0m",
                "output": "nul\x00 bell\x07 \ufffe emoji \U0001f600\n\ttab",
            }
        ]
    )
    case = ET.fromstring(text)[0]
    assert case.get("name") == 'n<>&"'
    assert case.find("failure").get("message") == "red"
    assert case.find("system-out").text == "nul bell  emoji \U0001f600\n\ttab"


@pytest.mark.parametrize("checks", ["text", {"name": "a"}, ["a"], [{"classname": "x"}], None])
def test_other_input_is_refused(checks: object) -> None:
    with pytest.raises(AnsibleFilterError, match="list of dictionaries"):
        junit(checks)


def test_a_time_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(AnsibleFilterError) as error:
        junit([{"name": "a", "time": "soon"}])
    assert str(error.value) == wording(
        "gpuops.nvidia.junit: the time of a is not a number: 'soon': could not convert string to float: 'soon'"
    )


def test_the_plugin_has_the_filter() -> None:
    assert FilterModule().filters() == {"junit": junit}
