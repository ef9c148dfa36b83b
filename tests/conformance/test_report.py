"""What a comparison says."""

import json

import pytest

from tests.conformance.report import HEADER, WAIVERS, Comparison, read_waivers, share
from tests.conformance.suite import FILES, Outcome


def outcome(passed="", failed=(), skipped="", **more):
    return Outcome(set(passed), dict(failed), set(skipped), **more)


def compared(plain, ours, *waived):
    return Comparison("array", plain, ours, dict.fromkeys(waived, "a reason"))


def test_kept_are_the_tests_that_pass_on_both():
    comparison = compared(outcome("abc"), outcome("bcd"))
    assert comparison.kept == 2
    assert list(comparison.lost) == ["a"]


def test_a_lost_test_says_what_happened():
    comparison = compared(outcome("abcd"), outcome("d", {"c": "ValueError: 3"}, "b"))
    assert list(comparison.lost.items()) == [("a", "did not run"), ("b", "skipped"), ("c", "ValueError: 3")]


def test_what_fails_or_is_skipped_on_plain_jax_cannot_be_lost():
    comparison = compared(outcome("a", {"b": "no"}, "c"), outcome("a", {"b": "no", "c": "no"}))
    assert comparison.lost == {}
    assert share([comparison]) == 1


def test_a_waived_test_is_not_lost():
    comparison = compared(outcome("abc"), outcome("a", {"b": "no", "c": "no"}), "array:b")
    assert list(comparison.lost) == ["c"]


def test_a_waiver_counts_for_its_file_alone():
    comparison = compared(outcome("ab"), outcome("a", {"b": "no"}), "pjit:b", "b")
    assert list(comparison.lost) == ["b"]


def test_a_waived_test_that_passes_is_kept():
    comparison = compared(outcome("ab"), outcome("ab"), "array:b")
    assert comparison.kept == 2
    assert comparison.row().split()[-1] == "0"


def test_a_row_holds_the_counts_of_both_runs_under_the_header():
    plain = outcome("abcdef", {"g": "no"}, "hi")
    ours = outcome("abc", {"d": "no", "g": "no"}, "ehi")
    row = compared(plain, ours, "array:d").row()
    assert row.split() == ["array", "6", "1", "2", "3", "2", "3", "3", "2", "1"]
    names = HEADER.split("\n")[1]
    assert len(row) == len(names)


def test_numbers_stand_at_the_right_edge_of_their_columns():
    row = compared(outcome("abc", {"d": "no"}, "e"), outcome("ab", {"c": "no"}, "de")).row()
    names = HEADER.split("\n")[1]
    ends = [place for place in range(len(names)) if (names + " ")[place] != " " and (names + " ")[place + 1] == " "]
    assert all(row[place].isdigit() for place in ends[1:])


@pytest.mark.parametrize("crashed", [False, True])
def test_a_row_says_when_the_run_crashed(crashed):
    row = compared(outcome("a"), outcome("", crashed=crashed)).row()
    assert row.endswith("crashed") == crashed


def test_the_json_of_a_comparison_can_be_written_and_holds_what_the_row_does():
    comparison = compared(outcome("abc", seconds=1.5), outcome("a", {"b": "no"}, "c", crashed=True), "array:c")
    assert json.loads(json.dumps(comparison.as_json())) == {
        "file": "array",
        "plain": {"passed": 3, "failed": 0, "skipped": 0, "seconds": 1.5, "crashed": False},
        "elastic": {"passed": 1, "failed": 1, "skipped": 1, "seconds": 0.0, "crashed": True},
        "kept": 1,
        "lost": {"b": "no"},
    }


def test_the_share_counts_tests_not_files():
    one = compared(outcome("abcdefgh"), outcome("abcdefgh"))
    other = compared(outcome("xy"), outcome("x"))
    assert share([one, other]) == pytest.approx(0.9)


def test_waived_tests_are_outside_the_share():
    plain, ours = outcome("abcd"), outcome("ab")
    assert share([compared(plain, ours)]) == pytest.approx(2 / 4)
    assert share([compared(plain, ours, "array:c")]) == pytest.approx(2 / 3)
    assert share([compared(plain, ours, "array:c", "array:d")]) == 1


def test_where_nothing_is_expected_nothing_is_missing():
    assert share([]) == 1
    assert share([compared(outcome(), outcome("a"))]) == 1


def test_a_crash_loses_all_tests_of_its_file():
    comparison = compared(outcome("abc"), Outcome(crashed=True))
    assert comparison.lost == dict.fromkeys("abc", "did not run")
    assert share([comparison]) == 0


def test_waivers_are_read_with_their_reasons():
    text = "# a comment\n\narray:A.test_b  it has a reason\n  \npjit:C.test_d[1] another: with # and  spaces \n"
    assert read_waivers(text) == {
        "array:A.test_b": "it has a reason",
        "pjit:C.test_d[1]": "another: with # and  spaces",
    }


@pytest.mark.parametrize(
    "line", ["array:A.test_b", "array:A.test_b   ", "A.test_b for a reason", "word", "  array:A.test_b a reason"]
)
def test_a_line_that_is_no_waiver_is_an_error_with_its_number(line):
    with pytest.raises(ValueError, match=r"^line 3: FILE:CLASS\.TEST and a reason are wanted"):
        read_waivers(f"# a comment\narray:A.test_a  fine\n{line}\narray:A.test_c  fine\n")


def test_our_own_waivers_can_be_read_and_are_of_files_that_are_run():
    for waived in read_waivers(WAIVERS.read_text(encoding="utf-8")):
        name, _, test = waived.partition(":")
        assert name in FILES or name.endswith("_test.py")
        assert len(test.split(".")) == 2


def test_a_tab_may_stand_before_the_reason():
    assert read_waivers("array:A.test_b\ta long reason") == {"array:A.test_b": "a long reason"}
