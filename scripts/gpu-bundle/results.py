"""What was found: a file of JSON that is written again after each part, the log
of all programs, and the table."""

import json
import os
import pathlib
import time

LOG_BYTES = 15 << 20
LONGEST = 200_000      # of one program


class Results:
    """Of a folder. What an earlier run left there of other parts stays."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.parts = {}
        path = self.folder / "results.json"
        if path.exists():
            self.parts = json.loads(path.read_text())
        self.logged = 0

    def log(self, title, text):
        """Cut in the middle where it is long, and where the log is as long as it
        may be."""
        text = text.rstrip()
        if len(text) > LONGEST:
            half = LONGEST // 2
            text = f"{text[:half]}\n[…]\n{text[-half:]}"
        text = f"=== {title}\n{text}\n"
        if self.logged + len(text) > LOG_BYTES:
            return
        mode = "a" if self.logged else "w"
        with open(self.folder / "log.txt", mode, encoding="utf-8",
                  errors="replace") as file:
            file.write(text)
        self.logged += len(text) + 1

    def write(self, name, text):
        """Whole, or not at all."""
        path = self.folder / name
        new = path.with_suffix(path.suffix + ".new")
        new.write_text(text)
        os.replace(new, path)

    def keep(self, name, part):
        self.parts[name] = dict(part, at=time.strftime("%Y-%m-%dT%H:%M:%SZ",
                                                       time.gmtime()))
        self.write("results.json", json.dumps(self.parts, indent=1))
        self.write("table.txt", self.table())

    def table(self):
        rows = [("part", "what", "measured", "expected", "")]
        for name, part in self.parts.items():
            for row in part.get("rows", []):
                rows.append((name, row["what"], row["measured"],
                             row.get("expected", ""), row.get("verdict", "")))
            if part["status"] not in ("ok", "failed") or not part.get("rows"):
                rows.append((name, part["status"], part.get("why", ""), "",
                             ""))
            name = ""
        widths = [max(len(str(r[i])) for r in rows) for i in range(4)]
        return "".join(
            "  ".join(str(c).ljust(w) for c, w in zip(row, widths + [0])
                      ).rstrip() + "\n" for row in rows)


def row(what, measured, expected="", good=None):
    """A line of the table. good: does it hold what is expected of it?"""
    verdict = {True: "ok", False: "SHORT", None: ""}[good]
    return {"what": what, "measured": measured, "expected": expected,
            "verdict": verdict}
