"""Adds up the reports of ctest and pytest (JUnit XML) and of test.sh's own steps.

count_results.py [--brief] REPORT...   one line for each report; without --brief also what was skipped and what failed,
and as the last line "N passed, N failed". The exit code is 1 when something failed or a report is missing, unless --brief.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


class Report:
    """The names of one report's cases by outcome; skipped ones with the reason."""

    def __init__(self, path):
        self.name, self.passed, self.failed, self.skipped = path.stem, [], [], []
        if not path.exists():
            self.failed.append("no report was written")
        elif path.suffix == ".txt":
            for line in path.read_text().splitlines():
                outcome, title = line.split("\t")
                (self.passed if outcome == "passed" else self.failed).append(title)
        else:
            self.read_junit(path)

    def read_junit(self, path):
        try:
            cases = ElementTree.parse(path).getroot().iter("testcase")
        except ElementTree.ParseError as error:
            self.failed.append(f"the report cannot be read: {error}")
            return
        for case in cases:
            name = case.get("name")
            if case.get("classname") not in (None, "", name):
                name = f"{case.get('classname')}.{name}"
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed.append(name)
            elif case.get("status") == "notrun" and not self.asked_to_be_skipped(skipped):
                self.failed.append(f"{name}: {self.reason(case, skipped)}")
            elif skipped is not None or case.get("status") == "disabled":
                self.skipped.append(f"{name}: {self.reason(case, skipped)}")
            else:
                self.passed.append(name)

    @staticmethod
    def asked_to_be_skipped(skipped):
        """ctest also calls skipped what it could not start."""
        return skipped is not None and skipped.get("message", "").startswith("SKIP_")

    @staticmethod
    def reason(case, skipped):
        """pytest puts the reason into the element; GoogleTest prints it on the line after the source position."""
        output = (case.findtext("system-out") or "").splitlines()
        for position, line in enumerate(output):
            if line.rstrip().endswith(": Skipped") and position + 1 < len(output):
                return output[position + 1].strip()
        return (skipped.get("message") if skipped is not None else None) or "not run"

    def __str__(self):
        return (f"   {self.name:<16} {len(self.passed):>6} passed {len(self.failed):>4} failed"
                f" {len(self.skipped):>4} skipped")


def main(arguments):
    brief = "--brief" in arguments
    reports = [Report(Path(name)) for name in arguments if name != "--brief"]
    for report in reports:
        print(report)
    if brief:
        return 0
    for title in ("skipped", "failed"):
        for report in reports:
            for name in getattr(report, title):
                print(f"   {title}: {report.name}: {name}")
    failed = sum(len(report.failed) for report in reports)
    print(f"{sum(len(report.passed) for report in reports)} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
