# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation says what a thing does, and the script that checks it counts the right sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import prose

FILES = {
    "README.md": (
        "<!-- Nothing in a comment counts. -->\n# The fleet\n\nThe role drains the node.\nIt never reboots it.\n\n"
        "```console\n$ echo nothing in a block counts\n```\n\n- Set `none` for a plain node.\n"
        "- [Nobody](https://example.com/never) knows this link.\n\n"
        "| Value | Effect |\n|---|---|\n| `never` | Nothing happens to the node. |\n"
    ),
    "roles/verify/meta/argument_specs.yml": (
        "argument_specs:\n  main:\n    short_description: Prove each node of the cluster\n"
        "    options:\n      verify_wait:\n        description: V(none) skips the whole wait.\n"
    ),
    "plugins/modules/one.py": (
        '"""Nothing here is documentation for users."""\nDOCUMENTATION = r"""\ndescription:\n'
        '  - Changes nothing on the host.\n"""\nMESSAGE = f"None of the {3} nodes is ready."\n'
    ),
}


def counts(folder: Path, files: dict[str, str]) -> list[prose.Count]:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return prose.measure(folder, list(files))


def test_the_documentation_for_users_keeps_the_limit() -> None:
    assert prose.problems(prose.measure(prose.ROOT, prose.tracked(), prose.USER_KINDS)) == []


def test_words_in_code_links_and_comments_do_not_count(tmp_path: Path) -> None:
    page, *_ = counts(tmp_path, {"README.md": FILES["README.md"]})
    assert page.negative == [
        "It never reboots it.",
        "Nobody knows this link.",
        "Nothing happens to the node.",
    ]
    assert len(page.sentences) == 5


def test_each_kind_of_text_is_counted_by_itself(tmp_path: Path) -> None:
    found = {(count.kind, count.path.rsplit("/", 1)[-1]): count.negative for count in counts(tmp_path, FILES)}
    assert found["roles", "argument_specs.yml"] == []
    assert found["modules", "one.py"] == ["Changes nothing on the host."]
    assert found["comments", "one.py"] == ["Nothing here is documentation for users."]
    assert found["messages", "one.py"] == ["None of the X nodes is ready."]


def test_the_share_counts_only_the_documentation_for_users(tmp_path: Path) -> None:
    *_, share = prose.problems(counts(tmp_path, FILES))
    assert share == "50.0 % of the sentences for users are negative, above 2 %."


@pytest.mark.parametrize("phrase", ["The run goes on.", "Install the host anew.", "A node is begun at night."])
def test_a_worn_phrase_is_a_problem_with_its_place(tmp_path: Path, phrase: str) -> None:
    [problem] = prose.problems(counts(tmp_path, {"docs/page.md": f"# Page\n\n{phrase} The next line is plain.\n"}))
    assert problem == f"docs/page.md: worn phrase in: {phrase}"


def test_abbreviations_do_not_end_a_sentence() -> None:
    assert prose.sentences(
        "Take a value, e.g. Ten of the nodes. Then run the play again (twice). It works at once."
    ) == [
        "Take a value, e.g. Ten of the nodes.",
        "Then run the play again (twice).",
        "It works at once.",
    ]
