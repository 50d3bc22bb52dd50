from .export import Export as Export
from .export import Question as Question
from .export_format import Format as Format
from .format_registry import find_format as find_format
from .format_registry import formats as formats
from .open_export import read_export as read_export
