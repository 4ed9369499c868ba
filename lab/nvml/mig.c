/*
 * Copyright (c) 2026 gpuops.nvidia contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Multi-Instance GPU: its mode, GPU instances (sections [gi]) and compute instances (sections [ci]) of a GPU.
 */

#include "nvml.h"
#include "profiles.h"

#include <stdio.h>
#include <string.h>

enum { DISABLED = 0, ENABLED = 1, NAME = 96 };

/* NVML's numbers of compute instance profiles, and the compute slices of each. */
static const unsigned COMPUTE_SLICES[] = {1, 2, 3, 4, 7};
enum { COMPUTE_PROFILES = sizeof COMPUTE_SLICES / sizeof COMPUTE_SLICES[0] };

static bool enabled(const Section *gpu) { return number(gpu, "mig", DISABLED) == ENABLED; }

static const Profile *row(const Section *gpu, int n)
{
    const char *table = find(gpu, "mig_table");
    for (unsigned i = 0; table && i < sizeof PROFILES / sizeof PROFILES[0]; i++)
        if (strcmp(PROFILES[i].table, table) == 0 && n-- == 0)
            return &PROFILES[i];
    return NULL;
}

static const Profile *by_id(const Section *gpu, unsigned id)
{
    const Profile *profile;
    for (int i = 0; (profile = row(gpu, i)); i++)
        if (profile->id == id)
            return profile;
    return NULL;
}

static const Profile *by_number(const Section *gpu, unsigned wanted)
{
    const Profile *profile;
    for (int i = 0; (profile = row(gpu, i)); i++)
        if (profile->number == wanted)
            return profile;
    return NULL;
}

static unsigned memory_slices(const Section *gpu)
{
    const Profile *profile;
    unsigned most = 0;
    for (int i = 0; (profile = row(gpu, i)); i++)
        most = profile->size > most ? profile->size : most;
    return most;
}

static Section *instance_with(const Section *gpu, int id)
{
    Section *instance;
    for (int i = 0; (instance = child(gpu, "gi", i)); i++)
        if (number(instance, "id", -1) == id)
            return instance;
    return NULL;
}

static Section *compute_with(const Section *gpu, int instance, int id)
{
    Section *compute;
    for (int i = 0; (compute = child(gpu, "ci", i)); i++)
        if (number(compute, "gi", -1) == instance && number(compute, "id", -1) == id)
            return compute;
    return NULL;
}

Section *instance_of(const Section *gpu, Device device) { return instance_with(gpu, device->instance); }

Section *compute_of(const Section *gpu, Device device)
{
    return compute_with(gpu, device->instance, device->compute);
}

const Profile *profile_of(const Section *gpu, const Section *instance)
{
    return by_id(gpu, (unsigned)number(instance, "profile", -1));
}

/* --- The mode --- */

Result nvmlDeviceGetMigMode(Device device, unsigned *now, unsigned *pending)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result && (!find(gpu, "mig") || !find(gpu, "mig_pending")))
        result = NOT_SUPPORTED;
    if (!result) {
        *now = (unsigned)number(gpu, "mig", DISABLED);
        *pending = (unsigned)number(gpu, "mig_pending", DISABLED);
    }
    return leave(result);
}

/* The mode waits for a reset while the GPU is in use, and where the machine does not let the driver reset the GPU. */
static Result activate(Section *gpu, unsigned mode)
{
    set_number(gpu, "mig_pending", mode);
    if (number(gpu, "mig", DISABLED) == (long)mode)
        return SUCCESS;
    if (busy(gpu, -1, -1) || child(gpu, "gi", 0))
        return IN_USE;
    if (number(gpu, "mig_reset_required", 0))
        return RESET_REQUIRED;
    set_number(gpu, "mig", mode);
    return SUCCESS;
}

Result nvmlDeviceSetMigMode(Device device, unsigned mode, Result *activation)
{
    Section *gpu;
    Result result = enter_to_change(device, &gpu);
    if (!result && mode > ENABLED)
        result = INVALID_ARGUMENT;
    if (!result && !find(gpu, "mig"))
        result = NOT_SUPPORTED;
    if (!result)
        result = (Result)number(gpu, "mig_error", SUCCESS);
    *activation = result ? result : activate(gpu, mode);
    return leave_changed(result);
}

