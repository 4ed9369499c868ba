/*
 * Copyright (c) 2026 gpuops.nvidia contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the parts of the simulated library share: its state, the handles, and NVML's numbers.
 */

#ifndef LAB_NVML_H
#define LAB_NVML_H

#include <stdbool.h>

typedef int Result;
enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    LIBRARY_NOT_FOUND = 12,
    RESET_REQUIRED = 16,
    IN_USE = 19,
    UNKNOWN = 999,
    INSUFFICIENT_RESOURCES = 23,
    ARGUMENT_VERSION_MISMATCH = 25
};

enum { KEYS = 64, MOST = 384, VALUE = 160 };

typedef struct {
    char kind[8];
    int keys;
    char key[KEYS][24];
    char value[KEYS][VALUE];
} Section;

/* What a program holds: a GPU, a GPU instance, a compute instance, or the device that a compute instance is. */
typedef enum { GPU, GPU_INSTANCE, COMPUTE_INSTANCE, MIG_DEVICE } Kind;
typedef struct {
    Kind kind;
    int gpu, instance, compute;
} Handle;
typedef const Handle *Device;

/* A line of the table of placements, which lab/nvml/profiles.py writes into profiles.h. */
typedef struct {
    const char *table, *name;
    unsigned number, id, slices, size, most, memory_mib, multiprocessors, copy, decoder, jpeg, ofa, starts;
} Profile;

/* state.c */
const char *find(const Section *section, const char *key);
long number(const Section *section, const char *key, long otherwise);
void set_number(Section *section, const char *key, long value);
void set_text(Section *section, const char *key, const char *value);
Section *child(const Section *gpu, const char *kind, int n);
Section *add(const Section *gpu, const char *kind);
void drop(Section *section);
Section *system_section(void);
Section *gpu_section(int index);
Device handle(Kind kind, int gpu, int instance, int compute);
Result begin(void);
Result enter(Device device, Section **gpu);
Result enter_to_change(Device device, Section **gpu);
Result leave(Result result);
Result leave_changed(Result result);

/* mig.c */
Section *instance_of(const Section *gpu, Device device);
Section *compute_of(const Section *gpu, Device device);
const Profile *profile_of(const Section *gpu, const Section *instance);
void compute_name(const Section *gpu, const Section *compute, char *answer, unsigned size);
void device_uuid(const Section *gpu, const Section *compute, char *answer, unsigned size);
Device device_at(const Section *gpu, int number_of_gpu, int index);

/* processes.c */
bool busy(const Section *gpu, int instance, int compute);

#endif
