/*
 * Copyright (c) 2026 gpuops.nvidia contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A libnvidia-ml.so.1 without GPUs: the functions that this collection and NVIDIA's own agents call, answered from a
 * text file.
 *
 * FAKE_NVML_STATE names the file, which is /var/lib/nvml.state if that is not set. It has sections ([system], [gpu],
 * and [gi] and [ci] after their GPU: GPU instances and compute instances) of lines key=value. A function whose key is
 * missing returns "Not Supported", as for a GPU without the feature. Faults:
 *   init=N                nvmlInit returns the error N (9: driver not loaded, 18: library and driver versions differ)
 *   count=N               the system claims N GPUs
 *   error=N               every call for this GPU returns the error N (15: the GPU is lost)
 *   handle_error=N        the call for the handle of this GPU returns the error N
 *   hang=1                the first call for this GPU never returns
 *   crash=1               the first call for this GPU aborts the process
 *   processes=PID:MIB@GI/CI,...  compute processes; without @GI/CI they hold the whole GPU
 *   mig_error=N           setting the MIG mode returns the error N (4: no permission)
 *   mig_reset_required=1  the MIG mode waits for a reset, as in a virtual machine with a passed-through GPU
 *   create_error=N, destroy_error=N  creating or destroying instances returns the error N
 */

#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *nvmlErrorString(Result result)
{
    static const char *const names[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires reset", "GPU access blocked by the operating system",
        "Driver/library version mismatch", "In use by another client", "Insufficient Memory", "No data",
        "The requested vgpu operation is not available on target device, because ECC is enabled",
        "Insufficient Resources", "Frequency not supported", "Argument version mismatch"};
    bool known = result >= 0 && result < (Result)(sizeof names / sizeof names[0]);
    return known ? names[result] : "Unknown Error";
}

static Result copy(const char *value, char *answer, unsigned size)
{
    return (unsigned)snprintf(answer, size, "%s", value) < size ? SUCCESS : INSUFFICIENT_SIZE;
}

static Result text(Device device, const char *key, char *answer, unsigned size)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    const char *value = result ? NULL : find(gpu, key);
    return leave(result ? result : value ? copy(value, answer, size) : NOT_SUPPORTED);
}

static Result whole(Device device, const char *key, unsigned *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result && !find(gpu, key))
        result = NOT_SUPPORTED;
    if (!result)
        *answer = (unsigned)number(gpu, key, 0);
    return leave(result);
}

static Result both(Device device, const char *first, unsigned *one, const char *second, unsigned *other)
{
    Result result = whole(device, first, one);
    return result ? result : whole(device, second, other);
}

/* --- The machine --- */

static Result system_text(const char *key, char *answer, unsigned size)
{
    Result result = begin();
    Section *system = result ? NULL : system_section();
    const char *value = system ? find(system, key) : NULL;
    return leave(result ? result : value ? copy(value, answer, size) : NOT_SUPPORTED);
}

Result nvmlSystemGetDriverVersion(char *answer, unsigned size) { return system_text("driver_version", answer, size); }

Result nvmlSystemGetNVMLVersion(char *answer, unsigned size) { return system_text("nvml_version", answer, size); }

Result nvmlSystemGetCudaDriverVersion(int *answer)
{
    char digits[16];
    Result result = system_text("cuda_version", digits, sizeof digits);
    if (!result)
        *answer = atoi(digits);
    return result;
}

Result nvmlSystemGetCudaDriverVersion_v2(int *answer) { return nvmlSystemGetCudaDriverVersion(answer); }

Result nvmlDeviceGetCount_v2(unsigned *answer)
{
    Result result = begin();
    for (*answer = 0; !result && gpu_section((int)*answer); ++*answer)
        ;
    Section *system = result ? NULL : system_section();
    if (system)
        *answer = (unsigned)number(system, "count", (long)*answer);
    return leave(result);
}

Result nvmlDeviceGetCount(unsigned *answer) { return nvmlDeviceGetCount_v2(answer); }

static Result open_gpu(Section *gpu, int index, Device *answer)
{
    *answer = gpu ? handle(GPU, index, -1, -1) : NULL;
    return gpu ? (Result)number(gpu, "handle_error", SUCCESS) : INVALID_ARGUMENT;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *answer)
{
    Result result = begin();
    return leave(result ? result : open_gpu(gpu_section((int)index), (int)index, answer));
}

