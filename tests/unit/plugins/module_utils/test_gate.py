# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What leaves a module is free of secrets and of control characters."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils import _gate

HIDDEN = "VALUE_HIDDEN"


def test_what_is_shown_has_neither_secrets_nor_control_characters() -> None:
    given = {"apiKey": "nvapi-secret", "line": "a\u202eb\x1b[31m pw=hunter22"}
    assert _gate.shown(given) == {"apiKey": HIDDEN, "line": f"a\\u202eb\\x1b[31m pw={HIDDEN}"}


def test_a_key_that_is_passed_on_keeps_its_secrets_and_stays_printable() -> None:
    policy = {"env": [{"name": "A_TOKEN", "value": "hunter22\x1b"}]}
    found = _gate.result({"clusterpolicy": policy, "spec": policy}, ("clusterpolicy", "absent"))
    assert found["clusterpolicy"] == {"env": [{"name": "A_TOKEN", "value": "hunter22\\x1b"}]}
    assert found["spec"] == {"env": [{"name": "A_TOKEN", "value": HIDDEN}]} and set(found) == {"clusterpolicy", "spec"}


def test_a_sentence_is_masked_and_short() -> None:
    assert _gate.sentence("GET http://ann:hunter22@h failed") == f"GET http://{HIDDEN}@h failed"
    assert len(_gate.sentence("x" * 20_000)) < 9_000
