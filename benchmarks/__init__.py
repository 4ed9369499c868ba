# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
"""Benchmarks against what users would use instead, in the same run on the lab."""