Result nvmlDeviceGetHandleByIndex(unsigned index, Device *answer)
{
    return nvmlDeviceGetHandleByIndex_v2(index, answer);
}

static Result with_value(const char *key, const char *wanted, Device *answer)
{
    Section *gpu;
    for (int i = 0; (gpu = gpu_section(i)); i++) {
        const char *value = find(gpu, key);
        if (value && strcmp(value, wanted) == 0)
            return open_gpu(gpu, i, answer);
    }
    return NOT_FOUND;
}

static Result with_device_uuid(const char *wanted, Device *answer)
{
    Section *gpu, *compute;
    for (int i = 0; (gpu = gpu_section(i)); i++)
        for (int j = 0; (compute = child(gpu, "ci", j)); j++) {
            char uuid[64];
            device_uuid(gpu, compute, uuid, sizeof uuid);
            if (strcmp(uuid, wanted) == 0) {
                *answer = handle(MIG_DEVICE, i, (int)number(compute, "gi", 0), (int)number(compute, "id", 0));
                return SUCCESS;
            }
        }
    return NOT_FOUND;
}

Result nvmlDeviceGetHandleByUUID(const char *uuid, Device *answer)
{
    Result result = begin();
    if (!result)
        result = with_value("uuid", uuid, answer);
    return leave(result == NOT_FOUND ? with_device_uuid(uuid, answer) : result);
}

/* The address may have a domain of four digits or of eight. */
Result nvmlDeviceGetHandleByPciBusId_v2(const char *address, Device *answer)
{
    unsigned domain, bus, slot;
    char normal[32];
    Result result = begin();
    if (!result && sscanf(address, "%x:%x:%x", &domain, &bus, &slot) != 3)
        result = INVALID_ARGUMENT;
    if (!result) {
        snprintf(normal, sizeof normal, "%08X:%02X:%02X.0", domain, bus, slot);
        result = with_value("pci", normal, answer);
    }
    return leave(result);
}

Result nvmlDeviceGetHandleByPciBusId(const char *address, Device *answer)
{
    return nvmlDeviceGetHandleByPciBusId_v2(address, answer);
}

/* --- What a GPU is --- */

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
} PciInfo;

Result nvmlDeviceGetPciInfo_v3(Device device, PciInfo *answer)
{
    memset(answer, 0, sizeof *answer);
    Result result = text(device, "pci", answer->address, sizeof answer->address);
    sscanf(answer->address, "%x:%x:%x", &answer->domain, &answer->bus, &answer->device);
    snprintf(answer->legacy, sizeof answer->legacy, "%04X:%02X:%02X.0", answer->domain & 0xffff, answer->bus & 0xff,
             answer->device & 0xff);
    whole(device, "pci_id", &answer->id);
    return result;
}

Result nvmlDeviceGetPciInfo_v2(Device device, PciInfo *answer) { return nvmlDeviceGetPciInfo_v3(device, answer); }

Result nvmlDeviceGetPciInfo(Device device, PciInfo *answer) { return nvmlDeviceGetPciInfo_v3(device, answer); }

Result nvmlDeviceGetName(Device device, char *answer, unsigned size)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    const char *name = result ? NULL : find(gpu, "name");
    if (!result && !name)
        result = NOT_SUPPORTED;
    if (!result && device->kind == MIG_DEVICE) {
        char full[256], profile[96];
        compute_name(gpu, compute_of(gpu, device), profile, sizeof profile);
        snprintf(full, sizeof full, "%s MIG %s", name, profile);
        result = copy(full, answer, size);
    } else if (!result)
        result = copy(name, answer, size);
    return leave(result);
}

Result nvmlDeviceGetUUID(Device device, char *answer, unsigned size)
{
    Section *gpu;
    char uuid[64];
    if (!device || device->kind != MIG_DEVICE)
        return text(device, "uuid", answer, size);
    Result result = enter(device, &gpu);
    if (!result) {
        device_uuid(gpu, compute_of(gpu, device), uuid, sizeof uuid);
        result = copy(uuid, answer, size);
    }
    return leave(result);
}

Result nvmlDeviceGetIndex(Device device, unsigned *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result)
        *answer = (unsigned)device->gpu;
    for (int i = 0; !result && device->kind == MIG_DEVICE && device_at(gpu, device->gpu, i); i++)
        if (device_at(gpu, device->gpu, i) == device)
            *answer = (unsigned)i;
    return leave(result);
}

