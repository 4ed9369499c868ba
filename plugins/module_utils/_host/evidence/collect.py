# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""What a diagnosis needs of a host beyond its facts, in one pass that a hung driver does not stop.

Everything that may hang runs beside this process: commands are killed at their time limit and left behind, and the look
at processes happens in a child.
"""

from __future__ import annotations

import concurrent.futures
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.evidence import (
    kernel_lines,
    machine,
    processes,
    runtime_files,
    units,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import kernel_log
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.forked import Child
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask, mask_text
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

WORKERS = 8


def collect(host: Host, timeout_s: float, most: int) -> Json:
    """Return the state of a host, and at most ``most`` lines of the kernel log and of the journal of each service."""
    # The child must start before the threads, because it is not safe to fork a process that has threads.
    child, deadline = Child(lambda: processes.look(host)), time.monotonic() + timeout_s
    with concurrent.futures.ThreadPoolExecutor(max_workers=WORKERS) as pool:
        log = pool.submit(kernel_log.kernel_log, host, kernel_lines.WANTED)
        asked = {
            "services": pool.submit(units.query, host),
            "dkms": pool.submit(host.run, machine.DKMS),
            "mok_pending": pool.submit(host.run, machine.MOK),
        }
        services = units.states(asked["services"].result())
        journals = {
            unit: pool.submit(units.journal, host, unit, most)
            for unit, state in services.items()
            if state["load"] == "loaded"
        }
        outputs = {name: future.result() for name, future in asked.items()}
        messages = {unit: future.result() for unit, future in journals.items()}
        kernel_output, source = log.result()
    state = {**_state(host, outputs, services), "stuck": _stuck(child, deadline)}
    state["sources"] = _reasons(outputs, state)
    if not kernel_output.ok:
        state["sources"]["kernel_log"] = f"{source}: {kernel_output.error}"
    denials = [{"text": text, "kind": "kernel", "source": "audit log"} for text in machine.denials(host, most)]
    lines = [*_kernel_lines(kernel_output, most), *denials, *_unit_lines(messages)]
    return {"state": mask(state), "lines": lines}


def _state(host: Host, outputs: t.Mapping[str, Output], services: Json) -> Json:
    return {
        "services": services if outputs["services"].ok else None,
        "dkms": machine.dkms(outputs["dkms"]),
        "mok_pending": machine.mok_pending(outputs["mok_pending"]),
        "runtimes": runtime_files.observe(host),
        "cgroups": machine.cgroups(host),
        "links_missing": machine.links_missing(host),
        "driver_gpus": machine.driver_gpus(host),
        "selinux": machine.selinux(host),
    }


def _stuck(child: Child, deadline: float) -> list[Json] | None:
    """Return the processes that are stuck. What a child that hangs has not said is unknown."""
    answer = child.read(deadline)
    found = answer.messages()
    return found if found or not answer.timed_out else None


def _reasons(outputs: t.Mapping[str, Output], state: Json) -> dict[str, str]:
    """Return why each field that is null is unknown."""
    reasons = {name: str(output.error) for name, output in outputs.items() if not output.ok and state[name] is None}
    if state["stuck"] is None:
        reasons["stuck"] = "The look at the processes did not end in time"
    return reasons


def _kernel_lines(log: Output, most: int) -> list[Json]:
    found = kernel_lines.chosen(log.stdout, most) if log.ok else []
    return [{"text": mask_text(line), "kind": "kernel", "source": "kernel log"} for line in found]


def _unit_lines(messages: t.Mapping[str, t.Sequence[str]]) -> list[Json]:
    return [
        {"text": mask_text(text), "kind": "unit", "source": f"journal of {unit[: -len('.service')]}"}
        for unit, texts in sorted(messages.items())
        for text in texts
    ]
