"""Prints what TensorBoard's own reader finds below a folder: by name, steps and values of all runs."""

import json
import sys

from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

multiplexer = EventMultiplexer(size_guidance={"scalars": 0, "tensors": 0}).AddRunsFromDirectory(sys.argv[1])
multiplexer.Reload()
found = {}
for run, tags in multiplexer.Runs().items():
    for tag in tags["scalars"]:
        found.setdefault(tag, []).extend([event.step, event.value] for event in multiplexer.Scalars(run, tag))
    for tag in tags["tensors"]:
        for event in multiplexer.Tensors(run, tag):
            values = event.tensor_proto.float_val or __import__("struct").unpack("<f", event.tensor_proto.tensor_content)
            found.setdefault(tag, []).append([event.step, values[0]])
print(json.dumps(found))
