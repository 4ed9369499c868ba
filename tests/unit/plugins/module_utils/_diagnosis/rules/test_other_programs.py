# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A library or an answer that does not fit, and sandboxes."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import other_programs

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/siderolabs/extensions/issues/751
        (
            "/usr/local/bin/nvidia-container-cli: error while loading shared libraries: libelf.so.1: cannot open",
            "ProgramLibraryMissing",
            "likely",
        ),
        # https://github.com/NVIDIA/dcgm-exporter/issues/509
        (
            "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (4753177 vs. 4194304)",
            "AnswerTooLarge",
            "likely",
        ),
        # https://github.com/google/gvisor/issues/12773
        (
            "FATAL ERROR: creating loader: registering filesystems: registering nvproxy driver: unsupported Nvidia driver version: 570.211.01",
            "SandboxDriverUnsupported",
            "certain",
        ),
        (
            "cannot create sandbox: cannot read client sync file: waiting for sandbox to start: EOF",
            "SandboxDoesNotStart",
            "possible",
        ),
        # https://github.com/NVIDIA/nvkind/issues/61
        ("umount: /proc/driver/nvidia: not mounted", "ProcDriverNotMounted", "likely"),
    ],
)
def test_published_lines(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(other_programs.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_an_unknown_driver_explains_why_the_sandbox_ends() -> None:
    lines = (
        "cannot read client sync file: waiting for sandbox to start: EOF",
        "registering nvproxy driver: unsupported Nvidia driver version: 550.90.07",
    )
    found = diagnosed.found(other_programs.RULES, *lines)
    assert [*found] == ["SandboxDriverUnsupported"]
    assert [each.code for each in found["SandboxDriverUnsupported"].consequences] == ["SandboxDoesNotStart"]


def test_a_library_that_another_program_lacks() -> None:
    text = "/usr/bin/jq: error while loading shared libraries: libonig.so.5: cannot open shared object file"
    assert diagnosed.found(other_programs.RULES, text) == {}
