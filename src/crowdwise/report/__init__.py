"""What is shown of results: pictures as SVG, and pages that hold them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
