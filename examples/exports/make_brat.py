"""Standoff files as brat writes them, by its documentation: brat.zip beside this file, a folder for each annotator."""

import zipfile
from pathlib import Path

TEXTS = {
    "a": ("Ann met Bob.", [("Person", 0, 3), ("Person", 8, 11)]),
    "b": ("Rome is old.", [("Place", 0, 4)]),
    "sub/c": ("Nobody came.", []),
}

if __name__ == "__main__":
    with zipfile.ZipFile(Path(__file__).parent / "brat.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for worker in ("ann", "bob"):
            for name, (text, spans) in TEXTS.items():
                kept = spans[: 1 if worker == "bob" else None]  # bob marks one name in a text
                lines = [
                    f"T{number}\t{kind} {start} {end}\t{text[start:end]}\n"
                    for number, (kind, start, end) in enumerate(kept, 1)
                ]
                if (worker, name) == ("ann", "a"):
                    lines += [
                        "T3\tEvent 4 7;8 11\tmet Bob\n",
                        "R1\tMet Arg1:T1 Arg2:T2\n",
                        "#1\tAnnotatorNotes T1\tsure\n",
                    ]
                archive.writestr(zipfile.ZipInfo(f"{worker}/{name}.txt"), text)
                archive.writestr(zipfile.ZipInfo(f"{worker}/{name}.ann"), "".join(lines))
