"""What is shown of results: pictures as SVG, and pages that hold them."""
