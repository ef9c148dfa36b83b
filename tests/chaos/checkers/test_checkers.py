"""Each checker on histories that keep its promise, and on ones that break it in each way that it knows."""

import pytest

from chaos import checkers
from chaos.checkers.truth import MOST
from chaos.plan import AtStep, PlannedFault
from tests.chaos.histories import (
    callback,
    checkpoints,
    ended,
    evidence,
    generation,
    gone,
    holds,
    injected,
    joined,
    lost,
    read,
    recovered,
    replay,
    restored,
    reverted,
    snapshot,
    started,
    stored,
    story,
)


def problems(checker, *chaos, clean=(), **plan):
    return list(checker(evidence(chaos, clean, **plan)).problems)


class TestNumbers:
    PLAIN = (started(), read(1, 1, "aa"), read(2, 2, "bb"), ended(3))

    def check(self, *chaos, **settings):
        return problems(checkers.numbers, *chaos, **{"clean": self.PLAIN, **settings})

    def test_values_are_compared_in_the_order_in_which_they_were_asked_for(self):
        assert self.check(read(1, 9, "bb"), read(2, 4, "aa"), ended(3)) == []

    def test_another_value_is_told_with_both(self):
        assert self.check(read(1, 1, "aa"), read(2, 2, "bc"), ended(3)) == [
            "value 2 is bc, and bb when nothing happens"
        ]

    def test_a_value_too_few_or_too_many_is_told(self):
        assert self.check(read(1, 1, "aa"), ended(3)) == ["the script read 1 values, and 2 when nothing happens"]

    def test_a_run_that_may_fail_must_have_been_right_as_far_as_it_came(self):
        assert self.check(read(1, 1, "aa"), ended(3, code=1), allow_data_loss=True) == []
        assert len(self.check(read(1, 1, "xx"), ended(3, code=1), allow_data_loss=True)) == 1

    def test_a_script_that_fails_only_under_the_plan_breaks_the_promise(self):
        assert self.check(read(1, 1, "aa"), read(2, 2, "bb"), ended(3, code=1)) == ["the script ended with exit code 1"]

    def test_a_replay_that_differs_is_told(self):
        found = self.check(
            read(1, 1, "aa"), read(2, 2, "bb"), (2, "verified", {"equal": False, "what": "array 7"}), ended(3)
        )
        assert found == ["a replay gave another value: array 7"]

    def test_wrong_values_of_which_the_run_has_said_so_are_remarks(self):
        told = (3, "corruption", {"host": "h1", "reads": [1]})
        replayed = (4, "verified", {"equal": False, "what": "array 7", "number": 2})
        found = checkers.numbers(evidence([read(1, 1, "xx"), read(2, 2, "yy"), told, replayed, ended(5)], self.PLAIN))
        assert found.held
        assert found.remarks == ["2 of the values 1 to 2 were wrong, as the run said"]
        assert len(self.check(read(1, 1, "xx"), read(2, 2, "yy"), replayed, ended(5))) == 3

    def test_a_script_that_reads_nothing_shows_nothing(self):
        assert self.check(ended(3), clean=(started(), ended(3))) == [
            "the script read no value, so there is nothing to compare"
        ]

    def test_printed_lines_that_differ_are_a_remark(self):
        line = lambda text: (1, "output", {"line": text})  # noqa: E731
        found = checkers.numbers(evidence([*self.PLAIN, line("2.0 s")], [*self.PLAIN, line("1.0 s")]))
        assert found.held
        assert found.remarks == ["1 printed lines differ, the first: '2.0 s' instead of '1.0 s'"]