/* --- GPU instances: what fits --- */

static unsigned bits(unsigned start, unsigned size) { return ((1u << size) - 1) << start; }

static unsigned occupied(const Section *gpu)
{
    Section *instance;
    unsigned mask = 0;
    for (int i = 0; (instance = child(gpu, "gi", i)); i++)
        mask |= bits((unsigned)number(instance, "start", 0), profile_of(gpu, instance)->size);
    return mask;
}

/* The number of instances with a profile, or of those with the engine of which a GPU has only one. */
static unsigned existing(const Section *gpu, const Profile *profile)
{
    Section *instance;
    unsigned found = 0;
    for (int i = 0; (instance = child(gpu, "gi", i)); i++)
        found += profile->ofa ? profile_of(gpu, instance)->ofa > 0 : profile_of(gpu, instance) == profile;
    return found;
}

static bool possible(const Profile *profile, unsigned start) { return start < 32 && (profile->starts >> start & 1); }

/* How many more instances of a profile fit beside what is taken. */
static unsigned capacity(const Section *gpu, const Profile *profile, unsigned taken)
{
    unsigned fit = 0, left = profile->most - existing(gpu, profile);
    if (profile->most < existing(gpu, profile))
        return 0;
    for (unsigned start = 0; start < 32 && fit < left; start++)
        if (possible(profile, start) && !(taken & bits(start, profile->size))) {
            taken |= bits(start, profile->size);
            fit++;
        }
    return fit;
}

/* The place that the driver chooses: where most stays possible, and among equals the first. -1 if there is none. */
static int best_start(const Section *gpu, const Profile *profile)
{
    unsigned taken = occupied(gpu), most = 0;
    int best = -1;
    if (capacity(gpu, profile, taken) == 0)
        return -1;
    for (unsigned start = 0; start < 32; start++) {
        const Profile *other;
        unsigned rest = 1;
        if (!possible(profile, start) || taken & bits(start, profile->size))
            continue;
        for (int i = 0; (other = row(gpu, i)); i++)
            rest += capacity(gpu, other, taken | bits(start, profile->size));
        if (rest > most) {
            most = rest;
            best = (int)start;
        }
    }
    return best;
}

/* --- GPU instances: profiles --- */

typedef struct {
    unsigned start, size;
} Placement;

typedef struct {
    unsigned id, p2p, slices, instances, multiprocessors, copy, decoder, encoder, jpeg, ofa;
    unsigned long long memory_mib;
} InstanceProfile;

typedef struct {
    unsigned version, id, p2p, slices, instances, multiprocessors, copy, decoder, encoder, jpeg, ofa;
    unsigned long long memory_mib;
    char name[NAME];
} InstanceProfile2;

typedef struct {
    unsigned version, id, slices, instances, multiprocessors, copy, decoder, encoder, jpeg, ofa;
    unsigned long long memory_mib;
    char name[NAME];
    unsigned capabilities;
} InstanceProfile3;

static Result enter_profile(Device device, unsigned wanted, bool is_id, Section **gpu, const Profile **profile)
{
    Result result = enter(device, gpu);
    *profile = NULL;
    if (result)
        return result;
    if (!find(*gpu, "mig"))
        return NOT_SUPPORTED;
    *profile = is_id ? by_id(*gpu, wanted) : by_number(*gpu, wanted);
    return *profile ? SUCCESS : is_id || wanted >= 0x12 ? INVALID_ARGUMENT : NOT_SUPPORTED;
}

Result nvmlDeviceGetGpuInstanceProfileInfo(Device device, unsigned profile, InstanceProfile *answer)
{
    Section *gpu;
    const Profile *p;
    Result result = enter_profile(device, profile, false, &gpu, &p);
    if (!result)
        *answer = (InstanceProfile){p->id,   0,          p->slices, p->most, p->multiprocessors, p->copy, p->decoder, 0,
                                    p->jpeg, p->ofa, p->memory_mib};
    return leave(result);
}

