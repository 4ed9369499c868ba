# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.systems import refusal, system
from inline_snapshot import snapshot as wording

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost


@pytest.mark.parametrize(
    ("system", "version"),
    [
        ("debian", "12"),
        ("debian", "13"),
        ("debian", ""),
        ("ubuntu", "22.04"),
        ("ubuntu", "26.04"),
        ("rhel", "9.6"),
        ("rocky", "9.4"),
        ("almalinux", "10.1"),
        ("centos", "10"),
        ("ol", "9.7"),
    ],
)
def test_supported_systems(system: str, version: str) -> None:
    assert refusal({"ID": system, "VERSION_ID": version}) == ""


@pytest.mark.parametrize(
    ("system", "version", "name"),
    [
        ("debian", "11", "debian 11"),
        ("ubuntu", "20.04", "ubuntu 20.04"),
        ("ubuntu", "", "ubuntu"),
        ("sles", "15.6", "sles 15.6"),
        ("amzn", "2023", "amzn 2023"),
        ("rhel", "7.9", "rhel 7.9"),
        ("", "", "an unknown system"),
    ],
)
def test_other_systems(system: str, version: str, name: str) -> None:
    assert f"support {name}," in refusal({"ID": system, "VERSION_ID": version})


@pytest.mark.parametrize("system", ["rhel", "rocky", "almalinux", "ol", "centos"])
def test_enterprise_linux_8(system: str) -> None:
    assert refusal({"ID": system, "VERSION_ID": "8.10"}) == (
        wording(
            "The package manager of Enterprise Linux 8 works only with Python 3.6, "
            "with which no supported ansible-core works."
        )
    )


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('ID=debian\nVERSION_ID="12"\n', ("debian", "12", "debian")),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', ("ubuntu", "24.04", "debian")),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n', ("linuxmint", "22", "debian")),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n', ("rocky", "9.6", "redhat")),
        ('ID="ol"\nID_LIKE="fedora"\nVERSION_ID="9.6"\n', ("ol", "9.6", "redhat")),
        ('ID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\n', ("amzn", "2023", "redhat")),
        ('ID="sles"\nID_LIKE="suse"\nVERSION_ID="15.6"\n', ("sles", "15.6", None)),
        ("ID=debian\n", ("debian", None, "debian")),
        ("", (None, None, None)),
    ],
)
def test_the_system_and_its_family(tmp_path: Path, text: str, facts: tuple[str | None, ...]) -> None:
    write(tmp_path / "etc/os-release", text)
    section = system(FakeHost(tmp_path))
    assert tuple(section.facts.values()) == facts
    unknown = {name for name, source in section.sources.items() if source["source"] is None}
    assert unknown == {name for name, value in section.facts.items() if value is None}
    assert all(section.sources[name]["reason"] for name in unknown)
