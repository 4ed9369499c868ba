# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module driver_packages with Debian's own packages of the driver, of which bookworm has three versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hosts import running_release
from tests.support.real_packages import Release

OLDER, NEWER = "535.216.03", "535.261.03"
PINS = "/etc/apt/preferences.d/gpuops-nvidia"
DRIVER = {
    "nvidia-kernel-dkms",
    "nvidia-smi",
    "libcuda1",
    "libnvidia-ml1",
    "nvidia-alternative",
    "nvidia-kernel-support",
}


@pytest.mark.wide
def test_a_version_a_change_the_way_back_and_the_removal(tmp_path: Path) -> None:
    with running_release("packages", "bookworm") as hosts:
        release = Release(hosts, tmp_path)
        release.add_backports()
        release.without_compiler_and_firmware(OLDER, NEWER)
        host, driver = release.host, release.driver

        # The older version, although the newer one is the candidate of all dependencies.
        older = {"version": OLDER, "flavour": "proprietary"}
        predicted = driver(check=True, **older)
        assert release.versions() == {} and predicted["action"] == "install"
        done = driver(persistence=True, **older)
        steps = {step["name"]: step["version"] for step in done["transaction"]["install"]}
        assert {step["name"] for step in predicted["transaction"]["install"]} < steps.keys()
        assert {release.versions()[name] for name in DRIVER} == {OLDER}
        # Debian's persistence daemon is older than its driver.
        assert release.versions()["nvidia-persistenced"] == "535.171.04"
        assert driver(**older)["changed"] is False
        # The pins hold the version against a plain upgrade, too.
        assert "nvidia" not in host.shell("apt-get --simulate dist-upgrade | grep ^Inst || true")

        # It is adopted, whatever is in the repositories, and another one needs permission.
        assert driver(branch="535", check=True)["action"] != "change"
        newer = {"version": NEWER, "flavour": "proprietary"}
        assert (
            f"The host has the driver {OLDER} of Debian, and the driver {NEWER} of Debian is asked for."
            in (driver(**newer)["msg"])
        )

        # Everything changes together, in spite of a hold, and comes back from the kept files.
        host.run("apt-mark", "hold", "nvidia-smi")
        changed = driver(replace=True, **newer)
        assert {release.versions()[name] for name in DRIVER} == {NEWER}
        assert host.run("apt-mark", "showhold").split() == ["nvidia-smi"]
        assert changed["former"]["version"] == OLDER and changed["way_back"]["possible"]
        host.shell("rm /etc/apt/sources.list.d/backports.list")
        assert driver(state="restored", former=changed["former"])["action"] == "restore"
        assert {release.versions()[name] for name in DRIVER} == {OLDER}
        assert f"Pin: version {OLDER}*" in host.read(PINS)

        # A branch with other names replaces it as a whole.
        branch = driver(branch="470", flavour="proprietary", replace=True)
        assert branch["wanted"]["version"] == "470.256.02" == release.versions()["nvidia-tesla-470-smi"]
        assert not set(release.versions()) & (DRIVER | {"libnvidia-cfg1"})

        assert driver(state="absent")["action"] == "remove"
        left = set(release.versions()) - {"firmware-for-tests"}
        assert left == set() and not host.shell(f"ls {PINS} 2> /dev/null || true")
        assert driver(state="absent")["changed"] is False
