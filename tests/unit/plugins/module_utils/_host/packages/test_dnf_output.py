# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import dnf_output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.dnf_catalog import Streams
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import Outcome
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import recorded


def test_reads_the_streams_of_nvidias_repository() -> None:
    assert dnf_output.streams_offered(recorded("dnf/module_list_fedora39.txt")) == (
        "latest",
        "latest-dkms",
        "open-dkms",
        "550",
        "550-dkms",
        "550-open",
    )
    assert "580-open" in dnf_output.streams_offered(recorded("dnf/module_list.txt"))
    assert dnf_output.streams_offered("Error: No matching Modules to list\n") == ()


def test_reads_the_enabled_stream() -> None:
    state = recorded("dnf/nvidia-driver.module")
    assert dnf_output.streams("", state) == Streams((), "580-open")
    assert dnf_output.stream_enabled(recorded("dnf/reset.module")) is None
    assert dnf_output.stream_enabled(state.replace("enabled", "disabled")) is None
    assert dnf_output.stream_enabled(f"{state}\n{state}") == "580-open"
    assert dnf_output.stream_enabled("damaged") is None and dnf_output.stream_enabled(None) is None


def test_reads_the_packages_that_repositories_offer() -> None:
    rows = dnf_output.available("Unable to detect release version\n" + recorded("dnf/repoquery.txt"))
    assert len(rows) == 21
    assert rows[0].name == "kmod-nvidia-580.95.05-5.14.0-427.13.1"
    assert (rows[0].full, rows[0].arch, rows[0].repository) == ("3:580.95.05-1.el9", "x86_64", "cuda")


def test_reads_what_a_transaction_would_do() -> None:
    assert dnf_output.outcome(recorded("dnf/install.txt")).install == {
        "kmod-nvidia-open-dkms": "3:580.95.05-1.el9",
        "nvidia-driver-cuda": "3:580.95.05-1.el9",
        "dkms": "3.1.8-1.el9",
        "libnvidia-ml": "3:580.95.05-1.el9",
        "nvidia-driver-cuda-libs": "3:580.95.05-1.el9",
        "nvidia-kmod-common": "3:580.95.05-1.el9",
        "nvidia-persistenced": "3:580.95.05-1.el9",
    }
    change = dnf_output.outcome(recorded("dnf/change.txt"))
    assert change.remove == ("kmod-nvidia-latest-dkms",) and len(change.install) == 6
    assert dnf_output.outcome("") == Outcome()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no_dkms", wording("No enabled repository offers dkms, which builds the driver's modules. Enable EPEL, which has it, "
                    "or a mirror of EPEL")),
        ("old_version", "No enabled repository offers kmod-nvidia-open-dkms-580.95.05"),
        ("conflict", "kmod-nvidia-open-dkms-3:580.95.05-1.el9.x86_64 conflicts with "
                     "kmod-nvidia-latest-dkms-3:580.82.07-1.el9.x86_64"),
        ("filtered", wording("The enabled module stream does not have nvidia-kmod-common-3:580.82.07-1.el9.x86_64")),
        ("switch", "The operation would result in switching of module 'nvidia-driver' stream '580-open' to stream "
                   "'590-open'"),
    ],
)  # fmt: skip
def test_a_refusal_of_dnf_is_one_sentence(text: str, reason: str) -> None:
    assert dnf_output.refusal("", recorded(f"dnf/{text}.txt")) == reason


def test_a_refusal_names_the_package_that_lacks_another() -> None:
    text = (
        "Error:\n Problem: conflicting requests\n  - nothing provides egl-gbm >= 1.1.2 needed by nvidia-driver-libs-3\n"
    )
    assert (
        dnf_output.refusal(text, "")
        == "No enabled repository offers egl-gbm >= 1.1.2, which nvidia-driver-libs-3 needs"
    )
    assert dnf_output.refusal("", "Error: \n") == "no message"


@given(st.text())
def test_no_output_is_a_traceback(text: str) -> None:
    assert isinstance(dnf_output.refusal(text, text), str)
    dnf_output.outcome(text)
    dnf_output.available(text)
    dnf_output.streams(text, text)
