"""Production's form of a run: the collector's layout, written from a simulated bundle and read from anywhere (§9.5, ruling B11).

`Capture` is what a run looks like in that form; `opening.open_capture` makes one of a bundle, of an archive, or of an unpacked one.
"""
