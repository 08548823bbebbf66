"""Answers that may be used, what they come to, and that nothing but an unusable answer ever comes of any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.authors.llm import briefs
from tests.workers.authors.llm.briefs import PATH, PLAN, SOURCE, TEST_PATH, added, answer, change, kernel, variant
from tests.workers.compiler.captured import answer as compiled
from tests.workers.compiler.captured import captured, names, style
from workers.authors.llm import forms, read_change, read_diagnosis, read_kernel, read_problem, read_variant
from workers.authors.llm.protocol import Failed, KernelBrief, Remark, Reply, UnusableAnswer
from workers.authors.protocol import Proposal
from workers.models.forms import FormError, check_form, parsed
from workers.models.protocol import Form


@pytest.mark.parametrize("form", [forms.PROBLEM, forms.KERNEL, forms.CHANGE, forms.DIAGNOSIS, forms.VARIANT])
def test_forms_are_closed(form: Form) -> None:
    check_form(form)
    held = dict.fromkeys(form.schema["properties"])
    with pytest.raises(FormError, match=r"at \$ there is a field that the form does not have"):
        parsed(json.dumps(held | {"unexpected": 1}), form)


def test_every_module_of_the_compiler_would_be_a_usable_answer() -> None:
    counts = ("forward_bytes", "backward_bytes", "forward_flops", "backward_flops")
    read = 0
    for place, name in enumerate(names()):
        liger = place % 2 == 0
        proposal = compiled(name, liger=liger)
        if not isinstance(proposal, Proposal):
            continue
        problem, graph = captured(name)
        plan = PLAN | {count: getattr(proposal.plan, count) for count in counts}
        brief = KernelBrief(name, "ops/x.py", problem, graph, style(name, liger=liger))
        given = read_kernel(answer({"source": proposal.source, "plan": plan, "replies": []}), brief)
        assert given.source == proposal.source, name
        assert [getattr(given.plan, count) for count in counts] == [plan[count] for count in counts], name
        assert given.plan.notes == (), name
        read += 1
    assert read > 70


def test_plan_of_an_answer_is_the_plan() -> None:
    plan = read_kernel(answer(kernel()), briefs.kernel_brief()).plan
    assert (plan.family, plan.tier, plan.saved_tensors) == ("element-wise", 1, ("a", "b"))
    assert [(sketch.name, sketch.timed_pass) for sketch in plan.kernels] == [
        ("_reglu_forward_kernel", "forward"),
        ("_reglu_backward_kernel", "backward"),
    ]
    assert plan.gradient_formulas[1] == ("b", "dc * max(a, 0)")


@pytest.mark.parametrize(
    "count", ["9**9**9", "T * secret", "len(T)", "1e400 * T", "T" + " + T" * 90, "-T", "T.real", "2 *"]
)
def test_count_that_is_no_arithmetic_is_replaced_and_said_so(count: str) -> None:
    plan = read_kernel(answer(kernel(plan=PLAN | {"forward_bytes": count})), briefs.kernel_brief()).plan
    assert plan.forward_bytes == "T * I * E + T * I * E + T * I * E"
    assert plan.backward_bytes == PLAN["backward_bytes"]
    assert plan.notes == (
        "the model's forward bytes could not be read; each input and output once, no FLOPs, stand for it",
    )


def test_replies_come_in_the_order_of_the_remarks() -> None:
    replies = [{"number": 2, "text": "offsets may pass 2^31"}, {"number": 1, "text": "four warps now"}]
    read = read_kernel(answer(kernel(replies=replies)), briefs.kernel_brief(remarks=briefs.REMARKS))
    assert read.replies == (Reply(1, "four warps now"), Reply(2, "offsets may pass 2^31"))


def test_problem_is_read() -> None:
    data = {"source": briefs.PROBLEM, "assumptions": ["both have gradients"], "replies": []}
    read = read_problem(answer(data), briefs.problem_brief())
    assert (read.source.strip(), read.assumptions) == (briefs.PROBLEM.strip(), ("both have gradients",))


def test_change_gives_the_files_that_change_alone() -> None:
    brief = briefs.change_brief(files=((PATH, SOURCE), ("src/other.py", "x = 1\n")))
    read = read_change(answer(change()), brief)
    assert [path for path, _ in read.files] == [PATH]
    assert "in float32" in read.files[0][1]
    assert read.problem is None


def test_edits_of_a_file_with_other_line_ends_keep_them() -> None:
    brief = briefs.change_brief(files=((PATH, SOURCE.replace("\n", "\r\n")),))
    text = dict(read_change(answer(change()), brief).files)[PATH]
    assert "in float32\r\n" in text
    assert text.count("\n") == text.count("\r\n")


def test_added_tests_stand_at_the_end_and_their_imports_with_the_imports() -> None:
    text = dict(read_change(answer(added(briefs.ADDED)), briefs.change_brief()).files)[TEST_PATH]
    head, _, tail = text.partition("CASES = ")
    assert head.endswith("import LigerRegluFunction\nimport math\n\n")
    assert tail.startswith(briefs.TESTS.partition("CASES = ")[2])
    assert tail.endswith("\n\n\n" + briefs.ADDED.partition("\n\n\n")[2])


def test_added_tests_may_import_again_what_the_file_imports() -> None:
    text = (
        "import torch\nfrom math import tau\n\n\ndef test_more():\n    value = torch.ones(1)\n    assert value < tau\n"
    )
    whole = dict(read_change(answer(added(text)), briefs.change_brief()).files)[TEST_PATH]
    assert whole.count("import torch\n") == 1
    assert "\nfrom math import tau\n" in whole


def test_change_goes_on_from_the_last_proposal_and_added_tests_replace_the_last_ones() -> None:
    first = read_change(answer(added(briefs.ADDED)), briefs.change_brief())
    brief = briefs.change_brief(before=first.files, remarks=(Remark(1, "say float32 twice"),))
    edits = [{"path": PATH, "old": "in float32", "new": "in float32, float32"}]
    replies = [{"number": 1, "text": "said"}]
    kept = dict(read_change(answer(change(edits=edits, replies=replies)), brief).files)
    assert "float32, float32" in kept[PATH]
    assert kept[TEST_PATH] == dict(first.files)[TEST_PATH]
    other = briefs.ADDED.replace("test_single_row", "test_one_row")
    replaced = dict(read_change(answer(added(other) | {"edits": edits, "replies": replies}), brief).files)
    assert "test_one_row" in replaced[TEST_PATH]
    assert "test_single_row" not in replaced[TEST_PATH]


def test_review_that_only_asks_may_leave_everything_as_it_is() -> None:
    remarks = (Remark(1, "Why int64?"),)
    replies = [{"number": 1, "text": "offsets may pass 2^31"}]
    source = kernel()["source"]
    brief = briefs.kernel_brief(remarks=remarks, before=source)
    assert read_kernel(answer(kernel(replies=replies)), brief).source == source
    first = read_change(answer(added(briefs.ADDED)), briefs.change_brief())
    again = read_change(
        answer(change(edits=[], replies=replies)), briefs.change_brief(before=first.files, remarks=remarks)
    )
    assert again.files == first.files
    failed = briefs.change_brief(before=first.files, remarks=remarks, failed=Failed("", "incorrect_values", "off"))
    with pytest.raises(UnusableAnswer, match="changes nothing"):
        read_change(answer(change(edits=[], replies=replies)), failed)


def test_repair_that_leaves_the_files_of_the_last_proposal_and_changes_another_one_is_taken() -> None:
    tests = dict(read_change(answer(added(briefs.ADDED)), briefs.change_brief()).files)[briefs.TEST_PATH]
    failed = briefs.change_brief(before=((briefs.TEST_PATH, tests),), failed=Failed("", "incorrect_values", "off"))
    assert [path for path, _ in read_change(answer(change()), failed).files] == [briefs.PATH, briefs.TEST_PATH]


def test_added_imports_stand_a_line_each() -> None:
    test = "def test_more():\n    value = torch.ones(1) * pi\n    assert value < tau\n"
    text = f"from math import (\n    pi,\n    tau,\n)\n\n\n{test}"
    whole = dict(read_change(answer(added(text)), briefs.change_brief()).files)[TEST_PATH]
    assert "\nfrom math import pi\nfrom math import tau\n\nCASES" in whole
    assert whole.endswith(f"\n\n\n{test}")


def test_variant_is_edits_or_the_whole_file() -> None:
    by_edits = read_variant(answer(variant()), briefs.variant_brief())
    whole = SOURCE.replace("num_warps=num_warps", "num_warps=4")
    by_source = read_variant(answer(variant(source=whole, edits=[])), briefs.variant_brief())
    assert by_edits.source.count("1024") == 1
    assert by_source.source == whole
    assert (by_source.hypothesis, by_source.expected) == ("blocks are too large", "5% at large sizes")


def test_variant_answers_each_remark() -> None:
    asked = briefs.variant_brief(remarks=briefs.REMARKS[:1])
    number = briefs.REMARKS[0].number
    said = [{"number": number, "text": "It loops now."}]
    assert [reply.text for reply in read_variant(answer(variant(replies=said)), asked).replies] == ["It loops now."]
    with pytest.raises(UnusableAnswer, match=f"no reply to remark {number}"):
        read_variant(answer(variant()), asked)


def test_variant_that_failed_is_not_taken_again() -> None:
    source = read_variant(answer(variant()), briefs.variant_brief()).source
    with pytest.raises(UnusableAnswer, match="before, unchanged"):
        read_variant(answer(variant()), briefs.variant_brief(failed=Failed(source, "incorrect_values", "off")))


def test_diagnosis_is_read() -> None:
    read = read_diagnosis(answer({"bottleneck": "memory", "evidence": ["5 bytes"], "steps": ["one pass"]}))
    assert (read.bottleneck, read.evidence, read.steps) == ("memory", ("5 bytes",), ("one pass",))


READ: dict[str, tuple[Callable[[Any], object], dict[str, Any]]] = {
    "problem": (
        lambda a: read_problem(a, briefs.problem_brief()),
        {"source": briefs.PROBLEM, "assumptions": ["x"], "replies": []},
    ),
    "kernel": (lambda a: read_kernel(a, briefs.kernel_brief(remarks=briefs.REMARKS)), kernel()),
    "change": (lambda a: read_change(a, briefs.change_brief()), added(briefs.ADDED) | {"problem": briefs.PROBLEM}),
    "diagnosis": (read_diagnosis, {"bottleneck": "memory", "evidence": ["x"], "steps": ["y"]}),
    "variant": (lambda a: read_variant(a, briefs.variant_brief()), variant()),
}
PIECES = st.sampled_from(
    [
        "",
        "\n",
        "\0",
        "(",
        '"""',
        "import os\n",
        "def f(",
        "lambda",
        "\ud800",
        "\u202e",
        "²",
        "[" * 300,
        "-" * 20_000,
        "a" + ".b" * 9_000,
    ]
)
TEXTS = st.one_of(
    st.text(max_size=40), PIECES, st.sampled_from([SOURCE, briefs.PROBLEM, briefs.ADDED, PATH, TEST_PATH])
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def disturbed(draw: st.DrawFn, value: Any) -> Any:
    """A right answer with one place of it, or one stretch of one text, replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(value)))
        return value | {key: draw(disturbed(value[key]))}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(disturbed(value[place])), *value[place + 1 :]]
    if isinstance(value, str) and draw(st.integers(0, 4)):
        start = draw(st.integers(0, len(value)))
        end = draw(st.integers(start, min(len(value), start + 60)))
        return value[:start] + draw(TEXTS) + value[end:]
    return draw(VALUES)


@pytest.mark.parametrize("kind", READ)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_whatever_an_answer_holds_it_is_read_or_unusable(kind: str, data: st.DataObject) -> None:
    read, right = READ[kind]
    try:
        found = read(answer(data.draw(disturbed(right))))
    except UnusableAnswer as error:
        assert str(error)
    else:
        assert type(found) is type(read(answer(right)))


@given(VALUES)
def test_data_of_any_kind_is_read_or_unusable(value: Any) -> None:
    for read, right in READ.values():
        try:
            found = read(replace(answer(None), data=value))
        except UnusableAnswer as error:
            assert str(error)
        else:
            assert type(found) is type(read(answer(right)))


def test_data_without_end_is_unusable() -> None:
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]
    with pytest.raises(UnusableAnswer):
        read_kernel(answer(kernel(source=deep)), briefs.kernel_brief())
