/*
 * Copyright (c) 2026 gpuops.nvidia contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The state file in memory. Every call reads it again if it has changed, so that a program that runs for long sees what
 * another one did. A change is written to a new file that replaces the old one, under a lock that all programs share.
 */

#include "nvml.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static Section sections[MOST];
static int count;
static struct stat seen;
static int users;
static int locked = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

enum { HANDLES = 4096 };
static Handle handles[HANDLES];
static int held;

static int position(const Section *section, const char *key)
{
    for (int i = 0; i < section->keys; i++)
        if (strcmp(section->key[i], key) == 0)
            return i;
    return -1;
}

const char *find(const Section *section, const char *key)
{
    int i = position(section, key);
    return i < 0 ? NULL : section->value[i];
}

long number(const Section *section, const char *key, long otherwise)
{
    const char *value = find(section, key);
    return value ? strtol(value, NULL, 10) : otherwise;
}

void set_text(Section *section, const char *key, const char *value)
{
    int i = position(section, key);
    if (i < 0 && section->keys == KEYS)
        return;
    if (i < 0)
        i = section->keys++;
    snprintf(section->key[i], sizeof section->key[i], "%s", key);
    snprintf(section->value[i], sizeof section->value[i], "%s", value);
}

void set_number(Section *section, const char *key, long value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%ld", value);
    set_text(section, key, digits);
}

/* The n-th section of a kind from a position on. A section of the kind `end` ends the search. */
static Section *nth(const char *kind, int n, int from, const char *end)
{
    for (int i = from; i < count && !(end && strcmp(sections[i].kind, end) == 0); i++)
        if (strcmp(sections[i].kind, kind) == 0 && n-- == 0)
            return &sections[i];
    return NULL;
}

Section *system_section(void) { return nth("system", 0, 0, NULL); }

Section *gpu_section(int index) { return index < 0 ? NULL : nth("gpu", index, 0, NULL); }

Section *child(const Section *gpu, const char *kind, int n) { return nth(kind, n, (int)(gpu - sections) + 1, "gpu"); }

/* A new section behind those of its GPU, or NULL if there is no room. The pointers to later sections are void then. */
Section *add(const Section *gpu, const char *kind)
{
    int at = (int)(gpu - sections) + 1;
    if (count == MOST)
        return NULL;
    while (at < count && strcmp(sections[at].kind, "gpu") != 0)
        at++;
    memmove(&sections[at + 1], &sections[at], (size_t)(count++ - at) * sizeof sections[0]);
    snprintf(sections[at].kind, sizeof sections[at].kind, "%s", kind);
    sections[at].keys = 0;
    return &sections[at];
}

void drop(Section *section)
{
    memmove(section, section + 1, (size_t)(&sections[--count] - section) * sizeof sections[0]);
}

static void read_lines(FILE *file)
{
    char line[VALUE + 32];
    count = 0;
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '[' && count < MOST) {
            sections[count].keys = 0;
            sections[count].kind[0] = '\0';
            sscanf(line, "[%7[a-z]", sections[count++].kind);
        } else if (count > 0 && sections[count - 1].keys < KEYS) {
            Section *section = &sections[count - 1];
            char *key = section->key[section->keys], *value = section->value[section->keys];
            section->keys += sscanf(line, "%23[a-z_]=%159[^\n]", key, value) == 2;
        }
    }
}

/* A machine whose services need the library has its file where no variable of a program's environment must say so. */
static const char *state_path(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    return path ? path : "/var/lib/nvml.state";
}

