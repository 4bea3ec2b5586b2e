"""Imports for people of our tests."""

import pytest

from shared.settings import Settings
from tests.conftest import Person
from tests.integrations.bringing import Importer


@pytest.fixture
def importer(deployment: Settings, alice: Person) -> Importer:
    """Imports of alice."""
    return Importer(deployment, alice)