Result nvmlDeviceGetMinorNumber(Device device, unsigned *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result)
        *answer = (unsigned)device->gpu;
    return leave(result);
}

static Result memory(Device device, unsigned long long *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result && device->kind == MIG_DEVICE)
        *answer = profile_of(gpu, instance_of(gpu, device))->memory_mib;
    else if (!result && find(gpu, "memory_mib"))
        *answer = (unsigned long long)number(gpu, "memory_mib", 0);
    else if (!result)
        result = NOT_SUPPORTED;
    *answer <<= 20;
    return leave(result);
}

Result nvmlDeviceGetMemoryInfo(Device device, unsigned long long *answer)
{
    answer[0] = answer[2] = 0;
    Result result = memory(device, &answer[0]);
    answer[1] = answer[0];
    return result;
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} Memory2;

Result nvmlDeviceGetMemoryInfo_v2(Device device, Memory2 *answer)
{
    unsigned version = answer->version;
    if (version != (sizeof *answer | 2u << 24))
        return ARGUMENT_VERSION_MISMATCH;
    *answer = (Memory2){version, 0, 0, 0, 0};
    Result result = memory(device, &answer->total);
    answer->free = answer->total;
    return result;
}

/* The compute capability, 90 for 9.0. */
Result nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor)
{
    unsigned both_digits = 0;
    Result result = whole(device, "compute_capability", &both_digits);
    *major = (int)both_digits / 10;
    *minor = (int)both_digits % 10;
    return result;
}

#define TEXT(function, key) \
    Result function(Device device, char *answer, unsigned size) { return text(device, key, answer, size); }
#define WHOLE(function, key) \
    Result function(Device device, unsigned *answer) { return whole(device, key, answer); }

TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom")
WHOLE(nvmlDeviceGetArchitecture, "architecture")
WHOLE(nvmlDeviceGetBrand, "brand")
WHOLE(nvmlDeviceGetComputeMode, "compute_mode")
WHOLE(nvmlDeviceGetPersistenceMode, "persistence")
WHOLE(nvmlDeviceGetVirtualizationMode, "virtualization")
WHOLE(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending")
WHOLE(nvmlDeviceGetPowerUsage, "power_mw")
WHOLE(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
WHOLE(nvmlDeviceGetCurrPcieLinkGeneration, "link_gen")
WHOLE(nvmlDeviceGetMaxPcieLinkGeneration, "link_gen_max")
WHOLE(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link_gen_gpu")
WHOLE(nvmlDeviceGetCurrPcieLinkWidth, "link_width")
WHOLE(nvmlDeviceGetMaxPcieLinkWidth, "link_width_max")

/* Clocks of graphics (0), streaming multiprocessors (1) and memory (2). */
static Result clock_of(Device device, const char *const keys[3], unsigned kind, unsigned *answer)
{
    return kind > 2 ? INVALID_ARGUMENT : whole(device, keys[kind], answer);
}

Result nvmlDeviceGetMaxClockInfo(Device device, unsigned kind, unsigned *answer)
{
    static const char *const keys[3] = {"clock_max", "clock_max", "memory_clock_max"};
    return clock_of(device, keys, kind, answer);
}

Result nvmlDeviceGetApplicationsClock(Device device, unsigned kind, unsigned *answer)
{
    static const char *const keys[3] = {"clock_set", "clock_set", "memory_clock_set"};
    return clock_of(device, keys, kind, answer);
}

Result nvmlDeviceGetEccMode(Device device, unsigned *now, unsigned *pending)
{
    return both(device, "ecc", now, "ecc_pending", pending);
}

Result nvmlDeviceGetTotalEccErrors(Device device, unsigned kind, unsigned counter, unsigned long long *answer)
{
    static const char *const keys[2][2] = {{"corrected", "corrected_total"}, {"uncorrected", "uncorrected_total"}};
    unsigned errors = 0;
    Result result = kind > 1 || counter > 1 ? INVALID_ARGUMENT : whole(device, keys[kind][counter], &errors);
    *answer = errors;
    return result;
}

Result nvmlDeviceGetRemappedRows(Device device, unsigned *correctable, unsigned *uncorrectable, unsigned *pending,
                                 unsigned *failure)
{
    Result result = both(device, "rows_correctable", correctable, "rows_uncorrectable", uncorrectable);
    return result ? result : both(device, "rows_pending", pending, "rows_failure", failure);
}

Result nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned *answer)
{
    unsigned links = 0;
    Result result = both(device, "links", &links, "links_active", answer);
    if (result)
        return result;
    *answer = link < *answer;
    return link < links ? SUCCESS : INVALID_ARGUMENT;
}

Result nvmlDeviceGetNvLinkVersion(Device device, unsigned link, unsigned *answer)
{
    (void)link;
    return whole(device, "link_version", answer);
}

Result nvmlDeviceGetGspFirmwareVersion(Device device, char *answer) { return text(device, "gsp", answer, 64); }

Result nvmlDeviceGetRetiredPages(Device device, unsigned cause, unsigned *count, unsigned long long *addresses)
{
    unsigned room = *count;
    Result result = whole(device, cause ? "retired_double" : "retired_single", count);
    if (result || *count == 0)
        return result;
    if (!addresses || room < *count)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++)
        addresses[i] = i;
    return SUCCESS;
}

typedef struct {
    unsigned field, scope;
    long long time, latency;
    unsigned type;
    Result result;
    unsigned long long value;
} FieldValue;

enum { RECOVERY_ACTION = 230 };

Result nvmlDeviceGetFieldValues(Device device, int count, FieldValue *values)
{
    for (int i = 0; i < count; i++) {
        unsigned value = 0;
        values[i].result =
            values[i].field == RECOVERY_ACTION ? whole(device, "recovery_action", &value) : NOT_SUPPORTED;
        values[i].value = value;
    }
    Section *gpu;
    return leave(enter(device, &gpu));
}

typedef struct {
    unsigned version;
    char guid[16], chassis[16];
    unsigned char slot, tray, host, peer_type, module;
} PlatformInfo;

/* An H200 outside a rack, with driver 580.159.04, fills in these two numbers and leaves the rest zero. */
Result nvmlDeviceGetPlatformInfo(Device device, PlatformInfo *answer)
{
    unsigned module = 0, peer_type = 0;
    Result result = whole(device, "module", &module);
    answer->host = 1;
    answer->module = (unsigned char)module;
    if (whole(device, "peer_type", &peer_type) == SUCCESS)
        strcpy(answer->chassis, "1821225190819");
    answer->peer_type = (unsigned char)peer_type;
    return result;
}

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    Result status;
    unsigned clique, state, health;
    unsigned char summary;
} FabricInfo;

