# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The parts of a driver that are installed on a host, in words. Pure."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_ORIGINS = {
    "nvidia": "of NVIDIA's repository",
    "ubuntu": "of Ubuntu",
    "ubuntu-signed": "of Ubuntu's signed modules",
    "debian": "of Debian",
    "runfile": "of a .run file",
}


def own_driver(facts: Json) -> list[str]:
    """Return the parts of a driver that are installed on the host. Those of a driver container do not count."""
    driver, services = facts["driver"], facts.get("services") or {}
    packages = sorted(service["package"] for service in services.values() if service["package"])
    version = driver["userspace_version"] or driver.get("installed_version")
    if version and not driver["containerised"]:
        origin = _ORIGINS.get(driver.get("origin") or "", "")
        return [f"the driver {version}{f' {origin}' if origin else ''}", *packages]
    return packages