static Result versioned_profile(const Profile *p, InstanceProfile2 *answer)
{
    unsigned version = answer->version;
    if (version == (sizeof(InstanceProfile2) | 2u << 24)) {
        *answer = (InstanceProfile2){version, p->id, 0, p->slices, p->most, p->multiprocessors, p->copy, p->decoder, 0,
                                     p->jpeg, p->ofa, p->memory_mib, ""};
        snprintf(answer->name, NAME, "MIG %s", p->name);
    } else if (version == (sizeof(InstanceProfile3) | 3u << 24)) {
        InstanceProfile3 *newer = (InstanceProfile3 *)(void *)answer;
        *newer = (InstanceProfile3){version, p->id, p->slices, p->most, p->multiprocessors, p->copy, p->decoder, 0,
                                    p->jpeg, p->ofa, p->memory_mib, "", 0};
        snprintf(newer->name, NAME, "MIG %s", p->name);
    } else
        return ARGUMENT_VERSION_MISMATCH;
    return SUCCESS;
}

Result nvmlDeviceGetGpuInstanceProfileInfoV(Device device, unsigned profile, InstanceProfile2 *answer)
{
    Section *gpu;
    const Profile *p;
    Result result = enter_profile(device, profile, false, &gpu, &p);
    return leave(result ? result : versioned_profile(p, answer));
}

Result nvmlDeviceGetGpuInstanceProfileInfoByIdV(Device device, unsigned profile, InstanceProfile2 *answer)
{
    Section *gpu;
    const Profile *p;
    Result result = enter_profile(device, profile, true, &gpu, &p);
    return leave(result ? result : versioned_profile(p, answer));
}

static Result fill_placements(unsigned starts, unsigned size, Placement *answer, unsigned *count)
{
    unsigned room = *count;
    *count = 0;
    for (unsigned start = 0; start < 32; start++)
        if (starts >> start & 1) {
            if (answer && *count < room)
                answer[*count] = (Placement){start, size};
            ++*count;
        }
    return answer && *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

Result nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, unsigned profile, Placement *answer,
                                                     unsigned *count)
{
    Section *gpu;
    const Profile *p;
    Result result = enter_profile(device, profile, true, &gpu, &p);
    return leave(result ? result : fill_placements(p->starts, p->size, answer, count));
}

Result nvmlDeviceGetGpuInstancePossiblePlacements(Device device, unsigned profile, Placement *answer, unsigned *count)
{
    return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile, answer, count);
}

Result nvmlDeviceGetGpuInstanceRemainingCapacity(Device device, unsigned profile, unsigned *answer)
{
    Section *gpu;
    const Profile *p;
    Result result = enter_profile(device, profile, true, &gpu, &p);
    if (!result && !enabled(gpu))
        result = NOT_SUPPORTED;
    if (!result)
        *answer = capacity(gpu, p, occupied(gpu));
    return leave(result);
}

/* --- GPU instances --- */

static Result may_create(const Section *gpu, const Profile *profile)
{
    if (!find(gpu, "mig") || !enabled(gpu))
        return NOT_SUPPORTED;
    return profile ? (Result)number(gpu, "create_error", SUCCESS) : INVALID_ARGUMENT;
}

/* The driver numbers the instances by their place in the halves, quarters and eighths of the memory. */
static int instance_id(const Section *gpu, const Profile *profile, unsigned start)
{
    return (int)(memory_slices(gpu) / profile->size - 1 + start / profile->size);
}

static Result create_instance(Section *gpu, int of, const Profile *profile, int start, Device *answer)
{
    Section *instance = start < 0 ? NULL : add(gpu, "gi");
    if (!instance)
        return INSUFFICIENT_RESOURCES;
    int id = instance_id(gpu, profile, (unsigned)start);
    set_number(instance, "id", id);
    set_number(instance, "profile", profile->id);
    set_number(instance, "start", start);
    *answer = handle(GPU_INSTANCE, of, id, -1);
    return SUCCESS;
}

Result nvmlDeviceCreateGpuInstance(Device device, unsigned profile, Device *answer)
{
    Section *gpu;
    Result result = enter_to_change(device, &gpu);
    const Profile *p = result ? NULL : by_id(gpu, profile);
    result = result ? result : may_create(gpu, p);
    if (!result)
        result = create_instance(gpu, device->gpu, p, best_start(gpu, p), answer);
    return leave_changed(result);
}