static unsigned fabric(Device device, const char *key, unsigned otherwise)
{
    unsigned value = otherwise;
    whole(device, key, &value);
    return value;
}

/* The key fabric_version is the newest form of the answer that the driver knows. Before branch 570 that was 2. */
Result nvmlDeviceGetGpuFabricInfoV(Device device, FabricInfo *answer)
{
    unsigned status = 0, version = answer->version >> 24;
    Result result = both(device, "fabric_state", &answer->state, "fabric_status", &status);
    if (result)
        return result;
    if (version > fabric(device, "fabric_version", 3))
        return ARGUMENT_VERSION_MISMATCH;
    answer->status = (Result)status;
    answer->clique = fabric(device, "fabric_clique", 0);
    answer->health = fabric(device, "fabric_health", 0);
    if (version > 2)
        answer->summary = (unsigned char)fabric(device, "fabric_summary", 0);
    return SUCCESS;
}

/* --- Events: a healthy GPU has none, so that a wait ends with its time limit --- */

Result nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long *answer)
{
    Section *gpu;
    enum { SINGLE_BIT = 1, DOUBLE_BIT = 2, XID = 8 };
    *answer = SINGLE_BIT | DOUBLE_BIT | XID;
    return leave(enter(device, &gpu));
}

Result nvmlEventSetCreate(void **answer)
{
    *answer = malloc(1);
    return *answer ? SUCCESS : UNKNOWN;
}

Result nvmlEventSetFree(void *set)
{
    free(set);
    return SUCCESS;
}

Result nvmlDeviceRegisterEvents(Device device, unsigned long long types, void *set)
{
    Section *gpu;
    (void)types;
    Result result = enter(device, &gpu);
    return leave(result ? result : set ? SUCCESS : INVALID_ARGUMENT);
}

Result nvmlEventSetWait_v2(void *set, void *data, unsigned timeout_ms)
{
    struct timespec rest = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
    (void)set;
    (void)data;
    nanosleep(&rest, NULL);
    return TIMEOUT;
}

Result nvmlEventSetWait(void *set, void *data, unsigned timeout_ms)
{
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
