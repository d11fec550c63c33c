"""The reference route of data-parallel training: exact arithmetic on integers, with no module and no float of production (K7).

`problem` draws or reads the samples, `ieee` decodes recorded vectors bit by bit, `smooth` and `layered` give the exact gradient sum
of a batch with a bound on what float64 may have made of it, `reference` makes an update and its tolerance of both, and judges.
"""
