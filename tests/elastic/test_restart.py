from elastic.restart import Restart


def test_who_has_lived_for_long_is_started_again_as_soon_as_at_first():
    restart = Restart()
    pauses = []
    for lived in (100.0, 1.0, 1.0, 19.0, 41.0, 39.0, 1.0):
        ended = restart.since + lived
        restart.again(ended)
        pauses.append(restart.pause)
        assert restart.at == ended + restart.pause
        restart.started(restart.at)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 0.5, 0.5, 1.0]
