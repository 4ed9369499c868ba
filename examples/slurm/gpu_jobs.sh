#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
#
# Tells the DCGM exporter which jobs use which GPU. It is both Prolog and Epilog of slurmd (slurm.conf):
#
#   Prolog=/etc/slurm/prolog.d/gpu_jobs.sh
#   Epilog=/etc/slurm/epilog.d/gpu_jobs.sh
#   PrologFlags=Alloc
#
# The exporter fails a whole scrape if a file vanishes between the listing and the opening of the folder. So each file is
# renamed into its place, and the last job leaves it empty. The exporter ignores names that do not begin with a digit.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
folder=${GPU_JOBS_FOLDER:-/var/lib/dcgm-exporter/job-mapping}

# Slurm drains a node whose Prolog fails, and labels of metrics are no reason for that.
[[ -d $folder && -n ${SLURM_JOB_GPUS:-} && -n ${SLURM_JOB_ID:-} ]] || exit 0
exec 9> "$folder/.lock" || exit 0
flock --wait 10 9 || exit 0

for gpu in ${SLURM_JOB_GPUS//,/ }; do
  {
    grep --line-regexp --fixed-strings --invert-match --regexp="$SLURM_JOB_ID" "$folder/$gpu" 2> /dev/null
    [[ ${SLURM_SCRIPT_CONTEXT:-} != prolog* ]] || echo "$SLURM_JOB_ID"
  } > "$folder/.$gpu.new" && mv --force "$folder/.$gpu.new" "$folder/$gpu"
done
exit 0