class TestExactlyOnce:
    def check(self, *chaos, **settings):
        return problems(checkers.exactly_once, *chaos, **settings)

    def test_worlds_that_go_on_from_the_snapshot_that_counts_lose_and_double_nothing(self):
        assert (
            self.check(
                *(replay(0, 1, 0, 0), snapshot(1, 10), lost(2, "h1"), restored(3, 2, 10), replay(3, 2, 10, 15)),
                *(lost(4, "h1"), restored(5, 3, 10), replay(5, 3, 10, 18), snapshot(6, 20)),
                *((7, "forgotten", {"operation": 30}), lost(8, "h1"), restored(9, 4, 0), replay(9, 4, 30, 30)),
            )
            == []
        )

    def test_a_world_that_goes_back_to_what_was_verified_begins_there(self):
        back = ((3, "went_back", {"operation": 10, "to": "verified"}), restored(4, 2, 10), replay(4, 2, 10, 25))
        assert self.check(replay(0, 1, 0, 0), snapshot(1, 10), snapshot(2, 20), *back) == []

    def test_operations_that_a_replay_leaves_out_are_lost(self):
        assert self.check(replay(0, 1, 0, 0), snapshot(1, 10), replay(3, 2, 12, 15)) == [
            "generation 2 begins at operation 12, and the snapshot that counts is of 10"
        ]

    def test_operations_that_the_arrays_hold_already_are_doubled(self):
        assert self.check(replay(0, 1, 0, 0), snapshot(1, 10), restored(3, 2, 12), replay(3, 2, 10, 15)) == [
            "generation 2 has the arrays of operation 12, and goes on at 10"
        ]

    def test_a_journal_that_shrinks_at_its_end_has_lost_something(self):
        assert self.check(replay(0, 1, 0, 9), replay(1, 2, 0, 7)) == [
            "generation 2 was told 7 operations, of 9 before it"
        ]

    def test_callbacks_are_counted_against_the_run_to_which_nothing_happened(self):
        plain = (callback(1, "f"), callback(2, "f"), callback(3, "g"))
        assert self.check(*plain, clean=plain) == []
        assert self.check(*plain, callback(4, "f"), clean=plain) == ["the callback of f ran 1 times too often"]
        assert self.check(*plain[:2], clean=plain) == ["the callback of g ran 1 times too seldom"]
        assert self.check(*plain[:2], ended(9, code=1), clean=plain, allow_data_loss=True) == []

    def test_a_value_that_is_answered_twice_is_told(self):
        assert self.check(read(1, 5, "a"), read(2, 5, "a")) == ["value number 5 was read 2 times"]


class TestOneOwner:
    def check(self, *chaos):
        return problems(checkers.one_owner, *chaos)

    def test_generations_grow_and_their_devices_are_on_hosts_that_have_executors(self):
        assert (
            self.check(generation(0, 1, "h0", "h1"), replay(1, 1, 0, 0), read(2, 1, "a"), generation(3, 2, "h0", "h0"))
            == []
        )

    def test_an_answer_of_an_older_generation_is_told(self):
        found = self.check(generation(0, 1, "h0"), generation(1, 2, "h1"), read(2, 1, "a", generation=1))
        assert found == ["a message of generation 1 was accepted in generation 2"]

    def test_a_generation_that_comes_twice_is_told(self):
        assert self.check(generation(0, 2, "h0"), generation(1, 2, "h1")) == [
            "generation 2 was formed after generation 2"
        ]

    def test_devices_that_appear_or_vanish_are_told(self):
        found = self.check(generation(0, 1, "h0", "h1"), generation(1, 2, "h0"))
        assert found == ["generation 2 has 1 virtual devices, of 2 before"]

    def test_devices_on_a_host_without_an_executor_are_told(self):
        found = self.check((0, "generation", {"generation": 1, "owners": ["h0", "h1"], "executors": {"h0": 7}}))
        assert found == ["generation 1 has devices on h1, which has no executor"]

    def test_a_history_without_a_world_shows_nothing(self):
        assert self.check(started(), ended(1)) == ["no world was formed"]


