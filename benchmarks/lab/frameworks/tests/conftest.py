import gc
import os
import pathlib
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parents[3] / ".cache" / "interop"))

import dlx  # noqa: E402


def pytest_sessionfinish(session, exitstatus):
    """Appends the counts for scripts/run-suites.sh."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    stats = {key: len(reporter.stats.get(key, [])) for key in ("passed", "failed", "error", "skipped", "xfailed")}
    if os.environ.get("DLX_COUNTS"):
        with open(os.environ["DLX_COUNTS"], "a") as counts:
            print(stats["passed"], stats["failed"] + stats["error"], stats["skipped"] + stats["xfailed"], file=counts)


def becomes(state, expected):
    """Reports whether state() becomes expected: memory is freed when the device has finished its work on it."""
    gc.collect()
    end = time.monotonic() + 60
    while state() != expected and time.monotonic() < end:
        time.sleep(0.01)
    return state() == expected


@pytest.fixture(autouse=True)
def no_leaks():
    """Every test leaves as much open as it found."""
    gc.collect()
    before = dlx._live()
    yield
    assert becomes(dlx._live, before), (dlx._live(), before)
