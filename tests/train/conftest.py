"""The folder with model, problems and rewards that the trainings of these tests share."""

import pytest

from tests.helpers import require
from tests.train import tiny_run


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    require("trl")
    return tiny_run.prepare(tmp_path_factory.mktemp("home"))
