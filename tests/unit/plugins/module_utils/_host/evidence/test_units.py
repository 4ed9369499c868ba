# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.evidence import units
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from tests.unit.fakes.host import FakeHost

SHOWN = """\
Id=nvidia-fabricmanager.service
LoadState=loaded
ActiveState=failed
SubState=failed
Result=exit-code
NRestarts=3
UnitFileState=enabled

Id=docker.service
LoadState=not-found
ActiveState=inactive
"""


def test_the_services_that_exist() -> None:
    assert units.states(Output(SHOWN)) == {
        "nvidia-fabricmanager.service": {
            "load": "loaded",
            "active": "failed",
            "sub": "failed",
            "result": "exit-code",
            "restarts": 3,
            "enabled": "enabled",
        }
    }
    assert units.states(Output(error="systemctl is not installed")) == {}


def test_a_journal_is_read_newest_first_and_returned_oldest_first(tmp_path: Path) -> None:
    messages: list[object] = ["third", list(b"second \xff"), 4711, "x" * 5000]
    text = "\n".join(["no JSON", "[]", *(json.dumps({"MESSAGE": message}) for message in messages)])
    host = FakeHost(tmp_path, journalctl=text)
    assert units.journal(host, "kubelet.service", 10) == [
        "x" * units.UNIT_LINE_LENGTH,
        "second \N{REPLACEMENT CHARACTER}",
        "third",
    ]
    (command,) = host.ran
    assert {"--unit=kubelet.service", "--boot", "--lines=10", "--reverse", "--output=json"} <= set(command)


def test_a_journal_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert units.journal(FakeHost(tmp_path), "kubelet.service", 10) == []
