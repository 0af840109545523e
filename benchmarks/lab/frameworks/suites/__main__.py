import json
import pathlib
import sys

from . import SUITES, fetch, run


def main():
    file = pathlib.Path(sys.argv[1])
    table = json.loads(file.read_text())
    table["suites"], wrong = [], False
    for suite in SUITES:
        try:
            result = run(suite)
        except fetch.Unavailable as why:
            result = {"name": suite.name, "files": list(suite.files), "unavailable": str(why)}
            print(f"{suite.name}: not run: {why}")
        else:
            print(f"{suite.name}: {result['passed']} passed, {result['skipped']} skipped, {len(result['left_out'])} left out, "
                  f"{len(result['own'])} fail without dlx, too")
            for name, text in result["wrong"].items():
                print(f"  FAILED {name}: {text}")
            wrong = wrong or bool(result["wrong"] or result["unneeded"])
        table["suites"].append(result)
    file.write_text(json.dumps(table, indent=1, ensure_ascii=True) + "\n")
    sys.exit(wrong)


main()
