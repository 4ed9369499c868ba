# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For how long a wait has seen the same trouble."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.history import History
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation, Refusal

from tests.unit.fakes.judged import observed, troubled
from tests.unit.fakes.stack import ready

DRIVER = "nvidia-driver-daemonset"


def ages(looks: t.Iterable[tuple[float, Observation]]) -> list[Observation]:
    """Return what a wait that began at 100 s makes of looks at these times."""
    history = History(100)
    return [history.add_ages(observation, now_s) for now_s, observation in looks]


def failing(message: str, why: str = "ReconcileFailed", status: str = "True") -> Observation:
    stack = ready()
    error = {"type": "Error", "status": status, "reason": why, "message": message}
    stack.policies[0]["status"]["conditions"] = [error]
    return observed(stack)


def with_pod(status: str, name: str = DRIVER) -> Observation:
    return observed(ready(), troubled=troubled(name, status))


def test_the_wait_itself_has_an_age() -> None:
    assert all(found.waits for found in ages([(100, observed(ready()))]))
    assert [found.waited_s for found in ages([(100, observed(ready())), (107, observed(ready()))])] == [0, 7]


def test_an_error_lasts_while_its_reason_and_message_stay() -> None:
    one, other = failing("a"), failing("b")
    looks = [(100, one), (120, one), (130, other), (140, other), (150, one)]
    assert [found.error_lasts_s for found in ages(looks)] == [0, 20, 0, 10, 0]
    looks = [(100, one), (120, failing("a", why="Other")), (130, failing("a", why="Other"))]
    assert [found.error_lasts_s for found in ages(looks)] == [0, 0, 10]


def test_an_error_that_was_gone_begins_anew() -> None:
    one = failing("a")
    looks = [(100, one), (102, failing("a", status="False")), (104, one), (106, one)]
    assert [found.error_lasts_s for found in ages(looks)] == [0, 0, 0, 2]


def test_an_error_that_was_gone_for_a_moment_begins_anew_too() -> None:
    looks = [(100.0, failing("a")), (100.5, failing("a", status="False")), (100.9, failing("a"))]
    assert [found.error_lasts_s for found in ages(looks)] == [0, 0, 0]


def test_long_pauses_between_looks_do_not_end_a_trouble() -> None:
    looks = [(100, with_pod("ErrImagePull")), (160, with_pod("ErrImagePull")), (220, with_pod("ErrImagePull"))]
    assert [found.troubled[DRIVER][0].stuck_s for found in ages(looks)] == [0, 60, 120]


def test_a_pod_stays_in_the_same_trouble_while_it_alternates() -> None:
    pull = ["ErrImagePull", "ImagePullBackOff", "ContainerCreating", "Init:ErrImagePull"]
    looks = [(100 + 10 * number, with_pod(status)) for number, status in enumerate(pull)]
    assert [found.troubled[DRIVER][0].stuck_s for found in ages(looks)] == [0, 10, 0, 30]
    crash = ["CrashLoopBackOff", "Error", "Init:CrashLoopBackOff"]
    looks = [(100 + 10 * number, with_pod(status)) for number, status in enumerate(crash)]
    assert [found.troubled[DRIVER][0].stuck_s for found in ages(looks)] == [0, 10, 20]


def test_a_pod_that_was_out_of_trouble_for_longer_begins_anew() -> None:
    fine = observed(ready())
    looks = [(100, with_pod("ErrImagePull")), (110, fine), (131, with_pod("ErrImagePull"))]
    assert ages(looks)[-1].troubled[DRIVER][0].stuck_s == 0
    looks[-1] = (130, with_pod("ErrImagePull"))
    assert ages(looks)[-1].troubled[DRIVER][0].stuck_s == 30


def test_another_pod_has_its_own_age() -> None:
    looks = [(100, with_pod("ErrImagePull")), (110, with_pod("ErrImagePull", "nvidia-dcgm"))]
    assert ages(looks)[-1].troubled["nvidia-dcgm"][0].stuck_s == 0


def test_pods_of_the_operator_have_ages_too() -> None:
    looks = [observed(ready(), others=troubled("gpu-operator", "ErrImagePull")) for dummy in range(2)]
    found = ages([(100, looks[0]), (110, looks[1])])
    assert [item.others["gpu-operator"][0].stuck_s for item in found] == [0, 10]


def test_a_refusal_lasts_while_it_is_seen() -> None:
    refused = dataclasses.replace(observed(ready()), refusals={DRIVER: Refusal("forbidden", 5)})
    found = ages([(100, refused), (130, refused), (140, observed(ready())), (150, refused)])
    assert [item.refusals[DRIVER] for item in (found[0], found[1], found[3])] == [
        Refusal("forbidden", 5, 0),
        Refusal("forbidden", 5, 30),
        Refusal("forbidden", 5, 0),
    ]


def test_a_refusal_that_was_gone_for_a_moment_begins_anew() -> None:
    refused, free = (observed(ready(), refusals=found) for found in ({"a": Refusal("no", 0)}, {}))
    looks = ages([(100.0, refused), (100.4, refused), (100.6, free), (100.9, refused)])
    assert [look.refusals["a"].seen_s if look.refusals else None for look in looks] == [0, 100.4 - 100.0, None, 0]
