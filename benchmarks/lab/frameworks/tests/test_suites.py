"""The frameworks' own tests of DLPack, with a tensor of dlx in between."""

import pytest
import suites
from suites import fetch


@pytest.mark.parametrize("suite", suites.QUICK, ids=lambda suite: suite.name)
def test_suite(suite):
    try:
        result = suites.run(suite)
    except fetch.Unavailable as why:
        pytest.skip(f"the tests of {suite.name} could not be fetched: {why}")
    assert result["wrong"] == {}
    assert result["unneeded"] == [], "the tests pass with dlx and need not be left out"
    assert result["own"] == [], "the tests fail without dlx"
    assert result["passed"] > 0