static Result load(void)
{
    const char *path = state_path();
    struct stat now;
    FILE *file;
    if (stat(path, &now) != 0)
        return LIBRARY_NOT_FOUND;
    if (now.st_ino == seen.st_ino && now.st_dev == seen.st_dev && now.st_size == seen.st_size &&
        now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return SUCCESS;
    if (!(file = fopen(path, "r")))
        return LIBRARY_NOT_FOUND;
    read_lines(file);
    fclose(file);
    seen = now;
    return SUCCESS;
}

static Result save(void)
{
    const char *path = state_path();
    char fresh[4096];
    FILE *file;
    snprintf(fresh, sizeof fresh, "%s.new", path);
    if (!(file = fopen(fresh, "w")))
        return NO_PERMISSION;
    for (int i = 0; i < count; i++) {
        fprintf(file, "[%s]\n", sections[i].kind);
        for (int j = 0; j < sections[i].keys; j++)
            fprintf(file, "%s=%s\n", sections[i].key[j], sections[i].value[j]);
    }
    if (fclose(file) != 0 || rename(fresh, path) != 0)
        return NO_PERMISSION;
    stat(path, &seen);
    return SUCCESS;
}

static Result lock_file(void)
{
    const char *path = state_path();
    char name[4096];
    snprintf(name, sizeof name, "%s.lock", path);
    locked = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    return locked >= 0 && flock(locked, LOCK_EX) == 0 ? SUCCESS : NO_PERMISSION;
}

Result leave(Result result)
{
    if (locked >= 0)
        close(locked);
    locked = -1;
    pthread_mutex_unlock(&mutex);
    return result;
}

/* End a call that may have changed the state: what succeeded is written, what failed is forgotten. */
Result leave_changed(Result result)
{
    if (result == SUCCESS)
        result = save();
    else
        memset(&seen, 0, sizeof seen);
    return leave(result);
}

Device handle(Kind kind, int gpu, int instance, int compute)
{
    Handle wanted = {kind, gpu, instance, compute};
    for (int i = 0; i < held; i++)
        if (handles[i].kind == kind && handles[i].gpu == gpu && handles[i].instance == instance &&
            handles[i].compute == compute)
            return &handles[i];
    if (held == HANDLES)
        return NULL;
    handles[held] = wanted;
    return &handles[held++];
}

/* Begin a call without a GPU. It ends with `leave`. */
Result begin(void)
{
    pthread_mutex_lock(&mutex);
    return users ? load() : UNINITIALIZED;
}

/* The fault of a GPU, which comes before any answer. A call that hangs lets those for other GPUs through. */
static Result fault(const Section *gpu)
{
    if (number(gpu, "crash", 0))
        abort();
    if (number(gpu, "hang", 0)) {
        leave(SUCCESS);
        for (;;)
            pause();
    }
    return (Result)number(gpu, "error", SUCCESS);
}

static Result resolve(Device device, Section **gpu)
{
    bool known = device >= handles && device < handles + held;
    *gpu = known ? gpu_section(device->gpu) : NULL;
    if (!*gpu)
        return INVALID_ARGUMENT;
    Result result = fault(*gpu);
    if (result || device->kind == GPU)
        return result;
    if (device->kind == GPU_INSTANCE)
        return instance_of(*gpu, device) ? SUCCESS : NOT_FOUND;
    return compute_of(*gpu, device) ? SUCCESS : NOT_FOUND;
}

/* Begin a call for a GPU or a part of one. It ends with `leave`, whatever this returns. */
Result enter(Device device, Section **gpu)
{
    Result result = begin();
    return result ? result : resolve(device, gpu);
}

/* The same for a call that changes the state. It ends with `leave_changed`. */
Result enter_to_change(Device device, Section **gpu)
{
    pthread_mutex_lock(&mutex);
    Result result = users ? lock_file() : UNINITIALIZED;
    result = result ? result : load();
    return result ? result : resolve(device, gpu);
}

Result nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&mutex);
    Result result = load();
    Section *system = result ? NULL : system_section();
    if (system)
        result = (Result)number(system, "init", SUCCESS);
    users += result == SUCCESS;
    return leave(result);
}

Result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

Result nvmlInit(void) { return nvmlInitWithFlags(0); }

Result nvmlShutdown(void)
{
    pthread_mutex_lock(&mutex);
    bool used = users > 0;
    users -= used;
    return leave(used ? SUCCESS : UNINITIALIZED);
}
