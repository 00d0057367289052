#!/usr/bin/env python3
"""Records learning-rate schedules of the Python library (PyPI openpipe-art 0.5.18, `create_lr_schedule`, Apache-2.0).

Run: python3 test/goldens/make_schedule_goldens.py <folder that holds the package art>
Writes test/goldens/learning-rate-schedules.json: cases of {total, peak, method, warmup, min, rates}.
"""
import ast
import json
import math
import pathlib
import random
import sys

source = (pathlib.Path(sys.argv[1]) / "art" / "utils" / "sft").with_suffix(".py").read_text()
tree = ast.parse(source)
function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "create_lr_schedule")
function.returns = None  # the annotations need imports that the function does not
for argument in function.args.args:
    argument.annotation = None
scope = {"math": math}
exec(compile(ast.Module([function], []), "sft", "exec"), scope)

rng = random.Random(9)
cases = []
for _ in range(40):
    total = rng.randint(1, 12)
    case = {"total": total, "peak": 2e-4, "method": rng.choice(["constant", "linear", "cosine"]),
            "warmup": rng.randint(0, min(4, total)), "min": rng.choice([0.0, 1e-5])}
    case["rates"] = scope["create_lr_schedule"](total, case["peak"], case["method"], case["warmup"], case["min"])
    cases.append(case)
path = pathlib.Path(__file__).parent / "learning-rate-schedules.json"
path.write_text(json.dumps(cases, separators=(",", ":")) + "\n")
