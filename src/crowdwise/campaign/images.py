"""Images of tasks: read by Pillow, turned upright, and written anew, so that nothing but pixels reaches a browser.

What was in the file besides (scripts of an SVG, a second format behind the first, where a photograph was taken) is
gone. A file that Pillow does not read as one of four formats, or with more pixels than a screen can use, is refused.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.atomic_output import replace_file
from crowdwise.labels.errors import InputError, quote

try:
    from PIL import Image, ImageOps
except ModuleNotFoundError as error:
    raise InputError(f"Images need {error.name}, which is not installed: pip install 'crowdwise[campaign]'.") from error

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.campaign.project import Project
    from crowdwise.campaign.task_files import Task

__all__ = ["IMAGE_NAME", "check_place", "encode_image", "import_images", "store_image"]

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
MOST_PIXELS = 50_000_000
LONGEST_SIDE = 2_400
MOST_BYTES = 20 << 20
IMAGE_NAME = re.compile(r"^[0-9a-f]{64}\.(png|jpg)\Z")
FIELDS = ("image", "left_image", "right_image")


def encode_image(content: bytes) -> tuple[str, bytes]:
    """The image written anew: its name, which is its hash, and its bytes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
                _check_size(opened.size)
                is_photograph = opened.format == "JPEG"
                image = _to_bytes(ImageOps.exif_transpose(opened)).convert("RGB" if is_photograph else "RGBA")
    except InputError:
        raise
    except Exception as error:  # Pillow's readers raise whatever broken bytes make them raise
        raise InputError("It is no PNG, JPEG, GIF or WebP image that can be read.") from error
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    bare = Image.new(image.mode, image.size)  # comments and the like are kept with an image that was read
    bare.paste(image)
    buffer = io.BytesIO()
    if is_photograph:
        bare.save(buffer, "JPEG", quality=90)
    else:
        bare.save(buffer, "PNG")
    written = buffer.getvalue()
    return f"{hashlib.sha256(written).hexdigest()}.{'jpg' if is_photograph else 'png'}", written


def _to_bytes(image: Image.Image) -> Image.Image:
    """Grey of 16 bits in 8: Pillow would show all but the darkest as white."""
    if not image.mode.startswith("I"):
        return image
    return Image.fromarray((np.asarray(image) // 256).astype(np.uint8))


def _check_size(size: tuple[int, int]) -> None:
    if size[0] * size[1] > MOST_PIXELS:
        raise InputError(f"It has more than {MOST_PIXELS:,} pixels. Make it smaller.")


def store_image(content: bytes, folder: Path) -> str:
    """Write an image to the folder of the campaign's images; returns its name there."""
    name, written = encode_image(content)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} is to hold the images, and is no folder that can be made: {error.strerror}."
        ) from error
    if not (folder / name).exists():
        with replace_file(folder / name) as draft:
            draft.write_bytes(written)
    return name


def import_images(project: Project, tasks: list[Task], folder: Path) -> list[Task]:
    """The tasks with the names of stored images in place of paths."""
    base = (project.images or project.tasks.parent).resolve()
    return [_import_one(task, base, folder) for task in tasks]


def check_place(task: Task, path: Path, base: Path) -> None:
    """Refuse the image of a task that is no file of sensible size within the folder of images."""
    try:
        found = path.resolve()
        is_within, is_file = found.is_relative_to(base), found.is_file()
        n_bytes = found.stat().st_size if is_file else 0
    except (OSError, ValueError, RuntimeError) as error:  # a name that is none, a link to itself
        raise InputError(f"Task {quote(task.name)}: {quote(str(path))} cannot be opened as an image.") from error
    if not is_within:
        raise InputError(f"Task {quote(task.name)}: {quote(str(path))} lies outside {base}. Name images within it.")
    if not is_file or n_bytes > MOST_BYTES:
        raise InputError(f"Task {quote(task.name)}: {found} is no file, or larger than {MOST_BYTES >> 20} MB.")


def _import_one(task: Task, base: Path, folder: Path) -> Task:
    content = dict(task.content)
    for field in FIELDS:
        given = content.get(field)
        if given is None or (IMAGE_NAME.match(given) and (folder / given).is_file()):
            continue
        path = base / given
        check_place(task, path, base)
        try:
            content[field] = store_image(path.read_bytes(), folder)
        except (OSError, InputError) as error:
            raise InputError(f"Task {quote(task.name)}: {path} cannot be shown. {error}") from error
    return replace(task, content=content)
