"""Workbooks by openpyxl 3.1.5: spreadsheet-long.xlsx and spreadsheet-wide.xlsx beside this file.

pip install openpyxl && python make_spreadsheet.py
"""

import random
from pathlib import Path

from openpyxl import Workbook

SKILLS = {"ann": 0.95, "bob": 0.8, "cy": 0.7}

if __name__ == "__main__":
    rng = random.Random(7)
    long, wide = Workbook(), Workbook()
    long.active.append(["item", "annotator", "answer"])
    wide.active.append(["item", *SKILLS])
    for number in range(1, 9):
        truth = "yes" if number % 2 else "no"
        said = {worker: truth if rng.random() < skill else "maybe" for worker, skill in SKILLS.items()}
        wide.active.append([number, *(None if (worker, number) == ("bob", 8) else said[worker] for worker in SKILLS)])
        for worker, answer in said.items():
            if (worker, number) != ("bob", 8):
                long.active.append([number, worker, answer])
    for name, book in (("long", long), ("wide", wide)):
        book.save(Path(__file__).parent / f"spreadsheet-{name}.xlsx")
