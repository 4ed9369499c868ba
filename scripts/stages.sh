#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Run make targets one after the other, and print how long each took, also if one of them fails.
set -euo pipefail
cd "$(dirname "$0")/.."
times=()
summary() {
  printf '\nStage          seconds\n'
  printf '%s\n' "${times[@]}"
  printf '%-14s %7d\n' together "$SECONDS"
}
trap summary EXIT
for stage in "$@"; do
  began=$SECONDS
  status=0
  make --no-print-directory "$stage" || status=$?
  times+=("$(printf '%-14s %7d' "$stage" $((SECONDS - began)))")
  [ "$status" = 0 ] || exit "$status"
done
