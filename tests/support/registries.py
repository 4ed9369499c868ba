# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest fixtures: registries on loopback. On a machine that cannot have the program, their tests are skipped."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from lab.errors import UnavailableError
from lab.registry import Registry, running


@contextlib.contextmanager
def running_registry(auth: str = "none", *, tls: bool = False) -> t.Iterator[Registry]:
    """Run a registry during a block."""
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(running(auth, tls=tls))
        except UnavailableError as reason:
            pytest.skip(str(reason))
        yield found


@pytest.fixture(scope="module")
def registry() -> t.Iterator[Registry]:
    """A registry that anybody may use."""
    with running_registry() as found:
        yield found


@pytest.fixture(scope="module")
def basic_registry() -> t.Iterator[Registry]:
    """A registry that demands a user and a password."""
    with running_registry("basic") as found:
        yield found


@pytest.fixture(scope="module")
def token_registry() -> t.Iterator[Registry]:
    """A registry that demands a token, as nvcr.io does."""
    with running_registry("token") as found:
        yield found
