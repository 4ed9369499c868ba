# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands ``python -m lab hosts`` and ``python -m lab vm``: wrong options, and hosts that do not exist."""

from __future__ import annotations

import pytest

from lab.cli import main


@pytest.mark.parametrize("flavour", ["arch", "debian=", "debian=two", "rhel=-1"])
def test_an_invalid_flavour_is_refused(flavour: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["hosts", "up", "--flavour", flavour])
    assert f"{flavour!r} is not FLAVOUR or FLAVOUR=N with one of debian, ubuntu, rhel" in capsys.readouterr().err


def test_nvswitches_need_a_model_that_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hosts", "up", "--model", "l40s", "--nvswitches", "2"]) == 1
    assert "l40s has no NVSwitches. Leave out --nvswitches or choose a100-sxm" in capsys.readouterr().err


def test_a_set_without_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "down"):
        assert main(["hosts", command, "--name", "nothing"]) == 0
        assert capsys.readouterr().out == "There are no container hosts in the set nothing.\n"


@pytest.mark.parametrize("command", ["inventory", "ssh"])
def test_a_virtual_machine_that_does_not_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vm", command, "--name", "nothing"]) == 1
    expected = "lab: There is no virtual machine nothing. Start one with `python -m lab vm up`.\n"
    assert capsys.readouterr().err == expected
