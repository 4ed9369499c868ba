# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import acs
from inline_snapshot import snapshot as wording

from tests.unit.fakes.bridges import put_bridge, setpci
from tests.unit.fakes.host import FakeHost

RULE = "/etc/udev/rules.d/90-gpuops-acs.rules"
MATCH = 'ACTION=="add", SUBSYSTEM=="pci", ATTR{class}=="0x0604*"'


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A host with two bridges with ACS, of which one is on."""
    host = FakeHost(tmp_path)
    put_bridge(host, "0000:00:01.0", 0x001D)
    put_bridge(host, "0000:00:02.0", 0)
    put_bridge(host, "0000:00:03.0", None)
    setpci(host)
    return host


def apply(host: FakeHost, state: str = "present", check: bool = False) -> dict[str, t.Any]:
    return acs.set_acs(host, {"state": state}, check)


def four_steps(host: FakeHost, state: str = "present") -> dict[str, t.Any]:
    """Check, run, check again and run again. Return the result of the first run."""
    predicted = apply(host, state, check=True)
    done = apply(host, state)
    assert predicted == done
    assert [apply(host, state, check=check)["changed"] for check in (True, False)] == [False, False]
    return done


def registers(result: dict[str, t.Any]) -> list[str]:
    return [bridge["control"] for bridge in result["bridges"]]


def test_turned_off_with_the_real_path_of_setpci_and_given_back(host: FakeHost) -> None:
    done = four_steps(host)
    assert done["changed"] and registers(done) == ["0000", "0000"]
    assert (host.read(RULE) or "").splitlines()[1:] == [
        "# before: 0000:00:01.0 = 001d",
        f'{MATCH}, RUN+="/usr/bin/setpci -s %k ECAP_ACS+0x6.w=0000"',
    ]
    assert host.ran == [["setpci", "-s", "0000:00:01.0", "ECAP_ACS+0x6.w=0000"]]
    assert done["diff"][1]["before"].splitlines()[0] == "0000:00:01.0: 001d"

    back = four_steps(host, "absent")
    assert back["changed"] and registers(back) == ["001d", "0000"]
    assert not host.exists(RULE)


def test_a_bridge_that_has_come_back_is_turned_off_again_and_keeps_its_former_value(host: FakeHost) -> None:
    apply(host)
    put_bridge(host, "0000:00:01.0", 0x0011)
    put_bridge(host, "0000:00:04.0", 0x0001)
    assert registers(four_steps(host)) == ["0000", "0000", "0000"]
    put_bridge(host, "0000:00:04.0", 0x0008)  # somebody else has set it
    assert registers(four_steps(host, "absent")) == ["001d", "0000", "0008"]


def test_a_recorded_bridge_that_was_removed_is_no_obstacle(host: FakeHost) -> None:
    apply(host)
    host.remove("/sys/bus/pci/devices/0000:00:01.0/config")
    assert apply(host, "absent")["changed"] and not host.exists(RULE)


def test_a_kernel_that_refuses_is_an_error_and_leaves_no_rule(host: FakeHost) -> None:
    host.commands["setpci"] = ""
    with pytest.raises(GpuOpsError) as error:
        apply(host)
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "The ACS of the PCIe bridge 0000:00:01.0 is 001d instead of 0000 after setpci. A kernel that is locked down by secure boot refuses this: use the kernel argument pci=disable_acs_redir= instead."
    )
    assert not host.exists(RULE)


def test_what_setpci_says_is_in_the_message_and_an_older_rule_stays(host: FakeHost) -> None:
    apply(host)
    put_bridge(host, "0000:00:01.0", 0x001D)

    def refuse(_command: list[str]) -> str:
        raise OSError("Operation not permitted")

    host.commands["setpci"] = refuse
    before = host.read(RULE)
    with pytest.raises(GpuOpsError) as error:
        apply(host)
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "The ACS of the PCIe bridge 0000:00:01.0 is 001d instead of 0000 after setpci: setpci ended with 1: Operation not permitted. A kernel that is locked down by secure boot refuses this: use the kernel argument pci=disable_acs_redir= instead."
    )
    assert host.read(RULE) == before


def test_without_setpci_only_a_check_is_possible(host: FakeHost) -> None:
    del host.commands["setpci"]
    assert apply(host, check=True)["changed"]
    with pytest.raises(GpuOpsError, match="Install pciutils") as error:
        apply(host)
    assert error.value.reason == "NotFound" and not host.exists(RULE)
    assert not apply(host, "absent")["changed"]
