/*
 * Copyright (c) 2026 gpuops.nvidia contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The processes on a GPU: the key processes=PID:MIB[@GI/CI],... of its section.
 */

#include "nvml.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned instance, compute;
} Process;

typedef struct {
    unsigned pid;
    unsigned long long memory;
} OldProcess;

enum { NONE = -1 };

/* Read the process at a position of the text and return the position of the next one, or NULL at the end. */
static const char *next(const char *text, Process *answer)
{
    unsigned mebibytes = 0;
    if (!text || !*text)
        return NULL;
    *answer = (Process){0, 0, (unsigned)NONE, (unsigned)NONE};
    sscanf(text, "%u:%u@%u/%u", &answer->pid, &mebibytes, &answer->instance, &answer->compute);
    answer->memory = (unsigned long long)mebibytes << 20;
    text += strcspn(text, ",");
    return *text ? text + 1 : text;
}

/* A process without a place holds the whole GPU. -1 stands for every instance. */
static bool touches(const Process *process, int instance, int compute)
{
    if (process->instance == (unsigned)NONE || instance == NONE)
        return true;
    return process->instance == (unsigned)instance && (compute == NONE || process->compute == (unsigned)compute);
}

bool busy(const Section *gpu, int instance, int compute)
{
    Process process;
    const char *text = find(gpu, "processes");
    while ((text = next(text, &process)))
        if (touches(&process, instance, compute))
            return true;
    return false;
}

static Result list(Device device, bool old, unsigned *count, void *answer)
{
    Section *gpu;
    Process process;
    unsigned room = *count, found = 0;
    Result result = enter(device, &gpu);
    const char *text = result ? NULL : find(gpu, "processes");
    while ((text = next(text, &process)))
        if (touches(&process, device->instance, device->compute)) {
            if (answer && found < room && old)
                ((OldProcess *)answer)[found] = (OldProcess){process.pid, process.memory};
            else if (answer && found < room)
                ((Process *)answer)[found] = process;
            found++;
        }
    if (!result)
        *count = found;
    return leave(result ? result : found > room ? INSUFFICIENT_SIZE : SUCCESS);
}

Result nvmlDeviceGetComputeRunningProcesses(Device device, unsigned *count, void *answer)
{
    return list(device, true, count, answer);
}

Result nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned *count, void *answer)
{
    return list(device, false, count, answer);
}

Result nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, void *answer)
{
    return list(device, false, count, answer);
}

static Result none(Device device, unsigned *count)
{
    Section *gpu;
    *count = 0;
    return leave(enter(device, &gpu));
}

#define NONE_OF(function) \
    Result function(Device device, unsigned *count, void *answer) \
    { \
        (void)answer; \
        return none(device, count); \
    }

NONE_OF(nvmlDeviceGetGraphicsRunningProcesses)
NONE_OF(nvmlDeviceGetGraphicsRunningProcesses_v2)
NONE_OF(nvmlDeviceGetGraphicsRunningProcesses_v3)
NONE_OF(nvmlDeviceGetMPSComputeRunningProcesses)
NONE_OF(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NONE_OF(nvmlDeviceGetMPSComputeRunningProcesses_v3)
