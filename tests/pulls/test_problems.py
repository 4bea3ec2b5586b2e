"""Why a pull can fail, in sentences for people."""

import re
from pathlib import Path

from resourceserver.integrations import pulls
from shared.connections import PROBLEMS
from shared.fetcher import FetchFailed


def test_each_failure_of_a_pull_has_its_sentences() -> None:
    modules = Path(pulls.__file__).parent.glob("*.py")
    raised = {
        code
        for module in modules
        for code in re.findall(r'(?:PullFailed|Failure)\(\s*"(\w+)"', module.read_text())
    }
    fetching = {each.code for each in FetchFailed.__subclasses__()}

    assert {"rate_limited", "history_private", "secret_unreadable"} <= raised
    assert raised | fetching <= set(PROBLEMS)