class TestLiveness:
    def check(self, *chaos, **settings):
        return problems(checkers.liveness, started(), *chaos, **settings)

    def test_a_fault_that_is_noticed_and_mended_in_time_is_as_promised(self):
        assert self.check(injected(1, 1, "kill-host", "h1"), lost(2, "h1"), recovered(3, "h1"), ended(20)) == []

    def test_a_plan_of_which_nothing_was_done_shows_nothing(self):
        planned = PlannedFault("kill-host", AtStep(1), ("h1",))
        assert self.check(ended(20), faults=(planned,)) == [
            "none of the faults of the plan was done, so nothing is shown"
        ]

    def test_a_fault_that_nobody_notices_is_told_unless_the_script_ends_before(self):
        assert self.check(injected(1, 1, "kill-host", "h1"), ended(20)) == [
            "fault 1 (kill-host h1) was not noticed within 5 s"
        ]
        assert self.check(injected(18, 1, "kill-host", "h1"), ended(20)) == []

    def test_a_fault_that_need_not_be_noticed_is_not_missed(self):
        assert self.check(injected(1, 1, "slow", "h1", must_be_noticed=False), ended(20)) == []

    def test_a_fault_of_a_disk_must_be_noticed_only_if_something_was_to_be_stored_meanwhile(self):
        def disk(until):
            return (injected(1, 1, "disk-full", lasts=until - 1.0), reverted(until, 1), ended(60), snapshot(8, 3))

        assert self.check(*disk(9), checkpoint_every=5.0) == []
        assert self.check(*disk(20)[:-1], snapshot(5, 3), snapshot(16, 5), checkpoint_every=5.0) == []
        assert self.check(*disk(20), checkpoint_every=5.0) == ["fault 1 (disk-full) was not noticed within 5 s"]

    @pytest.mark.parametrize(
        ("gone_at", "back_at", "missed"), [(30, 31, 1), (7, 9, 1), (7, 16, 0), (2, 7, 1), (2, 16, 0), (2, 30, 0)]
    )
    def test_a_host_that_is_away_notices_nothing_of_its_disk(self, gone_at, back_at, missed):
        slow = (injected(1, 1, "disk-slow", "h1", lasts=19.0), reverted(20, 1), ended(60))
        away = (joined(0, "h1"), gone(gone_at, "h1"), joined(back_at, "h1"), gone(back_at, "h2"), snapshot(8, 3))
        assert len(self.check(*away, *slow, checkpoint_every=5.0)) == missed

    @pytest.mark.parametrize(("verified", "missed"), [((), 0), ((5,), 0), ((12,), 1), ((25,), 0)])
    def test_of_a_run_that_verifies_something_is_stored_only_when_it_was_verified(self, verified, missed):
        snapshots = [(at, "verified_snapshot", {"number": 1, "operation": 3}) for at in verified]
        disk = (injected(1, 1, "disk-full", lasts=19.0), *snapshots, reverted(20, 1), ended(60))
        assert len(self.check(*disk, checkpoint_every=5.0, verify_every=1)) == missed

    def test_a_recovery_that_takes_too_long_is_told(self):
        found = self.check(lost(1, "h1"), recovered(9, "h1"), ended(20), recover_within=5.0)
        assert found == ["the loss of h1 was not followed by a recovery within 5 s"]

    def test_a_fault_that_is_not_taken_back_is_told(self):
        frozen = injected(1, 1, "freeze-host", "h1", lasts=3.0)
        assert self.check(frozen, lost(2, "h1"), recovered(3, "h1"), reverted(4, 1), ended(20)) == []
        assert self.check(frozen, lost(2, "h1"), recovered(3, "h1"), ended(20)) == [
            "fault 1 (freeze-host h1) was not taken back"
        ]

    def test_a_run_that_ends_for_a_loss_is_told_unless_it_may(self):
        failed = (2, "failed", {"host": "h1", "reason": "all are dead"})
        assert self.check(failed, ended(3, code=1)) == ["the run could not go on: all are dead"]
        assert self.check(failed, ended(3, code=1), allow_data_loss=True) == []

    def test_a_run_that_hangs_is_told(self):
        hung = (20, "hung", {"seconds": 15.0})
        assert self.check(hung, ended(20, code=-9)) == ["nothing happened for 15 s, and the run was ended"]

    def test_a_script_that_does_not_end_is_told(self):
        assert self.check(read(1, 1, "a")) == ["the script did not end"]


