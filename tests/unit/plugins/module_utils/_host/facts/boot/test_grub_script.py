# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_script import (
    Command,
    Condition,
    Function,
    Loop,
    Part,
    ScriptError,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording


def word(text: str) -> tuple[Part, ...]:
    return (Part(text),)


def test_words_end_at_white_space_and_commands_at_the_line_or_a_semicolon() -> None:
    assert parse("a b; c \\\n d # e\n\n") == (Command((word("a"), word("b"))), Command((word("c"), word("d"))))


def test_only_a_variable_outside_quotation_marks_is_split_later() -> None:
    (command,) = parse("""x $a "$b" '$c' \\$d ${e}f""")
    assert command == Command(
        (
            word("x"),
            (Part("a", is_variable=True),),
            (Part("", quoted=True), Part("b", is_variable=True, quoted=True)),
            (Part("$c", quoted=True),),
            (Part("$"), Part("d")),
            (Part("e", is_variable=True), Part("f")),
        )
    )


def test_a_brace_needs_no_white_space() -> None:
    assert parse("menuentry A{linux x;}") == (
        Command((word("menuentry"), word("A")), (Command((word("linux"), word("x"))),)),
    )


def test_conditions_loops_and_functions() -> None:
    text = "if a; then b; elif c; then d; else e; fi\nfor i in 1; do f; done\nwhile g; do h; done\nfunction k\n{ l; }"
    a, b, c, d, e, f, g, h, k = (Command((word(name),)) for name in "abcdefghl")
    assert parse(text) == (
        Condition((((a,), (b,)), ((c,), (d,)), ((), (e,)))),
        Loop((word("i"), word("in"), word("1")), (f,)),
        Loop((), (g, h)),
        Function("k", (k,)),
    )


def test_keywords_count_only_at_the_beginning_of_a_command() -> None:
    assert parse("echo if then fi") == (Command((word("echo"), word("if"), word("then"), word("fi"))),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo 'a", wording("a quotation mark is not closed")),
        ('echo "a', wording("a quotation mark is not closed")),
        ("fi", wording("fi is in the wrong place")),
        ("}", wording("} is in the wrong place")),
        ("if a; then b", wording("there is no fi")),
        ("if a; b; fi", wording("fi is in the wrong place")),
        ("menuentry A {", wording("there is no }")),
        ("{ a; }", wording("a block has no command")),
        ("for i in a; b", wording("there is no do")),
        ("function", wording("there is no {")),
        ("echo a$", wording("a dollar sign has no variable")),
        ('echo "a$"', wording("a dollar sign has no variable")),
        ("submenu x { " * 41, wording("it is nested too deeply")),
    ],
)
def test_what_grub_refuses_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ScriptError) as error:
        parse(text)
    assert str(error.value) == problem


PIECES = ["if", "then", "elif", "else", "fi", "for", "in", "do", "done", "while", "function", "{", "}", "[", "]", "a"]
PIECES += ["'x y'", '"$a"', "$a", "${b}", "$", "\\", "'", '"', ";", "\n", "#", "=", "!", "menuentry", "set a=1", "\0"]


@given(st.lists(st.sampled_from(PIECES)).map(" ".join) | st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        statements = parse(text)
    except ScriptError:
        return
    assert isinstance(statements, tuple)


def test_what_is_escaped_in_quotation_marks_is_quoted() -> None:
    (command,) = parse('a "\\$b"')
    assert command == Command((word("a"), (Part("", quoted=True), Part("$", quoted=True), Part("b", quoted=True))))


def test_a_function_has_its_first_word_as_its_name() -> None:
    assert parse("function f g {\nlinux\n}") == (Function("f", (Command((word("linux"),)),)),)


def test_commands_know_the_script_that_wrote_them() -> None:
    text = "a\n### BEGIN /etc/grub.d/10_linux ###\nb {\nc\n}\n### END /etc/grub.d/10_linux ###\nd"
    a, b, d = parse(text)
    script = "/etc/grub.d/10_linux"
    assert (a, d) == (Command((word("a"),)), Command((word("d"),)))
    assert b == Command((word("b"),), (Command((word("c"),), origin=script),), script)
