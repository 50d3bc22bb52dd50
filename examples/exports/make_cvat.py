"""Exports of CVAT ("CVAT for images 1.1"), by its documented fields: the folder cvat beside this file, a file a worker.

Two workers and four images: boxes around cars, the sky as a polygon (ann) or as a mask (bob), a tag for the weather.
"""

from pathlib import Path
from xml.sax.saxutils import quoteattr

WIDTH, HEIGHT = 30, 20
CARS = [[(3, 12, 9, 16)], [(15, 11, 24, 18)], [(2, 10, 8, 15), (18, 12, 26, 17)], []]


def make_document(worker: str) -> str:
    late = worker == "bob"
    images = []
    for number, cars in enumerate(CARS):
        marks = []
        for car in cars[: 1 if late else None]:  # bob sees one car in an image
            corners = (
                f'{name}="{each + late * 0.5:.2f}"'
                for name, each in zip(("xtl", "ytl", "xbr", "ybr"), car, strict=True)
            )
            marks.append(f'<box label="car" source="manual" occluded="0" {" ".join(corners)} z_order="0"></box>')
        sky = 6 + number
        if late:
            marks.append(
                f'<mask label="sky" source="manual" occluded="0" rle="0, {WIDTH * sky}" left="0" top="0" '
                f'width="{WIDTH}" height="{sky}" z_order="0"></mask>'
            )
        else:
            points = f"0.00,0.00;{WIDTH}.00,0.00;{WIDTH}.00,{sky}.00;0.00,{sky}.00"
            marks.append(f'<polygon label="sky" source="manual" occluded="0" points="{points}" z_order="0"></polygon>')
        weather = "sunny" if number % 2 else "cloudy"
        marks.append(f'<tag label={quoteattr(weather)} source="manual"></tag>')
        name = quoteattr(f"road/{number}.jpg")
        body = "".join(f"    {mark}\n" for mark in marks)
        images.append(f'  <image id="{number}" name={name} width="{WIDTH}" height="{HEIGHT}">\n{body}  </image>\n')
    head = '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n'
    return f"{head}{''.join(images)}</annotations>\n"


if __name__ == "__main__":
    folder = Path(__file__).parent / "cvat"
    folder.mkdir(exist_ok=True)
    for worker in ("ann", "bob"):
        (folder / f"{worker}.xml").write_text(make_document(worker), encoding="utf-8")