class TestDurability:
    STORY = (joined(0, "h0"), joined(0, "h1"), joined(0, "h2"), snapshot(1, 5), holds(1, ["h0", "h1"]))

    def check(self, *chaos, **settings):
        return problems(checkers.durability, *self.STORY, *chaos, **settings)

    def test_a_host_that_goes_takes_nothing_along_that_another_has(self):
        assert self.check(gone(2, "h0"), holds(3, ["h1", "h2"]), gone(4, "h1")) == []

    def test_the_moment_in_which_nobody_has_everything_is_told_once(self):
        assert self.check(gone(2, "h0"), gone(3, "h1"), gone(4, "h2")) == [
            "when h1 told 'gone', no host held all of the arrays"
        ]

    def test_where_it_is_allowed_it_is_a_remark(self):
        found = checkers.durability(evidence([*self.STORY, gone(2, "h0"), gone(3, "h1")], allow_data_loss=True))
        assert found.held
        assert len(found.remarks) == 1


class TestDurabilityOnDisk:
    STORY = (*TestDurability.STORY, stored(2, 5))

    def check(self, *chaos, **settings):
        return problems(checkers.durability, *self.STORY, *chaos, checkpoint_every=5.0, **settings)

    def went_back(self, at, to="stored"):
        return (at, "went_back", {"operation": 5, "to": to})

    def bad_copy(self, at, host):
        return (at, "bad_copy", {"host": host, "digest": "ab"})

    def bad_file(self, at):
        return (at, "bad_file", {"digest": "ab", "why": "arrays.1/c/0 was changed"})

    def test_what_is_stored_counts_when_no_host_has_anything(self):
        assert self.check(gone(3, "h0"), gone(3, "h1"), self.went_back(4), stored(6, 9)) == []

    def test_what_is_stored_and_has_rotted_does_not(self):
        assert self.check(injected(3, 1, "rot-checkpoint"), gone(4, "h0"), gone(4, "h1")) == [
            "when h1 told 'gone', no host held all of the arrays"
        ]

    def test_a_return_to_what_is_stored_though_hosts_have_everything_shows_that_they_have_not(self):
        assert self.check(gone(3, "h0"), self.went_back(4)) == [
            "the run went back to operation 5, though hosts were said to hold everything"
        ]
        assert self.check(injected(3, 1, "rot-copy", "h1"), self.bad_copy(4, "h1"), self.went_back(4)) == []

    def test_a_return_to_what_was_verified_shows_nothing_of_the_kind(self):
        assert self.check(self.went_back(4, to="verified")) == []

    def test_a_copy_that_is_bad_by_itself_was_never_true(self):
        rotten = injected(3, 1, "rot-copy", "h0")
        assert self.check(rotten, self.bad_copy(4, "h0")) == []
        assert self.check(rotten, self.bad_copy(4, "h1")) == [
            "the copy ab on h1 was bad, and nothing had been done to it"
        ]

    def test_a_stored_file_that_is_bad_by_itself_was_never_true(self):
        assert self.check(injected(3, 1, "rot-checkpoint"), self.bad_file(4)) == []
        assert self.check(self.bad_file(4)) == [
            "a stored file was bad, and nothing had been done to it: arrays.1/c/0 was changed"
        ]

    @pytest.mark.parametrize("fault", ["disk-full", "disk-read-only"])
    def test_nothing_is_stored_on_a_disk_that_takes_nothing(self, fault):
        hit = (injected(3, 1, fault, lasts=5.0), reverted(8, 1))
        assert self.check(*hit, stored(3.2, 6), stored(9, 7, seconds=3.0)) == []
        assert self.check(*hit, stored(6, 6)) == [f"operation 6 was told as stored during fault 1 ({fault})"]

    def test_what_is_found_on_disk_in_the_end_is_whole_unless_it_has_rotted(self):
        assert self.check(checkpoints(9)) == []
        assert self.check(injected(3, 1, "rot-checkpoint"), checkpoints(9, bad=["x was changed"])) == []
        assert self.check(checkpoints(9, bad=["x was changed"])) == [
            "a checkpoint of the run under the plan is not whole: x was changed"
        ]

    def test_what_is_foreign_stays_in_both_runs(self):
        found = checkers.durability(evidence([checkpoints(9)], [checkpoints(9, foreign_gone=["notes.txt"])]))
        assert found.problems == ["the run without faults has removed or changed notes.txt, which is not its own"]


