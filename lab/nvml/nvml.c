/*
 * Copyright (c) 2026 gpuops.nvidia contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A libnvidia-ml.so.1 without GPUs: the functions that the collection calls through nvidia-ml-py, answered from a text
 * file.
 *
 * FAKE_NVML_STATE names the file, and nvmlInit reads it. It has sections ([system], [gpu], and [mig] after its GPU) of
 * lines key=value. A function whose key is missing returns "Not Supported", as for a GPU without the feature. Faults:
 *   init=N          nvmlInit returns the error N (9: driver not loaded, 18: library and driver versions differ)
 *   error=N         every call for this GPU returns the error N (15: the GPU is lost)
 *   handle_error=N  the call for the handle of this GPU returns the error N
 *   hang=1          the first call for this GPU never returns
 *   crash=1         the first call for this GPU aborts the process
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int Result;
enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    LIBRARY_NOT_FOUND = 12,
    ARGUMENT_VERSION_MISMATCH = 25
};

enum { KEYS = 64, MOST = 128 };

typedef struct {
    char kind[8];
    int keys;
    char key[KEYS][24];
    char value[KEYS][80];
} Section;

static Section sections[MOST];
static int count;

static const char *find(const Section *section, const char *key)
{
    for (int i = 0; i < section->keys; i++)
        if (strcmp(section->key[i], key) == 0)
            return section->value[i];
    return NULL;
}

static long number(const Section *section, const char *key, long otherwise)
{
    const char *value = find(section, key);
    return value ? strtol(value, NULL, 10) : otherwise;
}

/* The n-th section of a kind from a position on. A section of the kind `end` ends the search. */
static Section *nth(const char *kind, int n, int from, const char *end)
{
    for (int i = from; i < count && !(end && strcmp(sections[i].kind, end) == 0); i++)
        if (strcmp(sections[i].kind, kind) == 0 && n-- == 0)
            return &sections[i];
    return NULL;
}

static Result load(const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[160];
    if (!file)
        return LIBRARY_NOT_FOUND;
    count = 0;
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '[' && count < MOST) {
            memset(&sections[count], 0, sizeof sections[count]);
            sscanf(line, "[%7[a-z]", sections[count++].kind);
        } else if (count > 0 && sections[count - 1].keys < KEYS) {
            Section *section = &sections[count - 1];
            int filled = sscanf(line, "%23[a-z_]=%79[^\n]", section->key[section->keys], section->value[section->keys]);
            section->keys += filled == 2;
        }
    }
    fclose(file);
    return SUCCESS;
}

/* The fault of a GPU, which comes before any answer. */
static Result fault(const Section *device)
{
    if (!device)
        return INVALID_ARGUMENT;
    if (number(device, "crash", 0))
        abort();
    while (number(device, "hang", 0))
        pause();
    return (Result)number(device, "error", SUCCESS);
}

static Result text(const Section *device, const char *key, char *answer, unsigned size)
{
    Result result = fault(device);
    const char *value = result ? NULL : find(device, key);
    if (result || !value)
        return result ? result : NOT_SUPPORTED;
    return (unsigned)snprintf(answer, size, "%s", value) < size ? SUCCESS : INSUFFICIENT_SIZE;
}

static Result whole(const Section *device, const char *key, unsigned *answer)
{
    Result result = fault(device);
    if (result || !find(device, key))
        return result ? result : NOT_SUPPORTED;
    *answer = (unsigned)number(device, key, 0);
    return SUCCESS;
}

static Result both(const Section *device, const char *first, unsigned *one, const char *second, unsigned *other)
{
    Result result = whole(device, first, one);
    return result ? result : whole(device, second, other);
}

Result nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    Result result = load(getenv("FAKE_NVML_STATE"));
    Section *system = result ? NULL : nth("system", 0, 0, NULL);
    return result ? result : (Result)number(system, "init", SUCCESS);
}

Result nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(Result result)
{
    (void)result;
    return "an error of the fake library";
}

Result nvmlSystemGetDriverVersion(char *answer, unsigned size)
{
    return text(nth("system", 0, 0, NULL), "driver_version", answer, size);
}

Result nvmlDeviceGetCount_v2(unsigned *answer)
{
    for (*answer = 0; nth("gpu", (int)*answer, 0, NULL); ++*answer)
        ;
    return SUCCESS;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Section **answer)
{
    *answer = nth("gpu", (int)index, 0, NULL);
    return *answer ? (Result)number(*answer, "handle_error", SUCCESS) : INVALID_ARGUMENT;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
} PciInfo;

Result nvmlDeviceGetPciInfo_v3(Section *device, PciInfo *answer)
{
    memset(answer, 0, sizeof *answer);
    return text(device, "pci", answer->address, sizeof answer->address);
}

#define TEXT(function, key) \
    Result function(Section *device, char *answer, unsigned size) { return text(device, key, answer, size); }
#define WHOLE(function, key) \
    Result function(Section *device, unsigned *answer) { return whole(device, key, answer); }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom")