Result nvmlDeviceCreateGpuInstanceWithPlacement(Device device, unsigned profile, const Placement *place, Device *answer)
{
    Section *gpu;
    Result result = enter_to_change(device, &gpu);
    const Profile *p = result ? NULL : by_id(gpu, profile);
    result = result ? result : may_create(gpu, p);
    if (!result && (!possible(p, place->start) || place->size != p->size))
        result = INVALID_ARGUMENT;
    if (!result) {
        unsigned taken = occupied(gpu);
        bool free = !(taken & bits(place->start, p->size)) && capacity(gpu, p, taken) > 0;
        result = create_instance(gpu, device->gpu, p, free ? (int)place->start : -1, answer);
    }
    return leave_changed(result);
}

static Result may_destroy(const Section *gpu, int instance, int compute)
{
    Result result = (Result)number(gpu, "destroy_error", SUCCESS);
    return result ? result : busy(gpu, instance, compute) ? IN_USE : SUCCESS;
}

Result nvmlGpuInstanceDestroy(Device instance)
{
    Section *gpu, *compute;
    Result result = enter_to_change(instance, &gpu);
    result = result ? result : may_destroy(gpu, instance->instance, -1);
    for (int i = 0; !result && (compute = child(gpu, "ci", i)); i++)
        if (number(compute, "gi", -1) == instance->instance)
            result = IN_USE;
    if (!result)
        drop(instance_of(gpu, instance));
    return leave_changed(result);
}

/* The instances come in the order of their numbers. */
static Result list_instances(const Section *gpu, int of, unsigned profile, Device *answer, unsigned *count)
{
    if (!enabled(gpu))
        return NOT_SUPPORTED;
    if (!by_id(gpu, profile))
        return INVALID_ARGUMENT;
    *count = 0;
    for (int id = 0; id < 32; id++) {
        Section *instance = instance_with(gpu, id);
        if (instance && number(instance, "profile", -1) == (long)profile)
            answer[(*count)++] = handle(GPU_INSTANCE, of, id, -1);
    }
    return SUCCESS;
}

Result nvmlDeviceGetGpuInstances(Device device, unsigned profile, Device *answer, unsigned *count)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    return leave(result ? result : list_instances(gpu, device->gpu, profile, answer, count));
}

Result nvmlDeviceGetGpuInstanceById(Device device, unsigned id, Device *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result && !enabled(gpu))
        result = NOT_SUPPORTED;
    if (!result && !instance_with(gpu, (int)id))
        result = NOT_FOUND;
    if (!result)
        *answer = handle(GPU_INSTANCE, device->gpu, (int)id, -1);
    return leave(result);
}

typedef struct {
    Device device;
    unsigned id, profile;
    Placement placement;
} InstanceInfo;

Result nvmlGpuInstanceGetInfo(Device instance, InstanceInfo *answer)
{
    Section *gpu;
    Result result = enter(instance, &gpu);
    if (!result) {
        Section *found = instance_of(gpu, instance);
        const Profile *profile = profile_of(gpu, found);
        Placement placement = {(unsigned)number(found, "start", 0), profile->size};
        Device parent = handle(GPU, instance->gpu, -1, -1);
        *answer = (InstanceInfo){parent, (unsigned)instance->instance, profile->id, placement};
    }
    return leave(result);
}

/* --- Compute instances --- */

static unsigned compute_size(const Section *compute)
{
    return COMPUTE_SLICES[number(compute, "profile", 0) % COMPUTE_PROFILES];
}

/* Where a compute instance may begin: at a multiple of its size, which counts as a power of two. */
static unsigned compute_starts(const Profile *instance, unsigned slices)
{
    unsigned starts = 0, step = slices < 3 ? slices : slices < 7 ? 4 : 8;
    if (slices > instance->slices || (slices == 3 && instance->slices == 4))
        return 0;
    for (unsigned start = 0; start + slices <= instance->slices; start += step)
        starts |= 1u << start;
    return starts;
}

static unsigned compute_occupied(const Section *gpu, int instance)
{
    Section *compute;
    unsigned mask = 0;
    for (int i = 0; (compute = child(gpu, "ci", i)); i++)
        if (number(compute, "gi", -1) == instance)
            mask |= bits((unsigned)number(compute, "start", 0), compute_size(compute));
    return mask;
}

static unsigned compute_capacity(unsigned starts, unsigned slices, unsigned taken)
{
    unsigned fit = 0;
    for (unsigned start = 0; start < 32; start++)
        if (starts >> start & 1 && !(taken & bits(start, slices))) {
            taken |= bits(start, slices);
            fit++;
        }
    return fit;
}

