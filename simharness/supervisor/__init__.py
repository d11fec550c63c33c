"""The world around the job supervisor: simulated processes, ground truth, faults, checks and the tools that run it by the seed.

Nothing but the command line imports this room; its host kind and its knob hunter are reached by registered name (ruling K5).
"""