WHOLE(nvmlDeviceGetArchitecture, "architecture")
WHOLE(nvmlDeviceGetPersistenceMode, "persistence")
WHOLE(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending")
WHOLE(nvmlDeviceGetPowerUsage, "power_mw")
WHOLE(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
WHOLE(nvmlDeviceGetCurrPcieLinkGeneration, "link_gen")
WHOLE(nvmlDeviceGetMaxPcieLinkGeneration, "link_gen_max")
WHOLE(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link_gen_gpu")
WHOLE(nvmlDeviceGetCurrPcieLinkWidth, "link_width")
WHOLE(nvmlDeviceGetMaxPcieLinkWidth, "link_width_max")

Result nvmlDeviceGetMemoryInfo(Section *device, unsigned long long *answer)
{
    unsigned mebibytes = 0;
    Result result = whole(device, "memory_mib", &mebibytes);
    answer[0] = answer[1] = (unsigned long long)mebibytes << 20;
    answer[2] = 0;
    return result;
}

Result nvmlDeviceGetEccMode(Section *device, unsigned *now, unsigned *pending)
{
    return both(device, "ecc", now, "ecc_pending", pending);
}

Result nvmlDeviceGetTotalEccErrors(Section *device, unsigned kind, unsigned counter, unsigned long long *answer)
{
    static const char *const keys[2][2] = {{"corrected", "corrected_total"}, {"uncorrected", "uncorrected_total"}};
    unsigned errors = 0;
    Result result = kind > 1 || counter > 1 ? INVALID_ARGUMENT : whole(device, keys[kind][counter], &errors);
    *answer = errors;
    return result;
}

Result nvmlDeviceGetRemappedRows(Section *device, unsigned *correctable, unsigned *uncorrectable, unsigned *pending,
                                 unsigned *failure)
{
    Result result = both(device, "rows_correctable", correctable, "rows_uncorrectable", uncorrectable);
    return result ? result : both(device, "rows_pending", pending, "rows_failure", failure);
}

Result nvmlDeviceGetMigMode(Section *device, unsigned *now, unsigned *pending)
{
    return both(device, "mig", now, "mig_pending", pending);
}

Result nvmlDeviceGetMaxMigDeviceCount(Section *device, unsigned *answer)
{
    *answer = 7;
    return fault(device);
}

Result nvmlDeviceGetMigDeviceHandleByIndex(Section *device, unsigned index, Section **answer)
{
    *answer = nth("mig", (int)index, (int)(device - sections) + 1, "gpu");
    return *answer ? fault(device) : NOT_FOUND;
}

WHOLE(nvmlDeviceGetGpuInstanceId, "gpu_instance")
WHOLE(nvmlDeviceGetComputeInstanceId, "compute_instance")

typedef struct {
    unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
} Attributes;

Result nvmlDeviceGetAttributes_v2(Section *device, Attributes *answer)
{
    unsigned mebibytes = 0;
    Result result = whole(device, "memory_mib", &mebibytes);
    memset(answer, 0, sizeof *answer);
    answer->memory_mib = mebibytes;
    return result;
}

Result nvmlDeviceGetNvLinkState(Section *device, unsigned link, unsigned *answer)
{
    unsigned links = 0;
    Result result = both(device, "links", &links, "links_active", answer);
    if (result)
        return result;
    *answer = link < *answer;
    return link < links ? SUCCESS : INVALID_ARGUMENT;
}

Result nvmlDeviceGetNvLinkVersion(Section *device, unsigned link, unsigned *answer)
{
    (void)link;
    return whole(device, "link_version", answer);
}

Result nvmlDeviceGetGspFirmwareVersion(Section *device, char *answer) { return text(device, "gsp", answer, 64); }

Result nvmlDeviceGetRetiredPages(Section *device, unsigned cause, unsigned *count, unsigned long long *addresses)
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

Result nvmlDeviceGetFieldValues(Section *device, int count, FieldValue *values)
{
    for (int i = 0; i < count; i++) {
        unsigned value = 0;
        values[i].result =
            values[i].field == RECOVERY_ACTION ? whole(device, "recovery_action", &value) : NOT_SUPPORTED;
        values[i].value = value;
    }
    return fault(device);
}

typedef struct {
    unsigned version;
    char guid[16], chassis[16];
    unsigned char slot, tray, host, peer_type, module;
} PlatformInfo;

Result nvmlDeviceGetPlatformInfo(Section *device, PlatformInfo *answer)
{
    unsigned peer_type = 0;
    Result result = whole(device, "peer_type", &peer_type);
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

/* The key fabric_version is the newest form of the answer that the driver knows. Before branch 570 that was 2. */
Result nvmlDeviceGetGpuFabricInfoV(Section *device, FabricInfo *answer)
{
    unsigned status = 0, version = answer->version >> 24;
    Result result = both(device, "fabric_state", &answer->state, "fabric_status", &status);
    if (!result && version > (unsigned)number(device, "fabric_version", 3))
        return ARGUMENT_VERSION_MISMATCH;
    answer->status = (Result)status;
    answer->clique = (unsigned)number(device, "fabric_clique", 0);
    answer->health = (unsigned)number(device, "fabric_health", 0);
    if (version > 2)
        answer->summary = (unsigned char)number(device, "fabric_summary", 0);
    return result;
}
