"""The plans that come with the package."""

from chaos import dump, parse, ready_made


def test_they_are_named_as_their_files_and_say_what_they_do():
    assert set(ready_made()) == {"smoke", "soak", "partitions", "preemptions", "silent-corruption", "storage"}
    assert all(plan.description and plan.faults for plan in ready_made().values())


def test_they_are_plans_as_users_write_them():
    assert all(parse(dump(plan)) == plan for plan in ready_made().values())
