# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Xids that a text tells in other words than the kernel's."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import xid_words
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import catalogue

from tests.unit import diagnosed


@pytest.mark.parametrize(
    "text",
    [
        # https://github.com/NVIDIA/NVSentinel/pull/714
        '{"level":"INFO","node":"aks-gpu-1","message":"GPU had an uncontained error (XID 95) Drain the GPU"}',
        "we got xid 79 on node7, what now?",
        "XID error: 79 on GPU 3 of the training node, the job was restarted by the scheduler and failed once more there",
    ],
)
def test_an_xid_in_words_is_told_with_its_meaning(text: str) -> None:
    found = diagnosed.found(xid_words.RULES, text)["XidToldInWords"]
    assert found.certainty == "possible" and "journalctl -k -g 'Xid" in found.remedy


def test_the_meaning_is_that_of_nvidias_catalog() -> None:
    found = diagnosed.found(xid_words.RULES, "xid 79 again")["XidToldInWords"]
    assert str(catalogue.meaning(79)) in found.cause


@pytest.mark.parametrize(
    "text",
    [
        "Ignoring the following Xids for health checks: xid 13, xid 31 on GPU 0",
        "DHCPREQUEST of 10.0.0.7 on eth0 to 10.0.0.1 port 67 (xid=0x5f2b1c77), which the server of the rack answered",
        "the transaction with xid 79 of the database was committed after it had waited for the lock of the table",
        "GPU 0 reports xid 998",
    ],
)
def test_other_words_with_xid_are_no_error(text: str) -> None:
    assert diagnosed.found(xid_words.RULES, text) == {}


def test_the_line_of_the_kernel_says_more() -> None:
    kernel = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    assert diagnosed.found(xid_words.RULES, "we got xid 79", kernel) == {}