/* A compute instance over all of its GPU instance has all multiprocessors of it, another one those of its slices. */
static unsigned compute_multiprocessors(const Section *gpu, const Profile *instance, unsigned slices)
{
    return slices == instance->slices ? instance->multiprocessors : slices * by_number(gpu, 0)->multiprocessors;
}

/* The name as NVML gives it: 3g.40gb, or 1c.3g.40gb for a part of the GPU instance. */
static void name_with(const Profile *instance, unsigned slices, char *answer, unsigned size)
{
    if (slices == instance->slices)
        snprintf(answer, size, "%s", instance->name);
    else
        snprintf(answer, size, "%uc.%s", slices, instance->name);
}

void compute_name(const Section *gpu, const Section *compute, char *answer, unsigned size)
{
    Section *instance = instance_with(gpu, (int)number(compute, "gi", -1));
    name_with(profile_of(gpu, instance), compute_size(compute), answer, size);
}

typedef struct {
    unsigned id, slices, instances, multiprocessors, copy, decoder, encoder, jpeg, ofa;
} ComputeProfile;

typedef struct {
    unsigned version;
    ComputeProfile profile;
    char name[NAME];
} ComputeProfile2;

typedef struct {
    unsigned version;
    ComputeProfile profile;
    char name[NAME];
    unsigned capabilities;
} ComputeProfile3;

static Result enter_compute(Device instance, unsigned profile, Section **gpu, const Profile **found, unsigned *starts)
{
    Result result = enter(instance, gpu);
    if (result)
        return result;
    if (profile >= 9)
        return INVALID_ARGUMENT;
    *found = profile_of(*gpu, instance_of(*gpu, instance));
    *starts = profile < COMPUTE_PROFILES ? compute_starts(*found, COMPUTE_SLICES[profile]) : 0;
    return *starts ? SUCCESS : NOT_SUPPORTED;
}

static ComputeProfile compute_profile(const Section *gpu, const Profile *p, unsigned profile, unsigned starts)
{
    unsigned slices = COMPUTE_SLICES[profile], most = compute_capacity(starts, slices, 0);
    unsigned multiprocessors = compute_multiprocessors(gpu, p, slices);
    return (ComputeProfile){profile, slices, most, multiprocessors, p->copy, p->decoder, 0, p->jpeg, p->ofa};
}

Result nvmlGpuInstanceGetComputeInstanceProfileInfo(Device instance, unsigned profile, unsigned engines,
                                                    ComputeProfile *answer)
{
    Section *gpu;
    const Profile *p;
    unsigned starts;
    Result result = enter_compute(instance, profile, &gpu, &p, &starts);
    if (!result && engines != 0)
        result = INVALID_ARGUMENT;
    if (!result)
        *answer = compute_profile(gpu, p, profile, starts);
    return leave(result);
}

Result nvmlGpuInstanceGetComputeInstanceProfileInfoV(Device instance, unsigned profile, unsigned engines,
                                                     ComputeProfile2 *answer)
{
    Section *gpu;
    const Profile *p;
    unsigned starts, version = answer->version;
    Result result = enter_compute(instance, profile, &gpu, &p, &starts);
    bool newest = version == (sizeof(ComputeProfile3) | 3u << 24);
    if (!result && engines != 0)
        result = INVALID_ARGUMENT;
    if (!result && !newest && version != (sizeof(ComputeProfile2) | 2u << 24))
        result = ARGUMENT_VERSION_MISMATCH;
    if (!result) {
        char name[NAME - 4];
        name_with(p, COMPUTE_SLICES[profile], name, sizeof name);
        answer->profile = compute_profile(gpu, p, profile, starts);
        snprintf(answer->name, NAME, "MIG %s", name);
        if (newest)
            ((ComputeProfile3 *)(void *)answer)->capabilities = 0;
    }
    return leave(result);
}

Result nvmlGpuInstanceGetComputeInstanceRemainingCapacity(Device instance, unsigned profile, unsigned *answer)
{
    Section *gpu;
    const Profile *p;
    unsigned starts;
    Result result = enter_compute(instance, profile, &gpu, &p, &starts);
    if (!result)
        *answer = compute_capacity(starts, COMPUTE_SLICES[profile], compute_occupied(gpu, instance->instance));
    return leave(result);
}

