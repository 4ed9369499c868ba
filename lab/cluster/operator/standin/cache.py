# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies of collections that watches keep up to date, and loops that run after a change."""

from __future__ import annotations

import sys
import threading
import time
import traceback
import typing as t

from urllib3.exceptions import HTTPError

from lab.cluster.api import Api, ApiError, Json
from lab.cluster.operator.standin.images import ReconcileError

Changed = t.Callable[[Json | None, Json | None], None]


class Cache:
    """The objects of a collection, by name. Calls ``changed(before, after)`` for every change."""

    def __init__(self, api: Api, path: str, changed: Changed = lambda before, after: None, **query: t.Any) -> None:
        self._items: dict[str, Json] = {}
        self._lock = threading.Lock()
        self._changed = changed
        self._synced = threading.Event()
        threading.Thread(
            target=api.watch, args=(path, self._seen, threading.Event()), kwargs=query, name=path, daemon=True
        ).start()

    def _seen(self, kind: str, item: Json) -> None:
        if kind == "SYNCED":
            self._synced.set()
            return
        name = item["metadata"]["name"]
        with self._lock:
            before = self._items.pop(name, None)
            after = None if kind == "DELETED" else item
            if after is not None:
                self._items[name] = after
        self._changed(before, after)

    def items(self) -> list[Json]:
        """Return all objects, sorted by name."""
        with self._lock:
            return [self._items[name] for name in sorted(self._items)]

    def get(self, name: str) -> Json | None:
        """Return an object; None if there is none."""
        with self._lock:
            return self._items.get(name)

    def wait(self, timeout: float) -> bool:
        """Wait for the first listing. Return False after a timeout, for example if the kind does not exist yet."""
        return self._synced.wait(timeout)


class Loop:
    """Runs a function when woken, again after the seconds that it returns, and with growing delays after errors."""

    def __init__(self, name: str, run: t.Callable[[], float | None], active: threading.Event, settle: float) -> None:
        self._name = name
        self._run = run
        self._active = active
        # Changes come in bursts, and one run handles a whole burst.
        self._settle = settle
        self._woken = threading.Event()
        self._woken.set()
        threading.Thread(target=self._forever, name=name, daemon=True).start()

    def wake(self) -> None:
        """Request a run."""
        self._woken.set()

    def _forever(self) -> None:
        failures = 0
        while True:
            self._active.wait()
            self._woken.clear()
            pause: float | None
            try:
                pause = self._run()
                failures = 0
            except (ApiError, HTTPError, OSError, ReconcileError) as error:
                pause = min(0.1 * 2**failures, 3.0)
                failures = min(failures + 1, 10)
                print(f"{time.strftime('%H:%M:%S')} {self._name}: {error}", flush=True)
            except Exception:
                traceback.print_exc(file=sys.stdout)
                pause = 3.0
            self._woken.wait(pause)
            time.sleep(self._settle)
