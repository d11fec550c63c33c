"""Public bugs of the field that this design answers to: facts from issue trackers (training design, section 27)."""

from typing import Final

KNOWN: Final = (
    ("DDP averages over ranks, whatever their batch sizes", "pytorch 37359, 31579; fairseq 494", "UNWEIGHTED_MEAN"),
    ("world size baked into the graph, wrong averages after an elastic rescale", "horovod 1955", "OLD_DIVISOR"),
    (
        "sum divided by the replicas that take part, healing ones contribute zeros",
        "torchft, manager.py",
        "UNWEIGHTED_MEAN",
    ),
    (
        "the last, partial accumulation window divided by the full one",
        "ms-swift 10084; transformers 34191, 35203; torchtune 2172",
        "PLANNED_DIVISOR",
    ),
    (
        "indices of a lost worker forgotten, samples repeated or skipped after a rescale",
        "horovod 3143, 3399, 2844; torchft 292; dlrover 591, 1553",
        "EPOCH_FROM_START",
    ),
    (
        "sampler pads with repeated samples, or drops the tail",
        "pytorch 25162, 41171",
        "PAD_SHORT_BATCH DROP_SHORT_BATCH",
    ),
    ("stale gradients at the edges of synchronous replicas", "tensorflow models 562; tensorflow 11660", "STALE_PUSH"),
    (
        "optimiser state not restored everywhere, the resumed run is another model",
        "horovod 526; Megatron-LM 6920",
        "MOMENTUM_NOT_SENT CHECKPOINT_NO_MOMENTUM",
    ),
    ("each worker chooses its own source of state", "elasticdl 1501", "REJOIN_OLD_WEIGHTS"),
    ("loss scale local to a rank, replicas drift", "pytorch 136009; WeatherGenerator 2724", "LOCAL_SCALE"),
    ("batch statistics combined with the local count", "pytorch 22192; Paddle 32464", "STATS_MEAN_OF_MEANS"),
    ("are replicas bit-identical after an all-reduce", "horovod 1927; nccl 434, 855", "RECIPROCAL"),
)
"""What was met, where, and the defect that is its like here."""