Result nvmlGpuInstanceGetComputeInstancePossiblePlacements(Device instance, unsigned profile, Placement *answer,
                                                           unsigned *count)
{
    Section *gpu;
    const Profile *p;
    unsigned starts;
    Result result = enter_compute(instance, profile, &gpu, &p, &starts);
    return leave(result ? result : fill_placements(starts, COMPUTE_SLICES[profile], answer, count));
}

static Result create_compute(Section *gpu, Device in, unsigned profile, unsigned start, Device *answer)
{
    int id = 0;
    while (compute_with(gpu, in->instance, id))
        id++;
    Section *compute = add(gpu, "ci");
    if (!compute)
        return INSUFFICIENT_RESOURCES;
    set_number(compute, "gi", in->instance);
    set_number(compute, "id", id);
    set_number(compute, "profile", profile);
    set_number(compute, "start", start);
    *answer = handle(COMPUTE_INSTANCE, in->gpu, in->instance, id);
    return SUCCESS;
}

/* `wanted` is the start of the new instance, or -1 for the first place that is free. */
static Result place_compute(Section *gpu, Device in, unsigned profile, int wanted, Device *answer)
{
    const Profile *p = profile_of(gpu, instance_of(gpu, in));
    unsigned starts = profile < COMPUTE_PROFILES ? compute_starts(p, COMPUTE_SLICES[profile]) : 0;
    unsigned taken = compute_occupied(gpu, in->instance);
    Result refusal = (Result)number(gpu, "create_error", SUCCESS);
    if (refusal || !starts)
        return refusal ? refusal : INVALID_ARGUMENT;
    if (wanted >= 0 && (wanted > 31 || !(starts >> wanted & 1)))
        return INVALID_ARGUMENT;
    for (unsigned start = 0; start < 32; start++)
        if (starts >> start & 1 && (wanted < 0 || (unsigned)wanted == start) &&
            !(taken & bits(start, COMPUTE_SLICES[profile])))
            return create_compute(gpu, in, profile, start, answer);
    return INSUFFICIENT_RESOURCES;
}

Result nvmlGpuInstanceCreateComputeInstance(Device instance, unsigned profile, Device *answer)
{
    Section *gpu;
    Result result = enter_to_change(instance, &gpu);
    return leave_changed(result ? result : place_compute(gpu, instance, profile, -1, answer));
}

Result nvmlGpuInstanceCreateComputeInstanceWithPlacement(Device instance, unsigned profile, const Placement *place,
                                                         Device *answer)
{
    Section *gpu;
    Result result = enter_to_change(instance, &gpu);
    int wanted = place->start > 31 ? 32 : (int)place->start;
    return leave_changed(result ? result : place_compute(gpu, instance, profile, wanted, answer));
}

Result nvmlComputeInstanceDestroy(Device compute)
{
    Section *gpu;
    Result result = enter_to_change(compute, &gpu);
    result = result ? result : may_destroy(gpu, compute->instance, compute->compute);
    if (!result)
        drop(compute_of(gpu, compute));
    return leave_changed(result);
}

Result nvmlGpuInstanceGetComputeInstances(Device instance, unsigned profile, Device *answer, unsigned *count)
{
    Section *gpu, *compute;
    Result result = enter(instance, &gpu);
    if (!result)
        *count = 0;
    for (int id = 0; !result && id < 8; id++)
        if ((compute = compute_with(gpu, instance->instance, id)) && number(compute, "profile", -1) == (long)profile)
            answer[(*count)++] = handle(COMPUTE_INSTANCE, instance->gpu, instance->instance, id);
    return leave(result);
}

Result nvmlGpuInstanceGetComputeInstanceById(Device instance, unsigned id, Device *answer)
{
    Section *gpu;
    Result result = enter(instance, &gpu);
    if (!result && !compute_with(gpu, instance->instance, (int)id))
        result = NOT_FOUND;
    if (!result)
        *answer = handle(COMPUTE_INSTANCE, instance->gpu, instance->instance, (int)id);
    return leave(result);
}

typedef struct {
    Device device, instance;
    unsigned id, profile;
    Placement placement;
} ComputeInfo;

