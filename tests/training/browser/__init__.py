"""The report in a headless Chromium (marker `browser`)."""