class TestTruth:
    def health(self, at, *failures, asked=None):
        facts = {"asked": at if asked is None else asked, "failures": [{"host": h, "kind": k} for h, k in failures]}
        return (at, "health", facts)

    def check(self, *chaos):
        return problems(checkers.truth, injected(0, 1, "kill-host", "h1"), *chaos)

    def test_health_tells_what_happened(self):
        assert self.check(lost(1, "h1"), recovered(2, "h1"), self.health(3, ("h1", "lost"))) == []

    def test_a_change_after_it_was_asked_need_not_be_told(self):
        assert self.check(recovered(2, "h1"), self.health(3, asked=1)) == []

    def test_another_host_or_kind_is_told(self):
        assert self.check(recovered(2, "h1"), self.health(3, ("h1", "moved"))) == [
            "health tells of h1 (moved), and it was h1 (lost)"
        ]

    def test_a_change_that_health_forgot_or_made_up_is_told(self):
        assert self.check(recovered(2, "h1"), self.health(3)) == ["health tells of 0 changes, of 1 that there were"]
        assert self.check(self.health(3, ("h1", "lost"))) == ["health tells of 1 changes, of 0 that there were"]

    def test_of_many_changes_health_tells_the_last(self):
        changes = [recovered(at, f"h{at % 3}") for at in range(1, MOST + 20)]
        told = [(f"h{at % 3}", "lost") for at in range(20, MOST + 20)]
        assert self.check(*changes, self.health(200, *told)) == []
        assert self.check(*changes, self.health(200, *told[1:])) == [
            "health tells of 99 changes, of 119 that there were"
        ]
        wrong = [*told[:-1], ("h9", "lost")]
        assert self.check(*changes, self.health(200, *wrong)) == ["health tells of h9 (lost), and it was h2 (lost)"]

    def test_what_happens_while_health_answers_may_be_told_or_not(self):
        changes = [recovered(1, "h1"), recovered(3, "h2")]
        for told in ([("h1", "lost")], [("h1", "lost"), ("h2", "lost")]):
            assert self.check(*changes, self.health(4, *told, asked=2)) == []

    def test_each_account_counts(self):
        first, last = self.health(2, ("h9", "lost")), self.health(3, ("h1", "lost"))
        assert self.check(recovered(1, "h1"), first, last) == ["health tells of h9 (lost), and it was h1 (lost)"]

    def test_a_run_that_changed_without_an_account_is_told(self):
        assert self.check(recovered(2, "h1"), ended(20)) == ["health gave no account"]
        assert self.check(recovered(2, "h1"), ended(3)) == []
        assert self.check() == []

    def test_alarms_without_a_fault_and_faults_that_were_not_done_are_remarks(self):
        skipped = (8, "skipped", {"fault": "kill-agent", "hosts": ["h2"], "why": "it is not there"})
        found = checkers.truth(evidence([lost(9, "h2"), skipped]))
        assert found.held
        assert found.remarks == ["without a fault: lost h2: killed", "not done: kill-agent h2: it is not there"]

    def test_what_has_rotted_and_was_not_found_is_a_remark(self):
        rotten = injected(1, 1, "rot-copy", "h1", must_be_noticed=False)
        found = checkers.truth(evidence([rotten, ended(9)]))
        assert found.remarks == ["not noticed: fault 1 (rot-copy h1): nobody came upon it"]


class TestClean:
    NOTHING = (9, "leftovers", {"processes": [], "files": []})

    def check(self, chaos):
        return problems(checkers.clean, chaos, clean=[self.NOTHING])

    def test_a_run_that_left_nothing_is_clean(self):
        assert self.check(self.NOTHING) == []

    def test_what_is_left_is_named(self):
        assert self.check((9, "leftovers", {"processes": ["12 python"], "files": ["/dev/shm/x"]})) == [
            "the run under the plan has left the process 12 python",
            "the run under the plan has left /dev/shm/x",
        ]

    def test_a_run_at_which_nobody_looked_is_not_clean(self):
        assert self.check(ended(3)) == ["nobody looked what the run under the plan had left"]


@pytest.mark.parametrize("checker", checkers.CHECKERS)
def test_a_checker_tells_no_more_than_a_reader_can_take_in(checker):
    many = [(1, "read", {"number": 1, "digest": "a", "generation": 5})] * 100
    assert len(checker(evidence(many, [read(1, 1, "b")] * 100)).problems) <= 21
    assert story(*many).of("read")
