# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines of logs in the forms in which people paste them."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.layout import Origin
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import logs

XID = "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("text", "kind", "source", "node"),
    [
        (f"Nov 20 04:12:09 gpu1 kernel: {XID}", "kernel", "kernel log", "gpu1"),
        ('{"level":"INFO","node":"gpu-7","msg":"failed"}', "text", "x.log", "gpu-7"),
        ('{"level":"INFO","node":"","msg":"failed"}', "text", "x.log", ""),
        (f"Nov  2 04:12:09.123456 gpu1.example.com kernel: [ 12.5] {XID}", "kernel", "kernel log", "gpu1.example.com"),
        (f"2026-11-20T04:12:09+0000 gpu1 kernel: {XID}", "kernel", "kernel log", "gpu1"),
        (f"2026-11-20T04:12:09.123456+00:00 gpu1 kernel: {XID}", "kernel", "kernel log", "gpu1"),
        (f"Fri 2026-11-20 04:12:09 UTC gpu1 kernel: {XID}", "kernel", "kernel log", "gpu1"),
        (f"[1234567.123456] {XID}", "kernel", "kernel log", ""),
        (f"[   12.123456] gpu1 kernel: {XID}", "kernel", "kernel log", "gpu1"),
        (f"[Fri Nov 20 04:12:09 2026] {XID}", "kernel", "kernel log", ""),
        (f"<3>[   12.123456] {XID}", "kernel", "kernel log", ""),
        (f"kern  :err   : [   12.123456] {XID}", "kernel", "kernel log", ""),
        (XID, "kernel", "kernel log", ""),
        ("               NVRM: fallen off the bus and is not responding to commands.", "kernel", "kernel log", ""),
        ("    someone writes NVRM: in a sentence", "text", "x.log", ""),
        ("Nov 20 04:12:09 gpu1 kubelet[123]: E1120 failed", "unit", "journal of kubelet", "gpu1"),
        ("Nov 20 04:12:09 gpu1 (dockerd)[1]: x", "unit", "journal of dockerd", "gpu1"),
        ("Nov 20 04:12:09 gpu1 k3s[9]: time=x", "unit", "journal of k3s", "gpu1"),
        ("2026-11-20T04:12:09.123456Z Error main: failed", "text", "x.log", ""),
        ("2026-11-20 04:12:09 ERROR main: failed", "text", "x.log", ""),
        ('time="2026-11-20" level=error msg="failed: x"', "text", "x.log", ""),
        ("[ERROR] something", "text", "x.log", ""),
    ],
)
def test_who_wrote_a_line_and_where(text: str, kind: str, source: str, node: str) -> None:
    line = logs.line_of(text, Origin(source="x.log"))
    assert (line.kind, line.source, line.node, line.text) == (kind, source, node, text)


def test_a_line_of_the_journal_in_json() -> None:
    entry = {"MESSAGE": XID, "_TRANSPORT": "kernel", "_HOSTNAME": "gpu1", "PRIORITY": "3"}
    line = logs.line_of(json.dumps(entry), Origin())
    assert (line.text, line.kind, line.source, line.node) == (XID, "kernel", "kernel log", "gpu1")
    unit = {"MESSAGE": "x", "SYSLOG_IDENTIFIER": "containerd"}
    line = logs.line_of(json.dumps(unit), Origin(node="n"))
    assert (line.text, line.source, line.node) == ("x", "journal of containerd", "n")
    broken = '{"MESSAGE": '
    assert logs.line_of(broken, Origin(source="s")).text == broken


def test_a_log_of_a_pod_keeps_its_source_except_for_lines_of_the_kernel_in_it() -> None:
    origin = Origin("pod", "pod a/b, container c", "", "pod a/b", "a")
    assert logs.line_of("Installing", origin).source == "pod a/b, container c"
    assert logs.line_of(f"[   12.123456] {XID}", origin).kind == "kernel"
    assert logs.line_of(XID, origin).kind == "pod"
    assert logs.line_of("[pod/b/c] x", origin).object == "pod a/b"


def test_a_long_line_is_cut() -> None:
    assert len(logs.line_of("x" * 10_000, Origin()).text) == 2000


def test_the_prefix_of_kubectl_names_the_pod_and_is_no_part_of_the_line() -> None:
    line = logs.line_of("[pod/nvidia-driver-x/ctr] Loading", Origin(source="x.log"))
    assert (line.kind, line.source, line.text) == ("pod", "pod nvidia-driver-x, container ctr", "Loading")
    before = logs.line_of("[pod/a/b] x", Origin("pod", "pod a, previous run", object="pod a"))
    assert before.source == "pod a, container b, previous run"
