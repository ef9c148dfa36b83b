from pathlib import Path

import pytest

from tests.membership.story import retell

STORIES = sorted(Path(__file__).with_name("stories").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_what_happens_is_what_the_story_tells(path):
    assert retell(path.read_text()) == path.read_text()
