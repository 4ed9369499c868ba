# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Asks NVML, the driver's library, in a child process that may hang or crash. Only this file imports pynvml."""

from __future__ import annotations

import ctypes
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host import forked
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import health, mig
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import (
    NVML,
    DriverReport,
    GpuReport,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import recovery
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.address import normal_address

try:
    # Only the child imports it, while the parent does other work.
    from importlib.util import find_spec

    HAS_PYNVML = find_spec("pynvml") is not None
except (ImportError, ValueError):
    HAS_PYNVML = False

_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_FABRIC_STATES = {1: "Not Started", 2: "In Progress", 3: "Completed"}
_PEER_TYPES = ("Direct Connected", "Switch Connected")
_RECOVERY_ACTION = 230
"""The field of NVML that says what the driver recommends to do about a GPU. Older bindings do not name it."""
_MEBIBYTE = 1024 * 1024
_MOST_GPUS = 256
"""More GPUs than any machine has: a driver that counts more is not believed."""
_END = "done"
_NO_TEXT = "NVML: a text that is not UTF-8"


class NvmlChild:
    """A process that asks NVML. Start it first, and read its answer last."""

    def __init__(self, library: str | None = None) -> None:
        """Fork. ``library`` is the path of NVML's library if the linker cannot find it, as in a driver container."""
        self._child = forked.Child(lambda: ask(library))

    def answer(self, deadline: float) -> DriverReport:
        """Return what the child has reported by ``deadline`` (of the monotonic clock)."""
        return parse_answer(self._child.read(deadline))


def parse_answer(answer: forked.Answer) -> DriverReport:
    """Read the child's answer."""
    driver_version, reason, complete = None, None, False
    gpus = []
    for message in answer.messages():
        driver_version = message.get("driver_version", driver_version)
        reason = message.get("reason", reason)
        complete = complete or _END in message
        if "gpu" in message:
            gpus.append(GpuReport(**message["gpu"]))
    if answer.timed_out:
        reason = "NVML did not answer in time, because the driver hangs"
    elif not complete and reason is None:
        number = answer.signal_number
        reason = f"NVML's process ended by signal {number}" if number else "NVML's process ended early"
    return DriverReport(NVML, driver_version, gpus, reason, answer.timed_out)


def ask(library: str | None) -> t.Iterator[Json]:
    """Ask NVML for everything, and yield the report on each GPU as soon as it is complete."""
    import pynvml  # noqa: PLC0415

    try:
        if library:
            # pynvml loads the library by its name, which the linker then knows.
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        pynvml.nvmlInit()
        yield {"driver_version": _string(pynvml.nvmlSystemGetDriverVersion())}
        count = pynvml.nvmlDeviceGetCount()
        if count > _MOST_GPUS:
            yield {"reason": f"NVML counts {count} GPUs, which no machine has"}
            return
        for index in range(count):
            yield {"gpu": _gpu(pynvml, index)}
    except UnicodeDecodeError:
        yield {"reason": _NO_TEXT}
    except (pynvml.NVMLError, OSError) as e:
        yield {"reason": f"NVML: {e}"}
    else:
        yield {_END: True}


def _gpu(nvml: t.Any, index: int) -> Json:
    address = None
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        address = normal_address(_string(nvml.nvmlDeviceGetPciInfo_v3(handle).busId))
    except nvml.NVMLError as e:
        lost = e.value == nvml.NVML_ERROR_GPU_IS_LOST
        return {"address": address, "lost": lost, "reasons": dict.fromkeys(QUESTIONS, f"NVML: {e}")}
    except UnicodeDecodeError:
        return {"address": None, "lost": False, "reasons": dict.fromkeys(QUESTIONS, _NO_TEXT)}
    values, reasons = {}, {}
    for field, question in QUESTIONS.items():
        try:
            values[field] = question(nvml, handle)
        except AttributeError as e:
            reasons[field] = f"The installed nvidia-ml-py is too old ({e})"
        except UnicodeDecodeError:
            reasons[field] = _NO_TEXT
        except nvml.NVMLError as e:
            reasons[field] = f"NVML: {e}"
            if e.value == nvml.NVML_ERROR_GPU_IS_LOST:
                return {"address": address, "lost": True, "reasons": dict.fromkeys(QUESTIONS, f"NVML: {e}")}
    return {"address": address, "values": values, "reasons": reasons}


def _string(value: t.Any) -> t.Any:
    """Return text. Older versions of nvidia-ml-py return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _optional(nvml: t.Any, call: t.Callable[..., t.Any], *arguments: t.Any) -> t.Any:
    """Return the answer to one call, or None if the GPU or driver does not support it. Raise if the GPU is lost."""
    try:
        return call(*arguments)
    except nvml.NVMLError as e:
        if e.value == nvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return None


def _pcie(nvml: t.Any, handle: t.Any) -> dict[str, int | None]:
    together = nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)
    return {
        "generation": nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
        "generation_max": _optional(nvml, nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration, handle) or together,
        "generation_host": together,
        "width": nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
        "width_max": nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
    }


def _clocks(nvml: t.Any, handle: t.Any) -> dict[str, int | None]:
    graphics, memory = nvml.NVML_CLOCK_GRAPHICS, nvml.NVML_CLOCK_MEM
    return {
        "graphics_max": nvml.nvmlDeviceGetMaxClockInfo(handle, graphics),
        "memory_max": _optional(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, memory),
        "graphics_application": _optional(nvml, nvml.nvmlDeviceGetApplicationsClock, handle, graphics),
        "memory_application": _optional(nvml, nvml.nvmlDeviceGetApplicationsClock, handle, memory),
    }


def _ecc(nvml: t.Any, handle: t.Any) -> Json:
    enabled, pending = nvml.nvmlDeviceGetEccMode(handle)

    def errors(kind: int, counter: int) -> t.Any:
        return _optional(nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, kind, counter)

    corrected, uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return {
        "enabled": bool(enabled),
        "pending": bool(pending),
        "corrected": errors(corrected, nvml.NVML_VOLATILE_ECC),
        "uncorrected": errors(uncorrected, nvml.NVML_VOLATILE_ECC),
        "corrected_total": errors(corrected, nvml.NVML_AGGREGATE_ECC),
        "uncorrected_total": errors(uncorrected, nvml.NVML_AGGREGATE_ECC),
    }


def _remapped_rows(nvml: t.Any, handle: t.Any) -> Json:
    correctable, uncorrectable, pending, failure = nvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "correctable": correctable,
        "uncorrectable": uncorrectable,
        "pending": bool(pending),
        "failure": bool(failure),
    }


def _retired_pages(nvml: t.Any, handle: t.Any) -> Json:
    single, double = (
        nvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        (nvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR),
    )
    return {
        "single_bit": len(nvml.nvmlDeviceGetRetiredPages(handle, single)),
        "double_bit": len(nvml.nvmlDeviceGetRetiredPages(handle, double)),
        "pending": bool(nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)),
    }


def _recovery_action(nvml: t.Any, handle: t.Any) -> str | None:
    (field,) = nvml.nvmlDeviceGetFieldValues(handle, [_RECOVERY_ACTION])
    if field.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(field.nvmlReturn)
    return recovery.recovery_action(field.value.uiVal)


def _peer_type(nvml: t.Any, handle: t.Any) -> str | None:
    info = nvml.c_nvmlPlatformInfo_v2_t()
    nvml.nvmlDeviceGetPlatformInfo(handle, ctypes.byref(info))
    # nvidia-ml-py makes numbers text, and ends texts at the first zero.
    kind, answer = type(info), bytes(info)
    # An H200 outside a rack leaves most of the answer zero (driver 580.159.04). nvidia-smi prints N/A then.
    if not any(answer[kind.ibGuid.offset : kind.slotNumber.offset]):
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    number = answer[kind.peerType.offset]
    return _PEER_TYPES[number] if number < len(_PEER_TYPES) else None


def _mig(nvml: t.Any, handle: t.Any) -> Json:
    mode, pending = nvml.nvmlDeviceGetMigMode(handle)
    count = nvml.nvmlDeviceGetMaxMigDeviceCount(handle) if mode else 0
    found = (_mig_instance(nvml, handle, index) for index in range(count))
    uuid = _string(nvml.nvmlDeviceGetUUID(handle))
    return {
        "mode": bool(mode),
        "pending": bool(pending),
        "instances": [instance for instance in found if instance],
        "gpu_instances": mig.gpu_instances(uuid) if mode else [],
    }


def _mig_instance(nvml: t.Any, handle: t.Any, index: int) -> Json | None:
    device = _optional(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
    if device is None:
        return None
    profile = re.search(r"MIG (\S+)$", _string(_optional(nvml, nvml.nvmlDeviceGetName, device) or ""))
    attributes = _optional(nvml, nvml.nvmlDeviceGetAttributes_v2, device)
    return {
        "index": index,
        "gpu_instance": _optional(nvml, nvml.nvmlDeviceGetGpuInstanceId, device),
        "compute_instance": _optional(nvml, nvml.nvmlDeviceGetComputeInstanceId, device),
        "memory_mib": attributes.memorySizeMB if attributes else None,
        "profile": profile[1] if profile else None,
        "uuid": _string(_optional(nvml, nvml.nvmlDeviceGetUUID, device)),
    }


def _nvlink(nvml: t.Any, handle: t.Any) -> Json:
    # On a GPU without NVLink the first call raises, and its error becomes the reason.
    states = [nvml.nvmlDeviceGetNvLinkState(handle, 0)]
    for link in range(1, nvml.NVML_NVLINK_MAX_LINKS):
        state = _optional(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            break
        states.append(state)
    return {
        "links": len(states),
        "active": sum(map(bool, states)),
        "version": _optional(nvml, nvml.nvmlDeviceGetNvLinkVersion, handle, 0),
    }


def _fabric(nvml: t.Any, handle: t.Any) -> Json | None:
    info = _fabric_info(nvml, handle)
    state = _FABRIC_STATES.get(info.state)
    if state is None:
        return None
    status = None
    if info.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED:
        status = "Success" if info.status == nvml.NVML_SUCCESS else str(nvml.NVMLError(info.status))
    cluster = bytes(info.clusterUuid).hex()
    return {
        "state": state,
        "status": status,
        "clique": info.cliqueId,
        "cluster_uuid": "-".join((cluster[:8], cluster[8:12], cluster[12:16], cluster[16:20], cluster[20:])),
        **health.of_mask(info.healthMask, getattr(info, "healthSummary", 0)),
    }


def _fabric_info(nvml: t.Any, handle: t.Any) -> t.Any:
    """Return the newest form of the information that both the driver and nvidia-ml-py know."""
    for name in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        if hasattr(nvml, name):
            info = getattr(nvml, name)()
            try:
                nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
            except nvml.NVMLError as e:
                if e.value != nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH or name.endswith("_v2_t"):
                    raise
            else:
                return info
    raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)


QUESTIONS: dict[str, t.Callable[[t.Any, t.Any], t.Any]] = {
    "product": lambda nvml, handle: _string(nvml.nvmlDeviceGetName(handle)),
    "architecture": lambda nvml, handle: _ARCHITECTURES.get(nvml.nvmlDeviceGetArchitecture(handle)),
    "uuid": lambda nvml, handle: _string(nvml.nvmlDeviceGetUUID(handle)),
    "serial": lambda nvml, handle: _string(nvml.nvmlDeviceGetSerial(handle)),
    "memory_mib": lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).total // _MEBIBYTE,
    "power_w": lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    "power_limit_w": lambda nvml, handle: nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000,
    "clocks": _clocks,
    "persistence_mode": lambda nvml, handle: bool(nvml.nvmlDeviceGetPersistenceMode(handle)),
    "vbios": lambda nvml, handle: _string(nvml.nvmlDeviceGetVbiosVersion(handle)),
    "inforom": lambda nvml, handle: _string(nvml.nvmlDeviceGetInforomImageVersion(handle)),
    "gsp": lambda nvml, handle: _string(nvml.nvmlDeviceGetGspFirmwareVersion(handle)),
    "pcie": _pcie,
    "ecc": _ecc,
    "remapped_rows": _remapped_rows,
    "retired_pages": _retired_pages,
    "recovery_action": _recovery_action,
    "mig": _mig,
    "nvlink": _nvlink,
    "peer_type": _peer_type,
    "fabric": _fabric,
}
"""The call for each field of a GPU, in the order of the calls."""
