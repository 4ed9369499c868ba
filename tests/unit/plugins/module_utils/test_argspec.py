# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specs include others with their relations, and Ansible takes them whole."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec

NODES = ArgumentSpec(
    {"nodes": {"type": "list", "elements": "str"}, "node_selector": {"type": "dict"}},
    mutually_exclusive=[("nodes", "node_selector")],
    required_by={"nodes": ["state"]},
)
STATE = ArgumentSpec(
    {"state": {"type": "str", "choices": ["present", "absent"]}, "text": {"type": "str"}, "path": {"type": "path"}},
    required_if=[("state", "present", ("text",))],
    required_one_of=[("state", "path")],
    required_together=[("text", "state")],
    required_by={"nodes": ["path"]},
)


def errors(spec: ArgumentSpec, **given: object) -> list[str]:
    """Return what Ansible says about these options."""
    return list(ArgumentSpecValidator(**spec.arguments).validate(given).error_messages)


def test_a_spec_includes_the_options_and_relations_of_others() -> None:
    both = NODES.including(STATE)
    assert list(both.options) == ["nodes", "node_selector", "state", "text", "path"]
    assert both.relations == {
        "mutually_exclusive": [("nodes", "node_selector")],
        "required_together": [("text", "state")],
        "required_one_of": [("state", "path")],
        "required_if": [("state", "present", ("text",))],
        "required_by": {"nodes": ["state", "path"]},
    }
    assert NODES.relations.keys() == {"mutually_exclusive", "required_by"}, "it stays as it was"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nodes": ["a"], "node_selector": {}, "state": "absent", "text": "x", "path": "y"}, "mutually exclusive"),
        ({"state": "present", "path": "y"}, "state is present but all of the following are missing: text"),
        ({}, "one of the following is required: state, path"),
        ({"text": "x", "path": "y"}, "parameters are required together: text, state"),
        ({"nodes": ["a"], "path": "y"}, "missing parameter(s) required by 'nodes': state"),
    ],
)
def test_ansible_checks_every_kind_of_relation(given: dict[str, object], said: str) -> None:
    found = errors(NODES.including(STATE), **given)
    assert any(said in error for error in found), found


def test_parts_may_share_an_option_that_they_describe_alike() -> None:
    assert NODES.including(ArgumentSpec({"node_selector": {"type": "dict"}})).options == NODES.options
    with pytest.raises(ValueError, match=r"^node_selector: two parts"):
        NODES.including(ArgumentSpec({"node_selector": {"type": "str"}}))


def test_an_option_can_have_options_with_relations() -> None:
    outer = ArgumentSpec({"one": NODES.as_dict(default={}), "many": NODES.as_list(required=True)})
    assert outer.options["one"]["type"] == "dict" and outer.options["one"]["default"] == {}
    assert {key: outer.options["many"].get(key) for key in ("type", "elements", "required", "default")} == {
        "type": "list",
        "elements": "dict",
        "required": True,
        "default": None,
    }
    both = {"nodes": ["a"], "node_selector": {}}
    assert errors(outer, many=[]) == []
    (said,) = {
        error.partition(" found in ")[0] for error in errors(outer, one=both, many=[both]) if "mutually" in error
    }
    assert said == "parameters are mutually exclusive: nodes|node_selector"
