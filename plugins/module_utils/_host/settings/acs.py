# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The access control services (ACS) of PCIe bridges: turned off now and at every boot, and given back.

The rule for udev that does this at boot also records the registers' former values.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import acs_facts
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

RULE = "/etc/udev/rules.d/90-gpuops-acs.rules"
_HEADER = owners.header("pcie_acs", "setting")
_BEFORE_LINE = re.compile(r"^# before: (\S+) = ([0-9a-f]{4})$", re.MULTILINE)

Registers = dict[str, int]


def set_acs(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Turn ACS off or give it back, and return the module's result. In check mode, predict the result."""
    text, now = _text(host.read(RULE)), acs_facts.bridges(host)
    target, wanted = _plan(host, options["state"], text, now, check_mode)
    differing = {address: value for address, value in target.items() if now[address] != value}
    changed = bool(differing) or wanted != text
    if changed and not check_mode:
        _apply(host, differing, text, wanted)
    after = {**now, **differing} if check_mode else acs_facts.bridges(host)
    diff = [_diff(RULE, text, wanted), _diff("bridges", _lines(now), _lines(after))]
    return {"changed": changed, "bridges": _shown(after), "diff": diff}


def _plan(host: Host, state: str, text: str, now: Registers, check_mode: bool) -> tuple[Registers, str]:
    """Return the registers and the rule as they should be."""
    before = {address: int(value, 16) for address, value in _BEFORE_LINE.findall(text)}
    if state == "present":
        return dict.fromkeys(now, 0), _rule(host, {**_enabled(now), **before}, check_mode)
    # Somebody may have set another value since.
    return {address: value for address, value in before.items() if now.get(address) == 0}, ""


def _enabled(registers: Registers) -> Registers:
    return {address: value for address, value in registers.items() if value}


def _text(read: str | None) -> str:
    return "" if read is None else f"{read}\n"


def _rule(host: Host, before: Registers, check_mode: bool) -> str:
    """Return the text of the rule. udev runs only commands with their whole path, which differs between systems."""
    command = host.which("setpci")
    if command is None and not check_mode:
        raise GpuOpsError(
            "The registers of PCIe bridges are set with setpci, which this host does not have. Install pciutils.",
            reason="NotFound",
        )
    lines = [f"# before: {address} = {value:04x}\n" for address, value in before.items()]
    when = 'ACTION=="add", SUBSYSTEM=="pci", ATTR{class}=="0x0604*"'
    return f'{_HEADER}{"".join(lines)}{when}, RUN+="{command or "setpci"} -s %k ECAP_ACS+0x6.w=0000"\n'


def _apply(host: Host, registers: Registers, text: str, wanted: str) -> None:
    """Write the rule first, since it records the former values. Remove it last, for the same reason."""
    if wanted:
        host.write(RULE, wanted)
    try:
        for address, value in registers.items():
            _set(host, address, value)
    except GpuOpsError:
        if wanted and not text:
            host.remove(RULE)
        raise
    if not wanted:
        host.remove(RULE)


def _set(host: Host, address: str, value: int) -> None:
    """Set one register, and read it back."""
    output = host.run(["setpci", "-s", address, f"ECAP_ACS+0x6.w={value:04x}"])
    found = acs_facts.control(host, address)
    if found != value:
        shown = "unknown" if found is None else f"{found:04x}"
        said = f": {output.error}" if output.error else ""
        raise GpuOpsError(
            f"The ACS of the PCIe bridge {address} is {shown} instead of {value:04x} after setpci{said}. A kernel that "
            "is locked down by secure boot refuses this: use the kernel argument pci=disable_acs_redir= instead.",
            reason="Unsupported",
        )


def _shown(registers: Registers) -> list[Json]:
    return [{"address": address, "control": f"{value:04x}"} for address, value in registers.items()]


def _lines(registers: Registers) -> str:
    return "".join(f"{address}: {value:04x}\n" for address, value in registers.items())


def _diff(header: str, before: str, after: str) -> Json:
    return {"before": before, "after": after, "before_header": header, "after_header": header}