Result nvmlComputeInstanceGetInfo_v2(Device compute, ComputeInfo *answer)
{
    Section *gpu;
    Result result = enter(compute, &gpu);
    if (!result) {
        Section *found = compute_of(gpu, compute);
        Placement placement = {(unsigned)number(found, "start", 0), compute_size(found)};
        Device parent = handle(GPU, compute->gpu, -1, -1);
        Device instance = handle(GPU_INSTANCE, compute->gpu, compute->instance, -1);
        unsigned profile = (unsigned)number(found, "profile", 0);
        *answer = (ComputeInfo){parent, instance, (unsigned)compute->compute, profile, placement};
    }
    return leave(result);
}

Result nvmlComputeInstanceGetInfo(Device compute, ComputeInfo *answer)
{
    return nvmlComputeInstanceGetInfo_v2(compute, answer);
}

/* --- The devices that compute instances are --- */

/* A stable name: a hash of the GPU's own name and the numbers of its instances, in the form of a version 5 UUID. */
void device_uuid(const Section *gpu, const Section *compute, char *answer, unsigned size)
{
    const char *parent = find(gpu, "uuid");
    unsigned long long half[2] = {14695981039346656037ULL, 1099511628211ULL * 31};
    char text[VALUE + 32];
    snprintf(text, sizeof text, "%s/%ld/%ld", parent ? parent : "", number(compute, "gi", 0), number(compute, "id", 0));
    for (int i = 0; i < 2; i++)
        for (const char *c = text; *c; c++)
            half[i] = (half[i] ^ (unsigned char)*c) * 1099511628211ULL;
    snprintf(answer, size, "MIG-%08llx-%04llx-5%03llx-8%03llx-%012llx", half[0] >> 32, half[0] >> 16 & 0xffff,
             half[0] & 0xfff, half[1] >> 48 & 0xfff, half[1] & 0xffffffffffffULL);
}

Device device_at(const Section *gpu, int number_of_gpu, int index)
{
    for (int instance = 0; enabled(gpu) && instance < 32; instance++)
        for (int id = 0; id < 8; id++)
            if (compute_with(gpu, instance, id) && index-- == 0)
                return handle(MIG_DEVICE, number_of_gpu, instance, id);
    return NULL;
}

Result nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    const Profile *largest = result ? NULL : by_id(gpu, 0);
    *answer = largest && enabled(gpu) ? largest->slices : 0;
    return leave(result);
}

Result nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result && !find(gpu, "mig"))
        result = NOT_SUPPORTED;
    if (!result && !(*answer = device_at(gpu, device->gpu, (int)index)))
        result = NOT_FOUND;
    return leave(result);
}

Result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device device, Device *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result && device->kind != MIG_DEVICE)
        result = INVALID_ARGUMENT;
    if (!result)
        *answer = handle(GPU, device->gpu, -1, -1);
    return leave(result);
}

Result nvmlDeviceIsMigDeviceHandle(Device device, unsigned *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    *answer = !result && device->kind == MIG_DEVICE;
    return leave(result);
}

static Result part_id(Device device, bool compute, unsigned *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result && device->kind != MIG_DEVICE)
        result = NOT_SUPPORTED;
    if (!result)
        *answer = (unsigned)(compute ? device->compute : device->instance);
    return leave(result);
}

Result nvmlDeviceGetGpuInstanceId(Device device, unsigned *answer) { return part_id(device, false, answer); }

Result nvmlDeviceGetComputeInstanceId(Device device, unsigned *answer) { return part_id(device, true, answer); }

typedef struct {
    unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
} Attributes;

Result nvmlDeviceGetAttributes_v2(Device device, Attributes *answer)
{
    Section *gpu;
    Result result = enter(device, &gpu);
    if (!result && device->kind != MIG_DEVICE)
        result = NOT_SUPPORTED;
    if (!result) {
        const Profile *p = profile_of(gpu, instance_of(gpu, device));
        unsigned slices = compute_size(compute_of(gpu, device));
        unsigned multiprocessors = compute_multiprocessors(gpu, p, slices);
        *answer = (Attributes){multiprocessors, p->copy, p->decoder, 0, p->jpeg,
                               p->ofa,          p->slices, slices, p->memory_mib};
    }
    return leave(result);
}

Result nvmlDeviceGetAttributes(Device device, Attributes *answer) { return nvmlDeviceGetAttributes_v2(device, answer); }
