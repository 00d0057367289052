#!/usr/bin/env python3
"""Records which sequences the Python library puts into one packed row, as the golden of our optimizer steps.

Runs the library's own planning (OpenPipe/ART, main branch of 2026: `_place_prefix_tree_leaves` of the module
`art.preprocessing.pack` and `prefix_tree_pack_segments` of `art.megatron.prefix_tree_packing`, Apache-2.0) on random groups.
Nothing of it is copied.

Run: python3 test/goldens/make_step_goldens.py <folder that holds the package art>
Writes test/goldens/optimizer-steps.json: cases of {stepLength, items, steps}; an item is [group, system, systemLength, prompt,
promptLength, completionLength], from which the test makes the same token ids as `tokens` here; a step is a list of items.
"""
import json
import pathlib
import random
import sys

sys.path.insert(0, sys.argv[1])
from art.megatron.prefix_tree_packing import prefix_tree_pack_segments  # noqa: E402
from art.preprocessing import pack  # noqa: E402

MIN_SHARED = 64  # the library's default


def tokens(item, index):
    _, system, system_length, prompt, prompt_length, completion_length = item
    return (
        [(system * 13 + i) % 50 for i in range(system_length)]
        + [100 + (i if i < 20 else prompt * 7 + i) % 50 for i in range(prompt_length)]
        + [1000 + index] * completion_length
    )


def shareable(items, sequences):
    """The library's prompt_length: what all results of a group have in common before anything sampled, less one token."""
    result = []
    for item in items:
        members = [j for j, other in enumerate(items) if other[0] == item[0]]
        common = 0
        for column in zip(*(sequences[j] for j in members)):
            if len(set(column)) > 1:
                break
            common += 1
        first_sampled = min(items[j][2] + items[j][4] for j in members)
        result.append(max(min(common, first_sampled) - 1, 0))
    return result


def steps_of(items, step_length):
    sequences = [tokens(item, index) for index, item in enumerate(items)]
    segments = prefix_tree_pack_segments(
        (tuple(s) for s in sequences),
        max_depth=max(map(len, sequences)),
        shareable_lengths=shareable(items, sequences),
        min_shared_segment_length=MIN_SHARED,
    )
    paths = [[] for _ in items]
    for segment_id, segment in enumerate(segments):
        for index in segment.sequence_indices:
            paths[index].append((segment_id, segment.length))
    groups = {}
    for index, item in enumerate(items):
        leaf = pack._PrefixTreeLeaf(
            item_index=index, packing_group_id=item[0], segment_path=tuple(paths[index]), empty_bin_cost=sum(n for _, n in paths[index])
        )
        groups.setdefault(item[0], []).append(leaf)
    bins = pack._place_prefix_tree_leaves(groups.values(), seq_len=step_length)
    return sorted([leaf.item_index for leaf in row.leaves] for row in bins)


def case(rng):
    step_length = rng.choice([256, 320, 512])
    items = []
    for group in range(rng.randint(1, 6)):
        system, system_length = rng.randint(0, 1), rng.choice([0, 0, 10, 70, 90])
        prompt, prompt_length = rng.randint(0, 2), rng.randint(1, 110)
        for _ in range(rng.randint(1, 8)):
            if rng.random() < 0.1:
                prompt = rng.randint(0, 2)
            items.append([group, system, system_length, prompt, prompt_length, rng.choice([1, rng.randint(1, 20), rng.randint(1, 50)])])
    return {"stepLength": step_length, "items": items, "steps": steps_of(items, step_length)}


rng = random.Random(13)
path = pathlib.Path(__file__).parent / "optimizer-steps.json"
path.write_text(json.dumps([case(rng) for _ in range(100)], separators=(",", ":")) + "\n")
