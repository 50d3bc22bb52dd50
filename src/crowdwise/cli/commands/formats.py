"""`crowdwise formats`: the labelling tools whose exports are read, and for which the consensus is written."""

from __future__ import annotations

from rich.padding import Padding
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.options import Json

__all__ = ["formats"]

EPILOG = "Example:\n\n  crowdwise aggregate export.json --write-back predictions.json"


def formats(*, json: Json = False) -> None:
    """List the labelling tools whose exports are read as they are."""
    from crowdwise.formats import formats as every_format

    found = every_format()
    if json:
        shown = ("slug", "name", "files", "kinds", "writes")
        output_files.print_json([{name: getattr(each, name) for name in shown} for each in found])
        return
    console = console_tables.open_console()
    for each in found:
        console.print(Text.assemble((each.slug, "bold"), f"  {each.name}"))
        told = {"reads": each.files, "kinds": ", ".join(each.kinds), "writes": each.writes}
        for name, what in told.items():
            if what:
                console.print(Padding(Text(f"{name}: {what}"), (0, 0, 0, 4)))
    console.print()
    console.print(
        Text("A format is told from the content of the file; --format says which, where it might be several.")
    )
    console_tables.print_next_steps(console, [("See what an export holds:", "crowdwise describe export.json")])
